"""Suspended greenlets of gevent: their time is on the lines where they wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.recording import figure, hold_median, line_of, lines_of, losses, record, report, rows, target

WITHIN_PERCENT = 3
LINES = ("long", "short", "shorter", "main")


def suspended(trace: Path) -> dict[str, float]:
    """Suspended time of the marked lines."""
    found = lines_of(report(trace), target("greenlets"))
    lines = {mark: line_of("greenlets", mark) for mark in (*LINES, "consumer")}
    return {mark: found[line]["suspended_s"] if line in found else 0 for mark, line in lines.items()}


def test_greenlets_are_on_their_lines_under_their_names(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("greenlets"), "6", "0.6"], python)
    found, tasks = suspended(done.trace), report(done.trace, command="tasks")["tasks"]
    assert all(found[mark] > 0 for mark in LINES)
    assert found["consumer"] == 0, "a greenlet that others switch to does not wait for the hub"
    names = {row["line"]: row["name"] for row in tasks}
    assert names[line_of("greenlets", "main")] == "greenlet"
    assert names[line_of("greenlets", "short")] == "Worker"
    of_long = {row["name"]: row["tasks"] for row in tasks if row["line"] == line_of("greenlets", "long")}
    assert of_long == {"the first *": 1, "Worker": 2}
    processes = {row["process"] for row in rows(done.trace, "task")}
    assert len(processes) == 1, "a forked child has copies of the greenlets, but no hub that runs them"
    assert not {"greenlets_unread", "tasks_torn"} & set(losses(report(done.trace)))


@pytest.mark.measures
def test_suspended_time_of_greenlets(python: Interpreter, tmp_path: Path) -> None:
    def measure(trace: Path) -> dict[str, float]:
        done = record(trace, [target("greenlets"), "20", "12"], python)
        found, errors = suspended(trace), {}
        for mark in LINES:
            errors[mark] = 100 * (found[mark] / done.facts[mark] - 1)
            figure(f"suspended time of greenlets, {mark}", python, errors[mark], WITHIN_PERCENT, "percent")
        return errors

    hold_median(measure, tmp_path, WITHIN_PERCENT)
