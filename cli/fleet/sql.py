"""``scalene-analyze fleet sql``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ..analyze.shared.options import Color, Json, Limit, NoColor, UsageError, checked_color
from ..analyze.shared.output import print_json, print_lines, screen, write
from .shared import FleetRequest, Host, Per, Since, Until, Where, notices, selection_of

FORMS = ("table", "csv", "json")
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FLEET] SQL", help="The folder of the traces (default: this one), then a SELECT.", show_default=False
    ),
]
Form = Annotated[
    str,
    typer.Option("--format", metavar="|".join(FORMS), help="Format of the rows.", autocompletion=lambda: list(FORMS)),
]
Schema = Annotated[bool, typer.Option("--schema", help="List the views with their columns.")]


def sql(
    words: Words = None,
    form: Form = "table",
    json_: Json = False,
    schema: Schema = False,
    limit: Limit = None,
    where: Where = None,
    host: Host = None,
    since: Since = None,
    until: Until = None,
    per: Per = None,
    color: Color = "auto",
    no_color: NoColor = False,
) -> None:
    """Run SQL over the summaries of the traces.

    The views are fleet_traces, fleet_figures and selected_traces, which the options that select traces fill. Only
    SELECT and EXPLAIN are allowed: they read the views and nothing else, and write nothing.

    Examples:
      scalene-analyze fleet sql --schema
      scalene-analyze fleet sql /traces "SELECT host FROM selected_traces"
    """
    form, color = "json" if json_ else form, checked_color(color, no_color)
    if form not in FORMS:
        raise UsageError(f"--format {form} is not known. It can be {', '.join(FORMS[:-1])} or {FORMS[-1]}.")
    if schema:
        from ...analyze.fleet.sql import describe
        from ..render.sql import schema_text

        return print_lines(schema_text(describe(), screen(color), 0))
    place, text = _split(words or [])
    request = FleetRequest(place, selection_of(where, host, since, until, per), None, limit)
    from ...analyze.fleet.sql import run_sql

    with request.opened(is_sealed=True) as (fleet, coverage):
        names, rows = run_sql(fleet, text, limit)
    for line in notices(coverage):
        print(f"scalene-analyze: {line}", file=sys.stderr)
    if form == "json":
        from ...analyze.results.base import to_json
        from ..render.sql import json_rows

        document = {"schema": "scalene-trace/fleet-sql/1", "query": request.query | {"sql": text}}
        return print_json(document | {"fleet": to_json(coverage), "rows": json_rows(names, rows)})
    if form == "csv":
        from ..render.sql import csv_text

        return write(csv_text(names, rows, sys.stdout.isatty()))
    from ..render.sql import sql_text

    return print_lines(sql_text(names, rows, screen(color)))


def _split(words: list[str]) -> tuple[str, str]:
    """Folder and SQL. Raises UsageError."""
    if not words:
        raise UsageError("No SQL is given. Give a SELECT as the last argument; --schema lists the views.")
    if len(words) > 2:
        raise UsageError("Give one folder and one SELECT, in quotes.")
    return words[0] if len(words) == 2 else ".", words[-1]
