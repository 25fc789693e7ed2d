"""``scalene-analyze threads``: what each thread spent its time on."""

from __future__ import annotations

from collections.abc import Iterator

from ...analyze.results.base import Table
from ...analyze.results.threads import ThreadInfo
from ...analyze.trace.selection import Selection
from ..render.report import columns_text, trace_lines
from ..render.text import Screen, clean, seconds
from .options import EVERYTHING, Json, Limit, NoColor, Paths, Sort, checked_sort, given_paths, selecting
from .output import print_json, print_lines, screen

_NAMES = ["process", "thread", "tid", "name", "start", "end", "CPU", "Python", "native", "system"]
_WAITS = ["wait", "asleep", "disk", "CPU wait", "GIL"]
_LEFT = {3}


@selecting("from_s", "to_s", "process", "thread")
def threads(
    paths: Paths,
    json_: Json = False,
    limit: Limit = None,
    sort: Sort = None,
    selection: Selection = EVERYTHING,
    no_color: NoColor = False,
) -> None:
    """What each thread spent its time on: CPU, and waiting by what it waited for."""
    from ...analyze.report.report import query_of
    from ...analyze.report.threads import build_threads
    from ...analyze.results.base import table_json

    query = query_of(selection, sort, limit)
    table = build_threads(given_paths(paths), selection, query, checked_sort(sort, ThreadInfo), limit)
    if json_:
        return print_json(table_json(table))
    return print_lines(threads_text(table, screen(no_color)))


def threads_text(table: Table, on: Screen) -> Iterator[str]:
    """A row for each thread, below what was recorded."""
    for index, trace in enumerate(table.traces, start=1):
        yield from trace_lines(trace, on)
        yield ""
        rows = [_row(row) for row in table.rows if row.trace == index]
        names = _NAMES + _WAITS
        yield from columns_text(names, rows, on, set(range(len(names))) - _LEFT)


def _row(row: ThreadInfo) -> list[str]:
    waits = (row.wait_s, row.waits.sleep_s, row.waits.disk_s, row.waits.runnable_s, row.waits.gil_s)
    times = (row.start_s, row.end_s, row.cpu_s, row.python_s, row.native_s, row.system_s, *waits)
    name = clean(row.name) if row.name is not None else ""
    tid = "" if row.tid is None else str(row.tid)
    return [str(row.process), str(row.thread), tid, name, *map(seconds, times)]
