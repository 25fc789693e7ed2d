"""``scalene-analyze tasks``: where tasks of asyncio were suspended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from ...analyze.results.base import Table
from ...analyze.results.threads import TaskRow
from ...analyze.results.trace import TraceInfo
from ...analyze.trace.selection import Selection
from ..render.report import columns_text, trace_lines
from ..render.text import Screen, clean, seconds
from .options import EVERYTHING, Json, Limit, NoColor, Paths, Sort, checked_sort, given_paths, selecting
from .output import print_json, print_lines, screen

_NAMES = ["suspended", "tasks", "name", "coroutine", "line"]
_LEFT = {2, 3, 4}


@selecting()
def tasks(
    paths: Paths,
    json_: Json = False,
    limit: Limit = None,
    sort: Sort = None,
    selection: Selection = EVERYTHING,
    no_color: NoColor = False,
) -> None:
    """Where tasks of asyncio were suspended, and for how long: by name, coroutine and line.

    Names that differ in numbers alone are one. Times are summed over the tasks.
    """
    from ...analyze.report.report import query_of
    from ...analyze.report.tasks import build_tasks
    from ...analyze.results.base import table_json

    query = query_of(selection, sort, limit)
    table = build_tasks(given_paths(paths), selection, query, checked_sort(sort, TaskRow), limit)
    if json_:
        return print_json(table_json(table))
    return print_lines(tasks_text(table, screen(no_color)))


def tasks_text(table: Table, on: Screen) -> Iterator[str]:
    """A row for each name, coroutine and line, below what was recorded."""
    for index, trace in enumerate(table.traces, start=1):
        yield from trace_lines(trace, on)
        yield ""
        rows = [row for row in table.rows if row.trace == index]
        if rows:
            yield from columns_text(_NAMES, [_row(row) for row in rows], on, set(range(len(_NAMES))) - _LEFT)
        else:
            yield _nothing(trace)


def _nothing(trace: TraceInfo) -> str:
    if trace.events["task"] is None:
        return "Tasks of asyncio were not recorded (--no-wait, or an older recorder)."
    return "No task of asyncio was met suspended."


def _row(row: TaskRow) -> list[str]:
    place = "" if row.file is None else f"{clean(PurePath(row.file).name)}:{row.line}"
    source = f"  {clean(row.source.strip())}" if row.source else ""
    names = ["?" if text is None else clean(text) for text in (row.name, row.coroutine)]
    return [seconds(row.suspended_s), f"{row.tasks:,}", *names, place + source]
