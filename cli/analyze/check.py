"""``scalene-analyze check``: a recording against a budget, as a gate for CI."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from ...analyze.results.base import Table
from ...analyze.trace.selection import Selection
from ..render.report import wrap
from ..render.text import Screen, clean
from .options import EVERYTHING, Json, NoColor, Paths, UsageError, given_paths, selecting
from .output import print_json, print_lines
from .output import screen as screen_of

EXIT_GATE = 1

BudgetFile = Annotated[
    str | None, typer.Option("--budget", metavar="FILE", help="The budget, TOML (docs/check.md).", show_default=False)
]


@selecting()
def check(
    paths: Paths,
    budget: BudgetFile = None,
    json_: Json = False,
    selection: Selection = EVERYTHING,
    no_color: NoColor = False,
) -> int:
    """Does the recording keep to a budget? Exit code 1 when it does not, for CI.

    A budget limits CPU time, peak, leaks, copies and more: of the program, of each file, function or line that matches,
    and of the answers to SQL. docs/check.md has all of it; the shortest is two lines, [total] and peak = "500 MB".

    Examples:

        scalene-analyze check --budget budget.toml trace.parquet

        scalene-analyze check --budget budget.toml --json 'run-*.parquet'
    """
    from ...analyze.check.budget import BudgetError, read_budget
    from ...analyze.check.check import build_check
    from ...analyze.report.report import query_of
    from ...analyze.results.base import table_json

    if budget is None:
        raise UsageError("Name a budget: scalene-analyze check --budget budget.toml TRACE...")
    try:
        query = query_of(selection) | {"budget": budget}
        table = build_check(given_paths(paths), read_budget(Path(budget)), selection, query)
    except BudgetError as error:
        raise UsageError(str(error)) from error
    if json_:
        print_json(table_json(table))
    else:
        print_lines(check_text(table, screen_of(no_color)))
    return 0 if all(row.passed for row in table.rows) else EXIT_GATE


def check_text(table: Table, screen: Screen) -> Iterator[str]:
    """A line for each limit, what failed first, and how many did."""
    for row in table.rows:
        sign = screen.paint("ok    ", "memory") if row.passed else screen.paint("FAILED", "error")
        first, *more = wrap(f"{clean(row.text)}", screen.width - 8, indent="  ")
        yield f"{sign}  {first}"
        yield from (f"{'':8}{line}" for line in more)
    failed = sum(not row.passed for row in table.rows)
    count = f"{len(table.rows)} limit{'s' if len(table.rows) != 1 else ''}"
    yield screen.paint(f"{failed} of {count} failed." if failed else f"All of {count} kept.", "bold")
