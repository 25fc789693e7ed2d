"""``scalene-analyze check``: compares a recording with a budget, as a gate for CI."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ...analyze.results.base import Table
from ...formats.units import counted
from ..render.table import wrap
from ..render.text import Screen, clean
from .shared.answers import Answer, Request, answering
from .shared.options import UsageError

EXIT_GATE = 1

BudgetFile = Annotated[
    str | None,
    typer.Option("--budget", metavar="FILE", help="The budget, a TOML file.", show_default=False),
]


@answering(has_sort=False, has_limit=False)
def check(request: Request, budget: BudgetFile = None) -> Answer[Any]:
    """Check a recording against a budget, for CI.

    Exits with 1 if a limit is exceeded. A budget limits CPU time, peak memory, leaks, copies and more: of the program,
    of each file, function or line that matches, and of answers to SQL. A limit on a function is on its own lines, one
    called total_... on all that it calls too. A budget:

      [total]
      peak = "500 MB"
      [[function]]
      file = "shop.py"
      function = "Basket.*"
      total_cpu = "20 %"

    Limits are cpu, python, native, unclassified, system, gc, wait, peak, growth, alloc, leak and copy; of the program
    wall and rss too; of a function total_cpu, total_wait, total_alloc and total_peak. An unknown name is answered with
    the known ones.

    Examples:
      scalene-analyze check --budget budget.toml trace.parquet
      scalene-analyze check --budget budget.toml --json 'run-*.parquet'
    """
    from ...analyze.check.budget import BudgetError, read_budget
    from ...analyze.check.check import build_check
    from ...analyze.results.base import table_json

    if budget is None:
        raise UsageError("No budget is given. Name one: scalene-analyze check --budget budget.toml TRACE...")
    try:
        query = request.query | {"budget": budget}
        table = build_check(request.traces, read_budget(Path(budget)), request.selection, query)
    except BudgetError as error:
        raise UsageError(str(error)) from error
    return Answer(table, table_json, check_text, 0 if all(row.passed for row in table.rows) else EXIT_GATE)


def check_text(table: Table, screen: Screen) -> Iterator[str]:
    """A line for each limit, failed ones first, and how many failed."""
    for row in table.rows:
        sign = screen.paint("ok    ", "memory") if row.passed else screen.paint("FAILED", "error")
        first, *more = wrap(f"{clean(row.text)}", screen.width - 8, indent="  ")
        yield f"{sign}  {first}"
        yield from (f"{'':8}{line}" for line in more)
    failed = sum(not row.passed for row in table.rows)
    count = counted(len(table.rows), "limit", "limits")
    yield screen.paint(f"{failed} of {count} failed." if failed else f"All of {count} kept.", "bold")
