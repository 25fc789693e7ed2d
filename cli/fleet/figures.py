"""The commands of ``scalene-analyze fleet`` that print sums over traces: lines, functions, memory, leaks, stacks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ..analyze.shared.answers import Answer
from ..analyze.shared.options import UsageError, check_name
from ..analyze.shared.output import check_output, save
from ..analyze.shared.pages import check_target
from .shared import FleetRequest, asking

FORMAT_NAMES = ("collapsed", "speedscope", "pprof", "otlp", "html")
Output = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="FILE", help="File to write the stacks to; - is stdout.", show_default="stdout"
    ),
]
FormatName = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help=f"One of {', '.join(FORMAT_NAMES)}; html is a page for a browser.",
        autocompletion=lambda: list(FORMAT_NAMES),
        show_default="html for *.html, else collapsed",
    ),
]


@asking()
def report(request: FleetRequest) -> Answer[Any]:
    """Show which lines cost all traces together most.

    A line is the same in all traces if its file, function and source are: it may have moved. The columns traces and
    hosts say in how many of them it has the figure that the rows are sorted by.

    Examples:
      scalene-analyze fleet report /traces
      scalene-analyze fleet report --where version=1.4.2 --since 7d /traces
      scalene-analyze fleet report --per request --sort wait_s --json /traces
    """
    return _report(request, "report", "cpu_s")


@asking()
def functions(request: FleetRequest) -> Answer[Any]:
    """Show which functions cost all traces together most.

    Cumulative figures ("all" in the table) include everything that a function calls.

    Examples:
      scalene-analyze fleet functions /traces
      scalene-analyze fleet functions --sort cumulative_cpu_s --limit 10 /traces
    """
    return _report(request, "functions", "cpu_s")


@asking()
def memory(request: FleetRequest) -> Answer[Any]:
    """Show which lines hold memory at the ends of all traces together.

    Examples:
      scalene-analyze fleet memory /traces
      scalene-analyze fleet memory --sort live_at_peak_bytes /traces
      scalene-analyze fleet memory --host worker-17 /traces
    """
    return _report(request, "memory", "live_at_end_bytes")


def _report(request: FleetRequest, name: str, by: str) -> Answer[Any]:
    from ...analyze.fleet.report import build_report
    from ...analyze.results.fleet import FleetFunction, FleetLine, fleet_report_json
    from ..render.fleet.figures import fleet_report_text

    order = request.order(FleetFunction if name == "functions" else FleetLine)
    with request.opened() as (fleet, coverage):
        result = build_report(fleet, coverage, name, request.query, order, request.limit, by)
    return Answer(result, fleet_report_json, fleet_report_text)


@asking()
def leaks(request: FleetRequest) -> Answer[Any]:
    """Show which lines leak memory, how fast, and on how many hosts.

    The rate is the mean over the traces in which the line leaks.

    Examples:
      scalene-analyze fleet leaks /traces
      scalene-analyze fleet leaks --where service=shop --sort hosts /traces
    """
    from ...analyze.fleet.report import build_leaks
    from ...analyze.results.fleet import FleetLeak, FleetTable, fleet_json
    from ..render.fleet.figures import fleet_leaks_text

    order = request.order(FleetLeak)
    with request.opened() as (fleet, coverage):
        rows = build_leaks(fleet, order, request.limit)
    return Answer(FleetTable("leaks", request.query, coverage, rows), fleet_json, fleet_leaks_text)


@asking(has_sort=False)
def flame(request: FleetRequest, output: Output = "-", format_: FormatName = None) -> Answer[Any]:
    """Write the CPU time of the stacks of all traces together, as a flame graph or for one.

    The formats are those of `scalene-analyze export`: collapsed (in microseconds) is for flamegraph.pl and inferno,
    speedscope for speedscope.app, pprof for `go tool pprof`, otlp for OpenTelemetry's Collector; html is one page with the flame
    graph. Stacks with less than a thousandth of their trace's CPU time are together "(other)".

    Examples:
      scalene-analyze fleet flame -o flame.html /traces
      scalene-analyze fleet flame --format pprof --since 7d -o t.pb /traces
      scalene-analyze fleet flame /traces | flamegraph.pl > flame.svg
    """
    from ...analyze.fleet.report import build_stacks, user_files
    from ...analyze.results.fleet import FleetTable, fleet_json
    from ..render.fleet.figures import fleet_flame_text

    name = format_ or ("html" if output.lower().endswith((".html", ".htm")) else "collapsed")
    check_name("format", name, FORMAT_NAMES)
    if output.lower().endswith(".parquet"):
        raise UsageError(f"Cannot write to {output}: it may be a trace. Name a file without .parquet with -o.")
    check_output(output, (), is_binary=name in ("pprof", "otlp"))
    if name == "html" and output != "-":
        check_target(Path(output), can_force=False)
    with request.opened() as (fleet, coverage):
        table = FleetTable("flame", request.query, coverage, build_stacks(fleet, request.limit), "stacks")
        files = user_files(fleet) if name == "html" else []
    if output == "-" and name == "collapsed":
        return Answer(table, fleet_json, fleet_flame_text)
    contents = _flame_contents(table, name, files)

    def print_contents(*_: Any) -> Sequence[str]:
        save(contents, "-")
        return ()

    if output == "-":
        return Answer(table, fleet_json, print_contents)
    save(contents, output)
    return Answer(table, fleet_json, lambda *_: ())


def _flame_contents(table: Any, name: str, files: Sequence[str]) -> bytes:
    """The file in the format ``name``. ``files``: the user's."""
    from ...analyze.fleet.report import collapsed_lines

    if name == "collapsed":
        return "".join(collapsed_lines(table.rows)).encode("utf-8", "backslashreplace")
    if name == "html":
        from ...analyze.html.fleet import build_fleet_page

        return build_fleet_page(table, files).encode("ascii")
    from ...analyze.exports.fleet import FORMATS, fleet_profile

    return FORMATS[name](fleet_profile(table))
