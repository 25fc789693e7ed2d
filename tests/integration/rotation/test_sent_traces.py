"""``-o URL --rotate``: what a recorder that was killed, and one without a bucket, have left is sent by the next one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import tests.support.recording as recording
from scalene_trace.formats.trace.integrity import check_trace
from tests.support.paths import PATIENCE_S
from tests.support.recording import environment, run, target, tool

SIZE = 50_021
OPTIONS = ["--rotate", "1s", "--alloc-interval", "1", "--label", "service=shop"]


def command(tmp_path: Path, *program: str | Path) -> list[str]:
    words = [*tool("scalene-record"), "-o", f"file://{tmp_path}/bucket/traces", "--spool", tmp_path / "spool", *OPTIONS]
    return [*map(str, words), "--python", sys.executable, *map(str, program)]


def sums(folder: Path) -> tuple[int, Counter[str]]:
    """Allocations, and CPU time (ns) by thread; each trace counts once."""
    ids, cpu_ns, done = set(), Counter[str](), 0
    for trace in folder.rglob("*.parquet"):
        ids.add(check_trace(trace).trace_id)
        done += sum(row["size_bytes"] in (SIZE, SIZE + 1) for row in recording.rows(trace, "alloc"))
        for row in recording.rows(trace, "thread"):
            cpu_ns[row["python_name"]] += row["cpu_ns"]
    assert len(ids) == len([*folder.rglob("*.parquet")])
    return done, cpu_ns


def test_what_a_killed_recorder_left_is_sent_by_the_next_one(tmp_path: Path) -> None:
    (blocked := tmp_path / "bucket").write_text("in the way")
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        words = command(tmp_path, target("steady_work"), "orphaned")
        killed = subprocess.Popen(words, stdout=out, stderr=err, env=environment(None), start_new_session=True)
    until = time.monotonic() + PATIENCE_S
    spool = tmp_path / "spool"
    while len([*spool.rglob("date=*/*.parquet")]) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    while not (text := (tmp_path / "out").read_text()).endswith("\n") and time.monotonic() < until:
        time.sleep(0.05)
    assert (tmp_path / "err").read_text().count(f"cannot be sent to file://{tmp_path}/bucket/traces") == 1
    blocked.unlink()
    code = "import os, sys; print(sorted(os.environ)); sys.exit(7)"
    done = run(command(tmp_path, "-c", code), env=environment(None))
    assert (done.status, done.stderr) == (7, b"")
    added = {*eval(done.stdout)} - environment(None).keys()
    assert added == {"SCALENE_TRACE_SPOOL", "LD_PRELOAD"} - environment(None).keys()
    facts: dict[str, Any] = json.loads(text)
    (own,) = spool.iterdir()
    assert [each.name for each in own.rglob("*") if not each.is_dir()] == ["destination.json"]
    count, cpu_ns = sums(tmp_path / "bucket")
    assert count == sum(each["done"] for each in facts.values())
    for name, each in facts.items():
        assert 0 <= cpu_ns[name] / 1e9 - each["cpu_s"] < 0.02, name
