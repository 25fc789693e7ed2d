"""The commands about native libraries and about process trees."""

from __future__ import annotations

from ...analyze.trace.selection import Selection
from .options import EVERYTHING, Json, Limit, NoColor, Paths, Sort, checked_sort, given_paths, selecting
from .output import print_json, print_lines, screen


@selecting()
def libraries(
    paths: Paths,
    json_: Json = False,
    limit: Limit = None,
    sort: Sort = None,
    selection: Selection = EVERYTHING,
    no_color: NoColor = False,
) -> None:
    """Which native libraries, and which functions in them, take the time, and for which line.

    Native time is that of builtins and extensions, with the threads that libraries start for themselves (BLAS, OpenMP).
    It belongs to the first extension on the native stack, without one to the interpreter or the C library.

    Examples:

        scalene-analyze libraries trace.parquet

        scalene-analyze libraries --sort parallel_native_s --limit 10 trace.parquet

        scalene-analyze libraries --json trace.parquet
    """
    from ...analyze.report.libraries import build_libraries
    from ...analyze.report.report import query_of
    from ...analyze.results.base import table_json
    from ...analyze.results.libraries import LibraryRow

    order = checked_sort(sort, LibraryRow)
    table = build_libraries(given_paths(paths), selection, query_of(selection, sort, limit), order, limit)
    if json_:
        return print_json(table_json(table))
    from ..render.native import libraries_text

    return print_lines(libraries_text(table, screen(no_color)))


@selecting("process")
def processes(
    paths: Paths,
    json_: Json = False,
    limit: Limit = None,
    sort: Sort = None,
    selection: Selection = EVERYTHING,
    no_color: NoColor = False,
) -> None:
    """The process tree: who started whom, how, for how long, with what CPU time and memory.

    A row is an image: exec starts a new one in the same process. Reports add up all of them; --process ID, with an id
    of this table, selects.

    Examples:

        scalene-analyze processes trace.parquet

        scalene-analyze processes --sort peak_rss_bytes --limit 5 trace.parquet

        scalene-analyze report --process 3 trace.parquet
    """
    from ...analyze.report.processes import build_processes
    from ...analyze.report.report import query_of
    from ...analyze.results.base import table_json
    from ...analyze.results.trace import ProcessInfo

    query = query_of(selection, sort, limit)
    table = build_processes(given_paths(paths), selection.processes, query, checked_sort(sort, ProcessInfo), limit)
    if json_:
        return print_json(table_json(table))
    from ..render.native import processes_text

    return print_lines(processes_text(table, screen(no_color)))
