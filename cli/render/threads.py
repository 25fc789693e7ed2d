"""Threads, and tasks of asyncio, as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from ...analyze.results.base import Table
from ...analyze.results.report import WAIT_WORDS
from ...analyze.results.threads import TaskRow, ThreadInfo
from ...analyze.results.trace import TraceInfo
from ...formats.units import seconds
from .recording import trace_lines
from .table import columns_text, fitting, wrap
from .text import Screen, clean, clean_name, fit

_THREAD_TITLES = [
    "process", "thread", "tid", "name", "start", "end", "CPU", "Python", "native", "unclassified", "system",
    "wait", "sleep", "waits in", "disk", "runnable", "GIL", "started at",
]  # fmt: skip
_WAITS_IN, _OPEN = (_THREAD_TITLES.index(title) for title in ("waits in", "unclassified"))
_THREAD_TEXTS = {"name", "waits in", "started at"}
#: What a terminal leaves out until the others fit, the first ones first.
_SPARE = [
    "start", "end", "tid", "disk", "system", "runnable", "GIL", "native", "Python", "process", "sleep", "started at", "waits in",
]  # fmt: skip
_TASK_TITLES = ["suspended", "tasks", "name", "coroutine", "line"]
_TASK_NUMBERS = {0, 1}
#: Of more threads than this, those with a smaller share of the CPU time and of the waiting time share rows.
_MOST_SINGLE, _SMALL_SHARE = 30, 0.01
#: Columns of a terminal for a name: programs name threads and tasks as they like, and times stand behind the name.
_NAME_WIDTH = 24
_TIMES = ("cpu_s", "python_s", "native_s", "unclassified_s", "system_s", "wait_s")


def threads_text(table: Table, screen: Screen) -> Iterator[str]:
    """A row for each thread of each trace. Of many, short ones that the same line has started share a row, unless the rows
    were sorted or limited."""
    for index, trace in enumerate(table.traces, start=1):
        yield from trace_lines(trace, screen)
        yield ""
        found = [row for row in table.rows if row.trace == index]
        if not found:
            yield "No thread is in the selection."
            continue
        is_asked = table.query["sort"] is not None or table.query["limit"] is not None
        groups = [[row] for row in found] if is_asked or len(found) <= _MOST_SINGLE else _grouped(found)
        times = screen.glyph("×", "x")
        cells = [_thread_row(rows, times, screen) for rows in groups]
        titles = _THREAD_TITLES
        for place, name in ((_WAITS_IN, "waits_in"), (_OPEN, "unclassified_s")):
            if not any(getattr(row, name) for row in found):
                titles, *cells = ([*row[:place], *row[place + 1 :]] for row in (titles, *cells))
        kept = fitting(titles, cells, screen, _spare(table.query["sort"]))
        numbers = {index for index, place in enumerate(kept) if titles[place] not in _THREAD_TEXTS}
        shown = [[row[place] for place in kept] for row in (titles, *cells)]
        yield from columns_text(shown[0], shown[1:], screen, numbers)
        if len(kept) < len(titles):
            hidden = ", ".join(title for place, title in enumerate(titles) if place not in kept)
            yield ""
            yield from wrap(f"Not shown in {screen.width} columns: {hidden}. --json has them.", screen.width)
        if len(groups) < len(found):
            yield ""
            yield from wrap(
                f"Rows with {times} stand for several threads with less than 1 % of all CPU and waiting time each: {len(found):,} "
                "threads in all. --sort FIELD shows each.",
                screen.width,
            )


def _spare(sort: str | None) -> list[str]:
    """The titles of columns that may be left out: not the one that the table is sorted by."""
    return [title for title in _SPARE if title.lower().replace(" ", "_") != (sort or "").removesuffix("_s")]


def _grouped(rows: list[ThreadInfo]) -> list[list[ThreadInfo]]:
    """The threads of each row, in the order of the first ones."""
    cpu_s, wait_s = (sum(getattr(row, name) or 0.0 for row in rows) for name in ("cpu_s", "wait_s"))
    groups: dict[tuple[object, ...], list[ThreadInfo]] = {}
    for row in rows:
        is_small = (row.cpu_s or 0.0) <= _SMALL_SHARE * cpu_s and (row.wait_s or 0.0) <= _SMALL_SHARE * wait_s
        what = (_without_numbers(row), row.started_file, row.started_line) if is_small else (row.thread,)
        groups.setdefault((row.process, is_small, *what), []).append(row)
    return list(groups.values())


def _without_numbers(row: ThreadInfo) -> str | None:
    """The thread's name with ``*`` for each number: names of pools and of threads without a name differ in numbers alone."""
    return row.shown_name and re.sub(r"[0-9]+", "*", row.shown_name)


