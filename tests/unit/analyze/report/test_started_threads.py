"""The work of a thread that runs no line of the user's belongs to the line that has started it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.report.report import build_report, query_of
from scalene_trace.analyze.report.threads import build_threads
from scalene_trace.analyze.results.base import Table
from scalene_trace.analyze.results.report import Report
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.cli.render.text import Screen
from scalene_trace.cli.render.threads import threads_text
from tests.support.trace_builder import MS, TraceBuilder

APP, POOL = "/home/me/app.py", "/usr/lib/python3.12/concurrent/futures/thread.py"
START = [("/usr/lib/python3.12/threading.py", "Thread.start", 1, 9), (APP, "fit", 1, 5), (APP, "<module>", 1, 30)]
NATIVE = {"pc_class": "extension", "opcode": "CALL"}


class Recording(TraceBuilder):
    """A main thread with 1 ms on line 20 of the user's."""

    def __init__(self) -> None:
        super().__init__()
        self.root = self.process()
        self.main = self.thread(self.root, cpu_ns=0)
        self.tick(0, self.root, self.main, self.stack((APP, "main", 18, 20)), user_ns=MS)
        self.worker_stack = self.stack((POOL, "worker", 50, 60))

    def started(self, by: int | None, stack: int | None) -> int:
        return self.thread(self.root, cpu_ns=0, starter=by, start_stack=stack)

    def report(self, tmp_path: Path, **selection: Any) -> Report:
        return build_report([self.write(tmp_path / "t.parquet")], Selection(**selection))


def times_of(report: Report) -> dict[int | None, tuple[float, float]]:
    """Python's and native milliseconds of each line, and of no line."""
    rows = [*report.lines, report.unattributed]
    return {each.line: (round(1e3 * (each.python_s or 0)), round(1e3 * (each.native_s or 0))) for each in rows}


def test_it_counts_for_the_line_and_its_functions(tmp_path: Path) -> None:
    builder = Recording()
    worker = builder.started(builder.main, builder.stack(*START))
    builder.tick(1, builder.root, worker, builder.worker_stack, user_ns=4 * MS)
    builder.tick(2, builder.root, worker, builder.worker_stack, user_ns=5 * MS, **NATIVE)
    report = builder.report(tmp_path)
    assert times_of(report) == {5: (4, 5), 20: (1, 0), None: (0, 0)}
    cumulative = {each.function: round(1e3 * (each.cumulative_cpu_s or 0)) for each in report.functions}
    assert cumulative == {"fit": 9, "<module>": 9, "main": 1}
    assert report.outside == []


def test_a_line_of_the_users_in_the_thread_keeps_its_work(tmp_path: Path) -> None:
    builder = Recording()
    worker = builder.started(builder.main, builder.stack(*START))
    own = builder.stack((POOL, "worker", 50, 60), (APP, "job", 40, 41))
    builder.tick(1, builder.root, worker, own, user_ns=4 * MS)
    builder.tick(2, builder.root, worker, None, user_ns=2 * MS)
    assert times_of(builder.report(tmp_path)) == {41: (4, 0), 20: (1, 0), None: (2, 0)}


def test_a_thread_of_a_thread_belongs_to_the_same_line(tmp_path: Path) -> None:
    builder = Recording()
    worker = builder.started(builder.main, builder.stack(*START))
    second = builder.started(worker, builder.worker_stack)
    third = builder.started(second, None)
    builder.tick(1, builder.root, third, builder.worker_stack, user_ns=4 * MS)
    assert times_of(builder.report(tmp_path)) == {5: (4, 0), 20: (1, 0), None: (0, 0)}


@pytest.mark.parametrize("starter", [None, 1, 2, 99])
def test_without_a_line_of_the_users_it_stays_outside(starter: int | None, tmp_path: Path) -> None:
    """Started by no thread that is known, by one without a line, by itself, or by one that is missing."""
    builder = Recording()
    worker = builder.started(starter, builder.worker_stack)
    assert worker == 2
    builder.tick(1, builder.root, worker, builder.worker_stack, user_ns=4 * MS)
    report = builder.report(tmp_path)
    assert times_of(report) == {20: (1, 0), None: (4, 0)}
    assert [(each.name, each.is_standard) for each in report.outside or []] == [("concurrent", True)]


def test_with_all_files_the_library_keeps_its_lines(tmp_path: Path) -> None:
    builder = Recording()
    worker = builder.started(builder.main, builder.stack(*START))
    builder.tick(1, builder.root, worker, builder.worker_stack, user_ns=4 * MS)
    assert times_of(builder.report(tmp_path, all_files=True)) == {60: (4, 0), 20: (1, 0), None: (0, 0)}


def threads_of(builder: Recording, tmp_path: Path) -> Table:
    return build_threads([builder.write(tmp_path / "t.parquet")], Selection(), query_of(Selection()))


def test_a_thread_names_the_line_that_has_started_it(tmp_path: Path) -> None:
    builder = Recording()
    worker = builder.started(builder.main, builder.stack(*START))
    second, unknown = builder.started(worker, builder.worker_stack), builder.started(None, None)
    found = {row.thread: (row.started_file, row.started_line) for row in threads_of(builder, tmp_path).rows}
    assert found == {builder.main: (None, None), worker: (APP, 5), second: (APP, 5), unknown: (None, None)}


def test_many_short_threads_of_a_line_share_a_row(tmp_path: Path) -> None:
    builder = Recording()
    stack = builder.stack(*START)
    builder.tick(0, builder.root, builder.main, None, user_ns=500 * MS)
    names = {"name": "pool"}
    short = [builder.thread(builder.root, cpu_ns=0, starter=1, start_stack=stack, **names) for _ in range(1200)]
    long = builder.thread(builder.root, cpu_ns=0, starter=1, start_stack=stack, **names)
    other = builder.thread(builder.root, cpu_ns=0, **names)
    for thread in short:
        builder.tick(1, builder.root, thread, builder.worker_stack, user_ns=MS // 10)
    builder.tick(2, builder.root, long, builder.worker_stack, user_ns=100 * MS)
    table = threads_of(builder, tmp_path)
    rows = [line.split() for line in threads_text(table, Screen(width=200))]
    assert len(table.rows) == 1203
    assert [row[:2] for row in rows if row[:1] == ["1"]] == [
        ["1", "1"],
        ["1", "×1,200"],
        ["1", str(long)],
        ["1", str(other)],
    ]
    (group,) = (row for row in rows if "×1,200" in row)
    assert group[-1] == "app.py:5" and " ".join(group).count("120 ms") == 2  # CPU, Python
    assert "1,203 threads in all" in " ".join(" ".join(row) for row in rows)
    limited = list(threads_text(replace(table, query=table.query | {"limit": 2000}), Screen(width=200)))
    assert len([line for line in limited if line.split()[:1] == ["1"]]) == 1203
