"""``--cpu-budget``: what the trace says of it, and that the footprint is right although Python's allocators are left alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.recording import losses, record, report, rows, target

COST = r"cpu-budget=0\.5%: since the recording began, cost [\d.]+ % .*, recorded [\d.]+ % .*, cpu-interval=60ms, alloc-interval=\d+"


def test_a_recording_with_a_budget_says_what_it_did(any_python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    done = record(trace, [target("keeps_floats"), "3"], any_python, ["--cpu-budget", "0.5%"])
    assert done.status == 0
    settings = {row["name"]: row["value"] for row in rows(trace, "setting")}
    assert (settings["cpu_budget"], settings["cpu_interval_ns"]) == ("0.5%", "60000000")
    marks = rows(trace, "mark")
    assert {row["text"] for row in marks if row["what"] == "pause"} == {"cpu-budget 0.5%"}
    assert any(re.match(COST, row["text"]) for row in marks if row["what"] == "set"), marks
    known = report(trace)
    assert losses(known)["arenas_only"] == 1
    (info,) = known["traces"]
    assert 0.001 < info["wall_s"] - info["paused_s"] < 0.9 * info["wall_s"]
    assert {row["pool_bytes"] for row in rows(trace, "heap")} == {None}
    assert "chunk" not in {row["allocator"] for row in rows(trace, "alloc") if row["size_bytes"] == 1 << 20}
    kept = int(done.stdout.split()[-1])
    most = max(row["footprint_bytes"] for kind in ("memory", "heap") for row in rows(trace, kind))
    assert most == pytest.approx(kept + 3_000_000, abs=3_500_000)  # Python itself, and the rest of an arena