def _thread_row(rows: list[ThreadInfo], times: str, screen: Screen) -> list[str]:
    first = rows[0]
    starts, ends = ([getattr(row, name) for row in rows] for name in ("start_s", "end_s"))
    start_s = min((start for start in starts if start is not None), default=None)
    end_s = None if None in ends else max(ends)
    sums = [_total([getattr(row, name) for row in rows]) for name in _TIMES]
    sums += [_total([getattr(row.waits, f"{name}_s") for row in rows]) for name in WAIT_WORDS]
    names = {row.shown_name for row in rows}
    name = fit(
        clean_name((first.shown_name if len(names) == 1 else _without_numbers(first)) or ""), _NAME_WIDTH, screen
    )
    number = str(first.thread) if len(rows) == 1 else f"{times}{len(rows):,}"
    tid = "" if first.tid is None or len(rows) > 1 else str(first.tid)
    cells = [str(first.process), number, tid, name, *map(seconds, (start_s, end_s, *sums)), started_at(first)]
    cells.insert(_WAITS_IN, waits_in(rows, screen))
    return cells


def waits_in(rows: Sequence[ThreadInfo], screen: Screen) -> str:
    """The library in which all of the threads wait; "" if there is none, or if they differ."""
    libraries = {row.waits_in for row in rows}
    found = fit(clean_name(libraries.pop() or ""), _NAME_WIDTH, screen) if len(libraries) == 1 else ""
    return f"{found}, probably" if any(row.waits_in_guess for row in rows) and found else found


def started_at(row: ThreadInfo) -> str:
    """The line that has started the thread, "" if it is not known."""
    return f"{clean(PurePath(row.started_file).name)}:{row.started_line}" if row.started_file else ""


def _total(values: list[float | None]) -> float | None:
    """The sum of what is known; None = nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def tasks_text(table: Table, screen: Screen) -> Iterator[str]:
    """A row for each name, coroutine and line at which tasks of a trace were suspended."""
    for index, trace in enumerate(table.traces, start=1):
        yield from trace_lines(trace, screen)
        yield ""
        rows = [_task_row(row, screen) for row in table.rows if row.trace == index]
        if rows:
            yield from columns_text(_TASK_TITLES, rows, screen, _TASK_NUMBERS)
        else:
            yield _no_tasks(trace)


def _no_tasks(trace: TraceInfo) -> str:
    if trace.events["task"] is None:
        return "Asyncio tasks were not recorded (--no-wait, or an older version of scalene-record)."
    return "No asyncio task or greenlet was observed while it was suspended."


def _task_row(row: TaskRow, screen: Screen) -> list[str]:
    place = "" if row.file is None else f"{clean(PurePath(row.file).name)}:{row.line}"
    source = f"  {clean(row.source.strip())}" if row.source else ""
    names = ["?" if text is None else fit(clean_name(text), _NAME_WIDTH, screen) for text in (row.name, row.coroutine)]
    return [seconds(row.suspended_s), f"{row.tasks:,}", *names, place + source]
