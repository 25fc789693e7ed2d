"""``scalene-analyze html``: writes the report as one page for a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...analyze.trace.selection import Selection
from .shared.options import DEFAULT_TRACE, EVERYTHING, default_trace, selecting
from .shared.output import check_output, save, write
from .shared.pages import check_target, written
from .shared.selected import placed

Trace = Annotated[str | None, typer.Argument(metavar="[TRACE]", help="A trace file.", show_default=DEFAULT_TRACE)]
Output = Annotated[
    str,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="File to write; - is stdout. Default: the name of the trace with .html, in the current folder.",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file even if it is not a report.")]


@selecting
def html(
    trace: Trace = None,
    output: Output = "",
    force: Force = False,
    selection: Selection = EVERYTHING,
) -> None:
    """Write the report as one page for a browser.

    The page has a timeline, tables, source and flame graphs, for the whole recording or any part of its time. It needs
    no network and no server. It contains the source text that the trace contains, and only its owner may read the file.
    An existing report is replaced; another file is replaced only with --force.

    Examples:
      scalene-analyze html trace.parquet
      scalene-analyze html trace.parquet -o report.html
      scalene-analyze html --from 10 --to 20 trace.parquet -o part.html
    """
    from ...analyze.html.page import build_page

    path = str(default_trace()) if trace is None else trace
    target = Path(output or f"{Path(path).stem or 'report'}.html")
    if output != "-":
        check_output(str(target), [Path(path)], is_binary=False)
        check_target(target, force)
    page = build_page([Path(path)], placed(selection, [Path(path)]))
    if output == "-":
        return write(page)
    save(page.encode("ascii"), str(target))
    return write(written(target, page))
