"""``scalene-analyze diff``: compares two versions of a program."""

from __future__ import annotations

import glob
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...analyze.trace.selection import Selection
from .shared.options import (
    EVERYTHING,
    Color,
    Json,
    Limit,
    NoColor,
    Plain,
    Sort,
    UsageError,
    checked_color,
    exists,
    is_old,
    selecting,
)
from .shared.output import print_json, print_lines, print_plain, save, screen, write
from .shared.pages import check_target, written

if TYPE_CHECKING:
    from ...analyze.diff.results import Diff

EXIT_GATE = 1
_DEFAULT = ("trace.old.parquet", "trace.parquet")

Pair = Annotated[
    list[str] | None,
    typer.Argument(metavar="BEFORE AFTER", help="Two traces, or two quoted patterns.", show_default=False),
]
Before = Annotated[
    list[str] | None,
    typer.Option("--before", metavar="TRACE", help="A run of the old version. May be repeated.", show_default=False),
]
After = Annotated[
    list[str] | None,
    typer.Option("--after", metavar="TRACE", help="A run of the new version. May be repeated.", show_default=False),
]
FailOn = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-on",
        metavar="CONDITION",
        help="Exit with 1 if the condition holds, like 'cpu>+5%'. May be repeated.",
        show_default=False,
    ),
]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a comment on a pull request.")]
Html = Annotated[
    str,
    typer.Option(
        "--html",
        metavar="FILE",
        help="Also write the comparison as a page for a browser. With -, print only the page to stdout.",
        show_default=False,
    ),
]
PerSecond = Annotated[
    bool,
    typer.Option(
        "--per-second", help="Compare figures per second of the runs. For servers, and for runs that were cut short."
    ),
]


@selecting
def diff(
    pair: Pair = None,
    before: Before = None,
    after: After = None,
    fail_on: FailOn = None,
    markdown: Markdown = False,
    html: Html = "",
    json_: Json = False,
    plain: Plain = False,
    per_second: PerSecond = False,
    limit: Limit = None,
    sort: Sort = None,
    selection: Selection = EVERYTHING,
    color: Color = "auto",
    no_color: NoColor = False,
) -> int:
    """Show what changed between two versions, line by line.

    Lines are matched by their text and their function, so that edited and moved code can be compared line by line. Each
    change is tested against noise; several runs of each version show smaller changes. Without arguments,
    trace.old.parquet is compared with trace.parquet.

    A condition of --fail-on is a total, > and a limit in percent or in the total's unit. Totals: cpu, python, native,
    unclassified, system, wait, wall, peak, growth, alloc, copy, gpu, gpu-copy, gpu-wait. The condition `worse` holds if
    any total or line is judged worse. An increase that noise explains does not fail.

    Examples:
      scalene-analyze diff
      scalene-analyze diff old.parquet new.parquet
      scalene-analyze diff 'before-*.parquet' 'after-*.parquet'
      scalene-analyze diff --before a.parquet --before b.parquet --after c.parquet
      scalene-analyze diff --fail-on 'cpu>+5%' --fail-on 'peak>+50MB' --markdown
      scalene-analyze diff old.parquet new.parquet --html diff.html
    """
    from ...analyze.diff.compare import Asked, LengthError, compare, read_sides
    from ...analyze.diff.gates import GateError, parsed
    from ...analyze.report.marked import MarkError

    color = checked_color(color, no_color)
    if plain and (json_ or markdown):
        raise UsageError(f"{'--json' if json_ else '--markdown'} and --plain are two formats. Use one of them.")
    sides = given_sides(pair or (), before or (), after or ())
    if html and html != "-":
        check_target(Path(html), can_force=False)
    try:
        gates = tuple(parsed(text) for text in fail_on or ())
        asked = Asked(selection, per_second, gates, _checked_measure(sort), limit)
        runs = read_sides(*sides, asked)
        result = compare(*runs, asked)
    except (GateError, LengthError, MarkError) as error:
        raise UsageError(str(error)) from error
    if html:
        from ...analyze.html.comparison import build_comparison

        _write_page(build_comparison(result, runs, selection), html)
    if html != "-":
        _print(result, json_, plain, markdown, color)
    return EXIT_GATE if any(gate.failed for gate in result.gates) else 0


def _write_page(page: str, target: str) -> None:
    """Writes the page. The message about it goes to stderr, because the comparison itself goes to stdout."""
    if target == "-":
        return write(page)
    save(page.encode("ascii"), target)
    print(written(Path(target), page), end="", file=sys.stderr)
    return None


def _print(result: Diff, json_: bool, plain: bool, markdown: bool, color: str) -> None:
    from ...analyze.diff.results import diff_json
    from ..render.diff import diff_text
    from ..render.markdown import diff_markdown

    if json_:
        print_json(diff_json(result))
    elif plain:
        from ..render.plain import plain_text

        print_plain(plain_text(diff_json(result)))
    else:
        print_lines(diff_markdown(result) if markdown else diff_text(result, screen(color)))


def given_sides(pair: Sequence[str], before: Sequence[str], after: Sequence[str]) -> tuple[list[Path], list[Path]]:
    """The traces of both sides. Raises UsageError unless there are two sides."""
    if pair and (before or after):
        raise UsageError("The traces are named in two ways. Use either BEFORE AFTER, or --before and --after.")
    if bool(before) != bool(after):
        raise UsageError(f"{'--after' if before else '--before'} is missing. Give both --before and --after.")
    if len(pair) not in (0, 2):
        raise UsageError(
            f"diff compares two traces, but the number of traces given is {len(pair)}. To compare several runs, use"
            " diff 'before-*.parquet' 'after-*.parquet' (in quotes), or --before and --after for each trace."
        )
    sides = (before, after) if before else ([pair[0]], [pair[1]]) if pair else ([_DEFAULT[0]], [_DEFAULT[1]])
    return expanded(sides[0]), expanded(sides[1])


def expanded(words: Sequence[str]) -> list[Path]:
    """The files that words and patterns mean. Only a pattern that contains .old matches replaced recordings."""
    found: list[Path] = []
    for word in words:
        is_pattern = any(c in word for c in "*?[") and not exists(word)
        names = sorted(glob.glob(word)) if is_pattern else []  # noqa: PTH207
        kept = [name for name in names if ".old" in word or not is_old(name)]
        if is_pattern and not kept:
            raise UsageError(f"No trace matches {word}.")
        found += map(Path, kept or [word])
    return found


def _checked_measure(sort: str | None) -> str | None:
    from ...analyze.diff.measures import LINE_MEASURES

    names = [measure.name for measure in LINE_MEASURES]
    if sort is not None and sort not in names:
        raise UsageError(f"Cannot sort by {sort}: there is no such measure. Measures: {', '.join(names)}.")
    return sort
