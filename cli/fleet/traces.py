"""``scalene-analyze fleet traces``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..analyze.shared.answers import Answer
from ..analyze.shared.options import UsageError
from .shared import FleetRequest, asking

File = Annotated[
    str | None,
    typer.Option(
        "--file", metavar="FILE", help="List the traces in which this file has the figure.", show_default=False
    ),
]
LineNumber = Annotated[
    int | None,
    typer.Option("--line", min=1, metavar="N", help="The same for this line of the file.", show_default=False),
]
MetricName = Annotated[str, typer.Option("--metric", metavar="NAME", help="The figure, a field of report --json.")]
Unreadable = Annotated[bool, typer.Option("--unreadable", help="List only files that could not be read, and why.")]


@asking()
def traces(
    request: FleetRequest,
    file: File = None,
    line: LineNumber = None,
    metric: MetricName = "cpu_s",
    unreadable: Unreadable = False,
) -> Answer[Any]:
    """List the traces behind the figures, and the files that could not be read.

    With --file, the traces in which the file, or the line of it, has the figure, those with the most first.

    Examples:
      scalene-analyze fleet traces /traces
      scalene-analyze fleet traces --file /srv/app.py --line 20 /traces
      scalene-analyze fleet traces --file /srv/app.py --metric alloc_bytes
      scalene-analyze fleet traces --unreadable /traces
    """
    from ...analyze.fleet.traces import build_traces
    from ...analyze.results.fleet import FleetTrace, fleet_json
    from ..render.fleet.traces import traces_text

    if line is not None and file is None:
        raise UsageError("--line is a line of a file. Name it with --file.")
    order = request.order(FleetTrace)
    asked = {"file": file, "line": line, "metric": metric if file is not None else None, "unreadable": unreadable}
    with request.opened() as (fleet, coverage):
        rows = build_traces(fleet, file, line, metric, unreadable, order, request.limit)
    from ...analyze.results.fleet import FleetTable

    return Answer(FleetTable("traces", request.query | asked, coverage, rows), fleet_json, traces_text)
