"""``scalene-analyze live``."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ..analyze.shared.options import (
    DEFAULT_TRACE,
    AllFiles,
    Color,
    Exclude,
    Include,
    NoColor,
    Process,
    Thread,
    UsageError,
    checked_color,
    selection_of,
)
from ..analyze.shared.output import screen

if TYPE_CHECKING:
    from .asked import Asked, Readings

VIEW_NAMES = ("lines", "functions", "memory", "threads", "processes")
_SHORTEST_S = 0.2

Target = Annotated[
    str,
    typer.Argument(
        metavar="[TRACE|PID]", help="The trace that a running scalene-record writes, or a process that it records."
    ),
]
ViewName = Annotated[
    str,
    typer.Option(
        "--view", metavar="NAME", help=f"The table: {', '.join(VIEW_NAMES)}.", autocompletion=lambda: list(VIEW_NAMES)
    ),
]
Window = Annotated[
    float, typer.Option("--window", min=0, metavar="SECONDS", help="Figures are of so many seconds; 0 = of all.")
]
Refresh = Annotated[
    float, typer.Option("--refresh", metavar="SECONDS", help="Time between two readings, at least 0.2.")
]
Count = Annotated[
    int | None,
    typer.Option("--count", min=1, metavar="N", help="Print the table N times, then end.", show_default=False),
]
ByColumn = Annotated[
    str | None, typer.Option("--sort", metavar="COLUMN", help="Sort by the column of this title.", show_default=False)
]
Filter = Annotated[
    str, typer.Option("--filter", metavar="TEXT", help="Show rows with this text in their names.", show_default=False)
]
Rows = Annotated[int, typer.Option("--limit", min=1, metavar="N", help="Print at most N rows.")]
Table = Annotated[bool, typer.Option("--table", help="Print a table again and again, also where Textual is installed.")]


def live(
    target: Target = DEFAULT_TRACE,
    view: ViewName = "lines",
    window_s: Window = 10.0,
    refresh_s: Refresh = 2.0,
    sort: ByColumn = None,
    text: Filter = "",
    limit: Rows = 20,
    table: Table = False,
    count: Count = None,
    process: Process = None,
    thread: Thread = None,
    include: Include = None,
    exclude: Exclude = None,
    all_files: AllFiles = False,
    color: Color = "auto",
    no_color: NoColor = False,
) -> int:
    """Show a recording while it runs: lines, functions, memory, threads and processes.

    The recorder is asked for snapshots of the trace, at most as often as --refresh says. The program is not stopped.
    On a terminal, keys choose the table, its order and its window of time (extra live: pip install 'scalene-trace[live]').
    Elsewhere, the table is printed again and again.

    Examples:
      scalene-analyze live trace.parquet
      scalene-analyze live 4711
      scalene-analyze live --view threads --sort GIL trace.parquet
      scalene-analyze live --count 1 --window 60 trace.parquet
    """
    from ...recorder.errors import ControlError
    from .asked import Asked, Readings
    from .following import Following

    gc.enable()  # unlike other commands, this one goes on
    when = checked_color(color, no_color)
    selection = selection_of(process=process, thread=thread, include=include, exclude=exclude, all_files=all_files)
    asked = Asked(view, window_s or None, refresh_s, selection, sort, limit, text)
    _check(asked)
    try:
        readings = Readings(asked, Following(target))
        if table or count is not None or not _is_interactive():
            return _print(asked, readings, when, count)
        return _run(asked, readings)
    except ControlError as error:
        raise UsageError(str(error)) from error


def _check(asked: Asked) -> None:
    """Raises UsageError for a view or a column that does not exist, and for impossible times."""
    from .tables import VIEWS

    if not _SHORTEST_S <= asked.refresh_s < 1e6:
        raise UsageError(f"--refresh is a number of seconds, at least {_SHORTEST_S}.")
    if asked.view not in VIEWS:
        raise UsageError(f"--view {asked.view} is not known. It can be {', '.join(VIEW_NAMES)}.")
    titles = VIEWS[asked.view].sortable()
    if asked.sort is not None and asked.sort not in titles:
        raise UsageError(f"Cannot sort {asked.view} by {asked.sort}. Columns: {', '.join(titles)}.")
    if asked.window_s is not None and not asked.window_s < 1e9:
        raise UsageError("--window is a number of seconds below 1e9; 0 = since the start.")


def _is_interactive() -> bool:
    from importlib.util import find_spec

    streams = (sys.stdin, sys.stdout, sys.stderr)  # Textual writes to stderr
    is_terminal = all(each.isatty() for each in streams) and os.environ.get("TERM") != "dumb"
    return is_terminal and find_spec("textual") is not None


def _print(asked: Asked, readings: Readings, color: str, count: int | None) -> int:
    from .plain import print_tables

    try:
        print_tables(asked, readings, screen(color), count)
    except KeyboardInterrupt:  # the usual way to end it
        print()
    return 0


def _run(asked: Asked, readings: Readings) -> int:
    from .app import LiveApp

    app = LiveApp(asked, readings)
    app.run()
    return app.return_code or 0
