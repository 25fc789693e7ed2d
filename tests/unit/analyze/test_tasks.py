"""Suspended tasks by line and by name, on a trace whose figures are worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.recording import analyze, report
from tests.support.trace_builder import MS, SECOND, TraceBuilder

APP = "/home/me/app.py"
LIBRARY = "/usr/lib/python3.12/asyncio/tasks.py"


def suspended_trace() -> TraceBuilder:
    """Two workers sleep on line 10, 2 s and 1 s (the first in two pieces of 1 s); one of them reads on line 20 for 500 ms.
    A task without a stack, of no known name: 250 ms. One task stands for four on line 30: 4 s in a second."""
    builder = TraceBuilder()
    builder.settings["features"] = '["cpu", "wait", "task"]'
    process = builder.process(end_ns=9 * SECOND)
    thread = builder.thread(process, 0, end_ns=9 * SECOND)
    nap = builder.stack((LIBRARY, "sleep", 590, 600), (APP, "nap", 9, 10), (APP, "work", 1, 5))
    read = builder.stack((APP, "read", 19, 20), (APP, "work", 1, 6))
    crowd = builder.stack((APP, "crowd", 29, 30))
    builder.task(1 * SECOND, process, thread, nap, 1 * SECOND, task=1, name="worker-1")
    builder.task(2 * SECOND, process, thread, nap, 1 * SECOND, task=1, name="worker-1")
    builder.task(2 * SECOND, process, thread, nap, 1 * SECOND, task=2, name="worker-22")
    builder.task(4 * SECOND, process, thread, read, 500 * MS, task=2, name="worker-22")
    builder.task(5 * SECOND, process, thread, None, 250 * MS, task=3, name=None)
    builder.task(6 * SECOND, process, thread, crowd, 4 * SECOND, span_ns=1 * SECOND, task=4, name="many")
    return builder


def test_suspended_time_belongs_to_the_innermost_await_of_the_users_own_code(tmp_path: Path) -> None:
    found = report(suspended_trace().write(tmp_path / "t.parquet"))
    lines = {row["line"]: row for row in found["lines"]}
    assert {line: row["suspended_s"] for line, row in lines.items()} == pytest.approx({10: 3, 20: 0.5, 30: 4})
    assert found["unattributed"]["suspended_s"] == pytest.approx(0.25)
    assert found["totals"]["suspended_s"] == pytest.approx(7.75)
    assert {row["function"]: row["suspended_s"] for row in found["functions"]} == pytest.approx(
        {"nap": 3, "read": 0.5, "crowd": 4, "work": 0}
    )
    assert found["traces"][0]["events"]["task"] == 6


def test_suspended_time_is_not_waiting_time_of_a_thread(tmp_path: Path) -> None:
    found = report(suspended_trace().write(tmp_path / "t.parquet"))
    assert found["totals"]["wait_s"] == 0 and {row["wait_s"] for row in found["lines"]} == {0}


def test_tasks_are_grouped_by_the_pattern_of_their_names(tmp_path: Path) -> None:
    rows = report(suspended_trace().write(tmp_path / "t.parquet"), command="tasks")["tasks"]
    told = [(row["name"], row["coroutine"], row["line"], row["function"], row["tasks"]) for row in rows]
    assert told == [
        ("many", "crowd", 30, "crowd", 4),
        ("worker-*", "work", 10, "nap", 2),
        ("worker-*", "work", 20, "read", 1),
        (None, None, None, None, 1),
    ]
    assert [row["suspended_s"] for row in rows] == pytest.approx([4, 3, 0.5, 0.25])


def test_a_window_takes_its_part_of_each_suspension(tmp_path: Path) -> None:
    """From 2.5 s to 6.25 s: half a second each of two pieces on line 10, lines 20 and none whole, a quarter of line 30."""
    trace = suspended_trace().write(tmp_path / "t.parquet")
    lines = {row["line"]: row for row in report(trace, "--from", "2.5", "--to", "6.25")["lines"]}
    assert {line: row["suspended_s"] for line, row in lines.items()} == pytest.approx({10: 1, 20: 0.5, 30: 1})


def test_library_lines_are_charged_where_they_are_asked_for(tmp_path: Path) -> None:
    rows = report(suspended_trace().write(tmp_path / "t.parquet"), "--all", command="tasks")["tasks"]
    assert [(row["file"], row["line"]) for row in rows if row["name"] == "worker-*"] == [(LIBRARY, 600), (APP, 20)]


def test_the_table_can_be_read(tmp_path: Path) -> None:
    trace = suspended_trace().write(tmp_path / "t.parquet")
    text = analyze("tasks", trace).stdout.decode()
    assert any(line.split()[:5] == ["3.00", "s", "2", "worker-*", "work"] for line in text.splitlines())
    sorted_by_name = report(trace, "--sort", "name", "--limit", "2", command="tasks")["tasks"]
    assert [row["name"] for row in sorted_by_name] == ["many", "worker-*"]


def test_a_trace_without_the_sampler_knows_no_suspended_tasks(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.thread(builder.process(), 0)
    trace = builder.write(tmp_path / "t.parquet")
    assert report(trace)["totals"]["suspended_s"] is None and report(trace)["traces"][0]["events"]["task"] is None
    assert "were not recorded" in analyze("tasks", trace).stdout.decode()


def test_a_trace_without_asyncio_says_so(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.settings["features"] = '["wait", "task"]'
    builder.thread(builder.process(), 0)
    trace = builder.write(tmp_path / "t.parquet")
    assert report(trace)["totals"]["suspended_s"] == 0 and report(trace, command="tasks")["tasks"] == []
    assert "No asyncio task or greenlet was observed" in analyze("tasks", trace).stdout.decode()
