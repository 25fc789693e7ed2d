"""The commands that print a report or a table on what was recorded."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from .shared.answers import Answer, Request, answering
from .shared.options import UsageError

AllLines = Annotated[bool, typer.Option("--all-lines", help="Show every line that has a sample.")]
Legend = Annotated[
    bool, typer.Option("--legend/--no-legend", help="Explain the columns and marks at the end.", show_default=False)
]
By = Annotated[
    str, typer.Option("--by", metavar="NAME", help="What a row is: a line, a function, a type or an allocator.")
]
LabelNames = Annotated[
    list[str] | None,
    typer.Option(
        "--by", metavar="NAME", help="Add up by the values of this label. May be repeated.", show_default=False
    ),
]
TemporarySeconds = Annotated[
    float | None,
    typer.Option(
        "--temporary-s",
        min=0,
        metavar="SECONDS",
        help="Count memory as temporary too if it lived at most so long.",
        show_default=False,
    ),
]
TemporaryAllocations = Annotated[
    int | None,
    typer.Option(
        "--temporary-allocations",
        min=0,
        metavar="N",
        help="Count memory as temporary too if at most N other allocations were made before it was freed.",
        show_default=False,
    ),
]


@answering()
def report(request: Request, all_lines: AllLines = False, legend: Legend = True) -> Answer[Any]:
    """Show which lines take time and memory, with their source.

    The report begins with findings: at most six sentences on what matters most, where the figures bear it. A line is
    shown if it has 1 % of the time or of the memory, with the lines before and after it. The lines are those of the
    program's own code; --all adds the lines of libraries.

    Examples:
      scalene-analyze trace.parquet
      scalene-analyze report --sort alloc_bytes --limit 20 trace.parquet
      scalene-analyze report --from 10 --to 20 --process 1 trace.parquet
      scalene-analyze report --json 'run-*.parquet'
    """
    from ...analyze.report.report import build_report
    from ...analyze.results.report import Line, report_json
    from ..render.report import report_text

    result = build_report(request.traces, request.selection, request.order(Line), request.limit)
    return Answer(result, report_json, partial(report_text, all_lines=all_lines, has_legend=legend))


@answering()
def functions(request: Request) -> Answer[Any]:
    """Show which functions take time and memory.

    The figures of a function are those of its own lines; cumulative ones ("all" in the table) include everything that
    it calls: CPU time, waiting time, memory. Recursion counts once.

    Examples:
      scalene-analyze functions trace.parquet
      scalene-analyze functions --sort cumulative_cpu_s --limit 10 trace.parquet
      scalene-analyze functions --sort cumulative_alloc_bytes trace.parquet
      scalene-analyze functions --all --json trace.parquet
    """
    from ...analyze.report.report import build_report
    from ...analyze.results.base import Table, table_json
    from ...analyze.results.report import Function, Report
    from ..render.report import functions_text

    def as_json(result: Report) -> dict[str, Any]:
        return table_json(Table("functions", result.query, result.traces, result.functions))

    result = build_report(request.traces, request.selection, request.order(Function), request.limit)
    return Answer(result, as_json, functions_text)


@answering()
def leaks(request: Request) -> Answer[Any]:
    """Show which lines leak memory, how fast, and how likely.

    A leak is memory that a line allocates again and again and that stays: at least 18 of its sampled blocks are not freed,
    and its live memory keeps growing.

    Examples:
      scalene-analyze leaks trace.parquet
      scalene-analyze leaks --from 60 trace.parquet
      scalene-analyze leaks --json trace.parquet
    """
    from ...analyze.leaks.leaks import build_leaks
    from ...analyze.results.base import table_json
    from ...analyze.results.report import Leak
    from ..render.memory import leaks_text

    table = build_leaks(request.traces, request.selection, request.query, request.order(Leak), request.limit)
    return Answer(table, table_json, leaks_text)


@answering()
def memory(
    request: Request,
    by: By = "line",
    temporary_s: TemporarySeconds = None,
    temporary_allocations: TemporaryAllocations = None,
    legend: Legend = True,
) -> Answer[Any]:
    """Show what allocates memory, and what is resident.

    Memory is temporary if the line that allocated it also freed it, or if it lived as briefly as the --temporary
    options say.

    Examples:
      scalene-analyze memory trace.parquet
      scalene-analyze memory --by type --sort live_at_peak_bytes trace.parquet
      scalene-analyze memory --temporary-s 0.1 trace.parquet
    """
    from ...analyze.report.memory import BY, MemoryQuery, build_memory
    from ...analyze.results.memory import MemoryRow, memory_json
    from ..render.memory import memory_text

    if by not in BY:
        raise UsageError(f"--by {by} is not known. It can be {', '.join(BY[:-1])} or {BY[-1]}.")
    if temporary_s is not None and not temporary_s < 1e9:
        raise UsageError("--temporary-s is a number of seconds below 1e9.")
    if temporary_allocations is not None and temporary_allocations > 10**15:
        raise UsageError("--temporary-allocations is a number of allocations, at most 1e15.")
    asked = MemoryQuery(by, temporary_s, temporary_allocations)
    query = request.query | vars(asked)
    order = request.order(MemoryRow) or "alloc_bytes"
    result = build_memory(request.traces, request.selection, asked, query, order, request.limit)
    return Answer(result, memory_json, partial(memory_text, has_legend=legend))


@answering(selects=("from_s", "to_s", "process", "mark"), has_sort=False)
def timeline(request: Request) -> Answer[Any]:
    """Show the memory of the program over time.

    The output has at most 100 points, or as many as --limit says. Points are left out where they change the curve
    least.

    Examples:
      scalene-analyze timeline trace.parquet
      scalene-analyze timeline --from 10 --to 20 --limit 500 trace.parquet
      scalene-analyze timeline --process 2 --json trace.parquet
    """
    from ...analyze.report.timeline import build_timeline
    from ...analyze.results.timeline import timeline_json
    from ..render.timeline import timeline_text

    limit = 100 if request.limit is None else request.limit
    return Answer(build_timeline(request.traces, request.selection, request.query, limit), timeline_json, timeline_text)


@answering(selects=("from_s", "to_s", "process", "thread", "mark", "label"))
def threads(request: Request) -> Answer[Any]:
    """Show the CPU time of each thread, and what it waited for.

    Examples:
      scalene-analyze threads trace.parquet
      scalene-analyze threads --sort wait_s --limit 10 trace.parquet
      scalene-analyze threads --process 1 --json trace.parquet
    """
    from ...analyze.report.threads import build_threads
    from ...analyze.results.base import table_json
    from ...analyze.results.threads import ThreadInfo
    from ..render.threads import threads_text

    table = build_threads(request.traces, request.selection, request.query, request.order(ThreadInfo), request.limit)
    return Answer(table, table_json, threads_text)


@answering()
def tasks(request: Request) -> Answer[Any]:
    """Show where asyncio tasks and greenlets of gevent were suspended, and for how long.

    A row is a task name, a coroutine and a line. Names that differ only in numbers are one row (Task-1, Task-2). Times
    are summed over the tasks.

    Examples:
      scalene-analyze tasks trace.parquet
      scalene-analyze tasks --sort tasks --limit 10 trace.parquet
      scalene-analyze tasks --json trace.parquet
    """
    from ...analyze.report.tasks import build_tasks
    from ...analyze.results.base import table_json
    from ...analyze.results.threads import TaskRow
    from ..render.threads import tasks_text

    table = build_tasks(request.traces, request.selection, request.query, request.order(TaskRow), request.limit)
    return Answer(table, table_json, tasks_text)


@answering()
def labels(request: Request, by: LabelNames = None) -> Answer[Any]:
    """Show what requests and jobs cost, by the labels that the program gave them.

    A row is a set of labels (scalene_trace.recorder.label), or with --by a value of one label. Code without a label has a
    row of its own, so the rows add up to the report. --label selects the samples of one label, in most commands.

    Examples:
      scalene-analyze labels trace.parquet
      scalene-analyze labels --by endpoint --sort wait_s trace.parquet
      scalene-analyze report --label endpoint=/cart trace.parquet
    """
    from ...analyze.labels.costs import build_labels
    from ...analyze.results.base import table_json
    from ...analyze.results.labels import LabelRow
    from ..render.labels import labels_text

    names, query = tuple(by or ()), request.query | {"by": list(by or ())}
    table = build_labels(request.traces, request.selection, names, query, request.order(LabelRow), request.limit)
    return Answer(table, table_json, labels_text)


@answering()
def libraries(request: Request) -> Answer[Any]:
    """Show the time in native libraries and their functions, by line.

    Native time is the time of builtins and extensions, and of the threads that libraries start themselves (BLAS,
    OpenMP). It is charged to the first extension on the native stack; without one, to the interpreter or the C library.

    Examples:
      scalene-analyze libraries trace.parquet
      scalene-analyze libraries --sort parallel_native_s --limit 10 trace.parquet
      scalene-analyze libraries --json trace.parquet
    """
    from ...analyze.report.libraries import build_libraries
    from ...analyze.results.base import table_json
    from ...analyze.results.libraries import LibraryRow
    from ..render.native import libraries_text

    table = build_libraries(request.traces, request.selection, request.query, request.order(LibraryRow), request.limit)
    return Answer(table, table_json, libraries_text)


@answering(selects=("process",))
def processes(request: Request) -> Answer[Any]:
    """Show the process tree: times, CPU time and memory.

    A row is one program image: exec starts a new row for the same process. Reports sum all processes; --process selects
    by the ids of this table.

    Examples:
      scalene-analyze processes trace.parquet
      scalene-analyze processes --sort peak_rss_bytes --limit 5 trace.parquet
      scalene-analyze report --process 3 trace.parquet
    """
    from ...analyze.report.processes import build_processes
    from ...analyze.results.base import table_json
    from ...analyze.results.trace import ProcessInfo
    from ..render.processes import processes_text

    order = request.order(ProcessInfo)
    table = build_processes(request.traces, request.selection.processes, request.query, order, request.limit)
    return Answer(table, table_json, processes_text)


@answering(selects=(), has_sort=False, has_limit=False)
def info(request: Request) -> Answer[Any]:
    """Show settings, host, processes and losses of a recording.

    Examples:
      scalene-analyze info trace.parquet
      scalene-analyze info --json trace.parquet
    """
    from ...analyze.results.trace import info_json
    from ...analyze.trace.info import build_info
    from ..render.processes import info_text

    return Answer(build_info(request.traces, request.query), info_json, info_text)
