"""Commands that read traces and print one result, as JSON or as text.

:func:`answering` gives such a command the options that all of them share. The command gets a :class:`Request`, builds
its result, and returns an :class:`Answer`, which is printed as the user asked. A command imports what it uses in its
body: the start of scalene-analyze would otherwise take as long as the imports of all commands together.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ....analyze.trace.selection import Selection
from .options import (
    SELECTS,
    Color,
    Json,
    Limit,
    NoColor,
    Paths,
    Plain,
    Sort,
    UsageError,
    checked_color,
    checked_sort,
    given_paths,
    option_parameters,
    selection_of,
    selection_parameters,
    set_signature,
)
from .output import print_json, print_lines, print_plain, screen
from .selected import placed, unmatched

if TYPE_CHECKING:
    from ...render.text import Screen

Result = TypeVar("Result")


@dataclass(frozen=True)
class Request:
    """What the shared options ask for: which traces, which samples of them, in which order, and how many rows."""

    traces: list[Path]
    selection: Selection
    sort: str | None
    limit: int | None

    @property
    def query(self) -> dict[str, Any]:
        """The request as the JSON output repeats it."""
        from ....analyze.report.report import query_of

        return query_of(self.selection, self.sort, self.limit)

    def order(self, row: type) -> str | None:
        """The field to sort by. Raises UsageError if rows of this type have no such field."""
        return checked_sort(self.sort, row)


@dataclass(frozen=True)
class Answer(Generic[Result]):
    """The result of a command, and how to print it."""

    result: Result
    as_json: Callable[[Result], Any]
    as_text: Callable[[Result, Screen], Iterable[str]]
    exit_code: int = 0

    def as_plain(self) -> Iterator[str]:
        """The lines of ``--plain``."""
        from ...render.plain import plain_text

        return plain_text(self.as_json(self.result))


@dataclass(frozen=True)
class Question:
    """Such a command without its command line: the function, and the options that it shares with others."""

    answer: Callable[..., Answer[Any]]
    selects: tuple[str, ...]
    has_sort: bool


def answering(
    selects: Sequence[str] = SELECTS, has_sort: bool = True, has_limit: bool = True
) -> Callable[[Callable[..., Answer[Any]]], Callable[..., int]]:
    """Makes a command of a function from a Request, and of options of its own, to an Answer.

    ``selects``: the options that select samples; ``has_sort``, ``has_limit``: whether there are --sort and --limit.
    """

    def decorate(command: Callable[..., Answer[Any]]) -> Callable[..., int]:
        @functools.wraps(command)
        def run(paths: list[str] | None, json_: bool, plain: bool, color: str, no_color: bool, **values: Any) -> int:
            color = checked_color(color, no_color)
            if json_ and plain:
                raise UsageError("--json and --plain are two formats. Use one of them.")
            selection = selection_of(**{name: values.pop(name) for name in selects})
            sort, limit = values.pop("sort", None), values.pop("limit", None)
            traces = given_paths(paths or ())
            selection = placed(selection, traces)
            answer = command(Request(traces, selection, sort, limit), **values)
            for line in unmatched(selection, answer.result.traces) if selects else ():
                print(f"scalene-analyze: {line}", file=sys.stderr)
            if json_:
                print_json(answer.as_json(answer.result))
            elif plain:
                print_plain(answer.as_plain())
            else:
                print_lines(answer.as_text(answer.result, screen(color)))
            return answer.exit_code

        _, *own = inspect.signature(command, eval_str=True).parameters.values()
        parameters = option_parameters([("paths", Paths, None)])
        parameters += own
        parameters += option_parameters([("json_", Json, False), ("plain", Plain, False)])
        parameters += option_parameters([("limit", Limit, None)] if has_limit else [])
        parameters += option_parameters([("sort", Sort, None)] if has_sort else [])
        parameters += selection_parameters(selects)
        parameters += option_parameters([("color", Color, "auto"), ("no_color", NoColor, False)])
        set_signature(run, parameters)
        run.question = Question(command, tuple(selects), has_sort)  # type: ignore[attr-defined]
        return run

    return decorate
