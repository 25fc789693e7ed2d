"""What the commands of ``scalene-analyze fleet`` share: options, the selection of traces, and how an answer is printed.

:func:`asking` gives a command these options, as :func:`..analyze.shared.answers.answering` does for commands on traces. The
command gets a :class:`FleetRequest` and returns an :class:`Answer` whose result has the coverage as its field ``fleet``.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...formats.units import counted
from ..analyze.shared.answers import Answer
from ..analyze.shared.options import (
    Color,
    Json,
    Limit,
    NoColor,
    Plain,
    Sort,
    UsageError,
    checked_color,
    checked_sort,
    option_parameters,
    set_signature,
)
from ..analyze.shared.output import print_json, print_lines, print_plain, screen

if TYPE_CHECKING:
    from ...analyze.fleet.opening import Fleet
    from ...analyze.fleet.selection import FleetSelection
    from ...analyze.results.fleet import Coverage

Place = Annotated[
    str,
    typer.Argument(metavar="FLEET", help="The folder of the traces, or its URL (s3://bucket/path, gs://, file://)."),
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="local|MASTER",
        help="What adds up: this process, or Spark at MASTER (spark://HOST:PORT, yarn, sc://HOST:PORT), which must see the "
        "folder at the same path on all machines.",
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="NAME=VALUE",
        help="Use only traces with this label. May be repeated: other values of a name are alternatives.",
        show_default=False,
    ),
]
Host = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="NAME", help="Use only traces of this host. May be repeated.", show_default=False),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Use only recordings that began at this time or later: 2026-11-28, 2026-11-28T14:00 (UTC), or 7d ago.",
        show_default=False,
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until", metavar="TIME", help="Use only recordings that began before this time.", show_default=False
    ),
]
Per = Annotated[
    str | None,
    typer.Option(
        "--per",
        metavar="MARK",
        help="Divide by the number of user marks with this text, not by hours, where traces are compared.",
        show_default=False,
    ),
]
#: The options that select traces.
SELECTING: tuple[tuple[str, Any, Any], ...] = (
    ("where", Where, None),
    ("host", Host, None),
    ("since", Since, None),
    ("until", Until, None),
    ("per", Per, None),
)


@dataclass(frozen=True)
class FleetRequest:
    """What the shared options ask for: which fleet, which of its traces, in which order, and how many rows."""

    place: str
    selection: FleetSelection
    sort: str | None
    limit: int | None
    engine: str = "local"

    @property
    def query(self) -> dict[str, Any]:
        """The request as the JSON output repeats it."""
        from ...analyze.fleet.selection import described

        return described(self.selection) | {"sort": self.sort, "limit": self.limit}

    def order(self, row: type) -> str | None:
        """The field to sort by. Raises UsageError if rows of this type have no such field."""
        return checked_sort(self.sort, row)

    @contextmanager
    def opened(self, is_sealed: bool = False) -> Iterator[tuple[Fleet, Coverage]]:
        """The opened fleet with the table ``selected_traces``, and what it covers. Raises the errors of fleet_at."""
        from ...analyze.fleet.places import fleet_at
        from ...analyze.fleet.selection import coverage, select_traces

        with fleet_at(self.place, self.engine, is_sealed) as fleet:
            select_traces(fleet, self.selection)
            yield fleet, coverage(fleet, self.selection)


def selection_of(
    where: list[str] | None, host: list[str] | None, since: str | None, until: str | None, per: str | None
) -> FleetSelection:
    """The selection that the options ask for. Raises UsageError."""
    from ...analyze.fleet import selection

    try:
        return selection.selection_of(where or (), host or (), since, until, per)
    except selection.SelectionError as error:
        raise UsageError(str(error)) from error


def asking(has_sort: bool = True, has_limit: bool = True) -> Callable[[Callable[..., Answer[Any]]], Callable[..., int]]:
    """Makes a command of a function from a FleetRequest, and of options of its own, to an Answer."""

    def decorate(command: Callable[..., Answer[Any]]) -> Callable[..., int]:
        @functools.wraps(command)
        def run(place: str, engine: str, json_: bool, plain: bool, color: str, no_color: bool, **values: Any) -> int:
            color = checked_color(color, no_color)
            if json_ and plain:
                raise UsageError("--json and --plain are two formats. Use one of them.")
            selection = selection_of(**{name: values.pop(name) for name, _, _ in SELECTING})
            sort, limit = values.pop("sort", None), values.pop("limit", None)
            answer = command(FleetRequest(place, selection, sort, limit, engine), **values)
            for line in notices(answer.result.fleet):
                print(f"scalene-analyze: {line}", file=sys.stderr)
            if json_:
                print_json(answer.as_json(answer.result))
            elif plain:
                print_plain(answer.as_plain())
            else:
                print_lines(answer.as_text(answer.result, screen(color)))
            return answer.exit_code

        _, *own = inspect.signature(command, eval_str=True).parameters.values()
        parameters = option_parameters([("place", Place, ".")])
        parameters += own
        parameters += option_parameters([("json_", Json, False), ("plain", Plain, False)])
        parameters += option_parameters([("limit", Limit, None)] if has_limit else [])
        parameters += option_parameters([("sort", Sort, None)] if has_sort else [])
        parameters += option_parameters(SELECTING)
        parameters += option_parameters([("engine", Engine, "local")])
        parameters += option_parameters([("color", Color, "auto"), ("no_color", NoColor, False)])
        set_signature(run, parameters)
        return run

    return decorate


def notices(fleet: Coverage) -> Iterator[str]:
    """What a reader should know of an answer beside it."""
    if not fleet.traces:
        yield "No trace is selected. `scalene-analyze fleet traces` lists all of them."
    if fleet.without_exposure:
        count = f"{fleet.without_exposure:,} of {counted(fleet.traces, 'selected trace', 'selected traces')}"
        verb = "has" if fleet.without_exposure == 1 else "have"
        lacks = "no known duration" if fleet.per is None else f"no mark {fleet.per!r}"
        yield f"{count} {verb} {lacks}: what is divided by it is of the others only."
    if fleet.unreadable:
        files = counted(fleet.unreadable, "file could not be read and is", "files could not be read and are")
        ways = "`scalene-analyze fleet traces --unreadable` says why, `scalene-analyze fleet index --retry` tries again"
        yield f"{files} in no figure; {ways}."
