"""Threads, and tasks of asyncio, as text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from ...analyze.results.base import Table
from ...analyze.results.threads import TaskRow, ThreadInfo
from ...analyze.results.trace import TraceInfo
from ...formats.units import seconds
from .recording import trace_lines
from .table import columns_text
from .text import Screen, clean

_THREAD_TITLES = [
    "process", "thread", "tid", "name", "start", "end", "CPU", "Python", "native", "system",
    "wait", "asleep", "disk", "CPU wait", "GIL",
]  # fmt: skip
_THREAD_NUMBERS = set(range(len(_THREAD_TITLES))) - {3}
_TASK_TITLES = ["suspended", "tasks", "name", "coroutine", "line"]
_TASK_NUMBERS = {0, 1}


def threads_text(table: Table, screen: Screen) -> Iterator[str]:
    """A row for each thread of each trace."""
    for index, trace in enumerate(table.traces, start=1):
        yield from trace_lines(trace, screen)
        yield ""
        rows = [_thread_row(row) for row in table.rows if row.trace == index]
        yield from columns_text(_THREAD_TITLES, rows, screen, _THREAD_NUMBERS)


def _thread_row(row: ThreadInfo) -> list[str]:
    waits = (row.wait_s, row.waits.sleep_s, row.waits.disk_s, row.waits.runnable_s, row.waits.gil_s)
    times = (row.start_s, row.end_s, row.cpu_s, row.python_s, row.native_s, row.system_s, *waits)
    name = clean(row.name) if row.name is not None else ""
    tid = "" if row.tid is None else str(row.tid)
    return [str(row.process), str(row.thread), tid, name, *map(seconds, times)]


def tasks_text(table: Table, screen: Screen) -> Iterator[str]:
    """A row for each name, coroutine and line at which tasks of a trace were suspended."""
    for index, trace in enumerate(table.traces, start=1):
        yield from trace_lines(trace, screen)
        yield ""
        rows = [_task_row(row) for row in table.rows if row.trace == index]
        if rows:
            yield from columns_text(_TASK_TITLES, rows, screen, _TASK_NUMBERS)
        else:
            yield _no_tasks(trace)


def _no_tasks(trace: TraceInfo) -> str:
    if trace.events["task"] is None:
        return "Asyncio tasks were not recorded (--no-wait, or an older version of scalene-record)."
    return "No asyncio task was observed while it was suspended."


def _task_row(row: TaskRow) -> list[str]:
    place = "" if row.file is None else f"{clean(PurePath(row.file).name)}:{row.line}"
    source = f"  {clean(row.source.strip())}" if row.source else ""
    names = ["?" if text is None else clean(text) for text in (row.name, row.coroutine)]
    return [seconds(row.suspended_s), f"{row.tasks:,}", *names, place + source]
