"""Labels of requests and jobs: each has the CPU time, waiting time and memory of its own code, in tasks, threads that copy
contexts, and forked children; the rest has none, and the sums are those of the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.package_alone import package_alone
from tests.support.recording import Json, figure, losses, record, report, target

#: Of a figure of ticks (mean 2 ms), and of one of waits: each interpreter is recorded once.
CPU_PERCENT, WAIT_PERCENT = 25, 15


def by_label(rows: list[Json]) -> dict[str, Json]:
    return {",".join(row["labels"]): row for row in rows}


@pytest.mark.samples
def test_each_label_has_what_its_code_cost(python: Interpreter, tmp_path: Path) -> None:
    program = [target("labels"), str(python.version[1] % 2 * 40)]
    done = record(tmp_path / "t.parquet", program, python, ["--cpu-interval", "2ms"], env=package_alone(tmp_path))
    assert done.status == 0, done.stderr.decode()
    used, waited = json.loads(done.stdout)
    found = by_label(report(done.trace, "--by", "endpoint", command="labels")["labels"])
    assert set(found) == {"", *(f"endpoint={each}" for each in ("/cart", "/buy", "/pool", "/child"))}
    for name, true_s in used.items():
        cpu_s = found[f"endpoint={name}" if name else ""]["cpu_s"]
        error = 100 * (cpu_s / true_s - 1)
        figure(f"CPU time of the label {name or 'none'}", python, error, CPU_PERCENT, "percent")
        # What has no label is also the start of the program and of the pools.
        assert abs(error) <= CPU_PERCENT if name else error >= -CPU_PERCENT
    for name, true_s in waited.items():
        error = 100 * (found[f"endpoint={name}"]["wait_s"] / true_s - 1)
        figure(f"waiting time of the label {name}", python, error, WAIT_PERCENT, "percent")
        assert error >= -WAIT_PERCENT
    for name in ("/cart", "/buy"):  # asyncio.sleep, and the wait for the thread
        assert found[f"endpoint={name}"]["suspended_s"] >= 0.45
    assert found["endpoint=/child"]["alloc_bytes"] > 15e6
    whole = report(done.trace)["totals"]
    for field in ("cpu_s", "wait_s", "suspended_s", "alloc_bytes"):
        assert sum(row[field] for row in found.values()) == pytest.approx(whole[field], rel=1e-6, abs=5)
    sets = by_label(report(done.trace, command="labels")["labels"])
    assert {"endpoint=/cart,user=1", "endpoint=/cart", "endpoint=/buy,user=2"} <= set(sets)
    cart = report(done.trace, "--label", "endpoint=/cart")["totals"]
    assert cart["cpu_s"] == pytest.approx(found["endpoint=/cart"]["cpu_s"])
    both = report(done.trace, "--label", "endpoint=/cart", "--label", "user=2")["totals"]
    assert both["cpu_s"] == 0 and both["wait_s"] == 0
    assert {name for name in losses(report(done.trace)) if name.startswith("labels")} == set()
