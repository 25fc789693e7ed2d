"""``scalene-analyze html``: the report as one page for a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...analyze.trace.selection import Selection
from .options import EVERYTHING, selecting
from .output import check_output, write
from .pages import check_target, replace, written

Trace = Annotated[str, typer.Argument(metavar="TRACE", help="A trace file.", show_default=False)]
Output = Annotated[
    str,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Where to write; - for stdout. By default the trace's name with .html, in this folder.",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is no such report.")]


@selecting()
def html(
    path: Trace,
    output: Output = "",
    force: Force = False,
    selection: Selection = EVERYTHING,
) -> None:
    """The report as one file for a browser: timeline, tables, source, flame graphs, for any window of the time.

    The page needs no network and no server and works from a folder or a mail. It holds the source text that the trace
    holds. Only its owner may read the file. A report that is there already is replaced, another file is not.

    Examples:

        scalene-analyze html trace.parquet

        scalene-analyze html trace.parquet -o report.html

        scalene-analyze html --from 10 --to 20 --process 1 trace.parquet -o - > part.html
    """
    from ...analyze.html.page import build_page

    target = Path(output or f"{Path(path).stem or 'report'}.html")
    if output != "-":
        check_output(str(target), [Path(path)], is_binary=False)
        check_target(target, force)
    page = build_page([Path(path)], selection)
    if output == "-":
        return write(page)
    replace(target, page)
    return write(written(target, page))
