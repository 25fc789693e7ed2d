"""``scalene-analyze diff``: what changed between two versions of a program."""

from __future__ import annotations

import glob
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...analyze.trace.selection import Selection
from .options import EVERYTHING, Json, Limit, NoColor, Sort, UsageError, exists, selecting
from .output import print_json, print_lines, screen, write
from .pages import check_target, replace, written

if TYPE_CHECKING:
    from ...analyze.diff.results import Diff

EXIT_GATE = 1
_DEFAULT = ("trace.old.parquet", "trace.parquet")

Pair = Annotated[
    list[str] | None,
    typer.Argument(metavar="[BEFORE AFTER]", help="Two traces, or two quoted patterns.", show_default=False),
]
Before = Annotated[
    list[str] | None,
    typer.Option("--before", metavar="TRACE", help="A run of the old version; may be repeated.", show_default=False),
]
After = Annotated[
    list[str] | None,
    typer.Option("--after", metavar="TRACE", help="A run of the new version; may be repeated.", show_default=False),
]
FailOn = Annotated[
    list[str] | None,
    typer.Option("--fail-on", metavar="'cpu>+5%'", help="Exit code 1 if so; may be repeated.", show_default=False),
]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a pull request.")]
Html = Annotated[
    str,
    typer.Option(
        "--html", metavar="FILE", help="Write a page for a browser as well; - for stdout, alone.", show_default=False
    ),
]
PerSecond = Annotated[
    bool, typer.Option("--per-second", help="Compare by the seconds of the runs: for servers and runs cut short.")
]


@selecting()
def diff(
    pair: Pair = None,
    before: Before = None,
    after: After = None,
    fail_on: FailOn = None,
    markdown: Markdown = False,
    html: Html = "",
    json_: Json = False,
    per_second: PerSecond = False,
    limit: Limit = None,
    sort: Sort = None,
    selection: Selection = EVERYTHING,
    no_color: NoColor = False,
) -> int:
    """What changed between two versions of a program, line by line, and whether it is more than noise.

    Lines are matched by their text and their function, so edited and moved code compares line by line. Without arguments,
    trace.old.parquet is compared with trace.parquet. Several runs on each side find smaller changes.

    --fail-on takes a total (cpu, python, native, system, wait, wall, peak, growth, alloc, copy, gpu, gpu-copy, gpu-wait), > and a limit in
    percent or in its unit; or `worse`, for anything that is judged worse. A rise that noise explains does not fail.

    Examples:

        scalene-analyze diff

        scalene-analyze diff old.parquet new.parquet

        scalene-analyze diff 'before-*.parquet' 'after-*.parquet'

        scalene-analyze diff --before a1.parquet --before a2.parquet --after b1.parquet --after b2.parquet

        scalene-analyze diff --fail-on 'cpu>+5%' --fail-on 'peak>+50MB' --markdown old.parquet new.parquet

        scalene-analyze diff old.parquet new.parquet --html diff.html
    """
    from ...analyze.diff.compare import Asked, LengthError, compare, read_sides
    from ...analyze.diff.gates import GateError, parsed

    sides = given_sides(pair or (), before or (), after or ())
    if html and html != "-":
        check_target(Path(html), can_force=False)
    try:
        gates = tuple(parsed(text) for text in fail_on or ())
        asked = Asked(selection, per_second, gates, _checked_measure(sort), limit)
        runs = read_sides(*sides, asked)
        result = compare(*runs, asked)
    except (GateError, LengthError) as error:
        raise UsageError(str(error)) from error
    if html:
        from ...analyze.html.comparison import build_comparison

        _write_page(build_comparison(result, runs, selection), html)
    if html != "-":
        _print(result, json_, markdown, no_color)
    return EXIT_GATE if any(gate.failed for gate in result.gates) else 0


def _write_page(page: str, target: str) -> None:
    """Writes the page; what is said of it goes to stderr, for stdout has the comparison itself."""
    if target == "-":
        return write(page)
    replace(Path(target), page)
    print(written(Path(target), page), end="", file=sys.stderr)
    return None


def _print(result: Diff, json_: bool, markdown: bool, no_color: bool) -> None:
    from ...analyze.diff.results import diff_json
    from ..render.diff import diff_text
    from ..render.markdown import diff_markdown

    if json_:
        print_json(diff_json(result))
    else:
        print_lines(diff_markdown(result) if markdown else diff_text(result, screen(no_color)))


def given_sides(pair: Sequence[str], before: Sequence[str], after: Sequence[str]) -> tuple[list[Path], list[Path]]:
    """The traces of both sides. Raises UsageError unless there are two sides."""
    if pair and (before or after):
        raise UsageError("Name the traces in one way: as BEFORE AFTER, or with --before and --after.")
    if bool(before) != bool(after):
        raise UsageError(f"{'--after' if before else '--before'} is missing: a comparison has two sides.")
    if len(pair) not in (0, 2):
        raise UsageError(
            f"diff compares two traces, and {len(pair)} were given. Several runs: diff 'before-*.parquet' 'after-*.parquet'"
            " (in quotes), or --before and --after for each."
        )
    sides = (before, after) if before else ([pair[0]], [pair[1]]) if pair else ([_DEFAULT[0]], [_DEFAULT[1]])
    return _expanded(sides[0]), _expanded(sides[1])


def _expanded(words: Sequence[str]) -> list[Path]:
    """The files that words and patterns mean. A pattern that does not say .old means no replaced recording."""
    found: list[Path] = []
    for word in words:
        is_pattern = any(c in word for c in "*?[") and not exists(word)
        names = sorted(glob.glob(word)) if is_pattern else []  # noqa: PTH207
        kept = [name for name in names if ".old" in word or not name.endswith(".old.parquet")]
        if is_pattern and not kept:
            raise UsageError(f"No trace is called like {word}.")
        found += map(Path, kept or [word])
    return found


def _checked_measure(sort: str | None) -> str | None:
    from ...analyze.diff.runs import LINE_MEASURES

    names = [measure.name for measure in LINE_MEASURES]
    if sort is not None and sort not in names:
        raise UsageError(f"There is no measure {sort} to sort by. Measures: {', '.join(names)}.")
    return sort
