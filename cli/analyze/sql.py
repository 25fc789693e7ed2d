"""``scalene-analyze sql``: runs the user's SQL and prints a table, CSV, JSON or Parquet."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...analyze.trace.selection import Selection
from .shared.options import (
    DEFAULT_TRACE,
    EVERYTHING,
    Color,
    Json,
    Limit,
    NoColor,
    UsageError,
    checked_color,
    exists,
    given_paths,
    selecting,
)
from .shared.output import check_output, print_json, print_lines, save, screen, write
from .shared.selected import placed

if TYPE_CHECKING:
    from ...analyze.trace.views import ViewColumn

FORMS = ("table", "csv", "json", "parquet")

_View = tuple[str, str, list["ViewColumn"]]

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TRACE...] [SQL]",
        help=f"Trace files ({DEFAULT_TRACE} if none is given), then a SELECT. Without a SELECT, SQL is read from stdin.",
        show_default=False,
    ),
]
Form = Annotated[
    str,
    typer.Option("--format", metavar="|".join(FORMS), help="Format of the rows.", autocompletion=lambda: list(FORMS)),
]
Schema = Annotated[
    bool, typer.Option("--schema", help="List the views with their columns and units; all, or those that are named.")
]
Init = Annotated[bool, typer.Option("--init", help="Print the views as SQL statements for the DuckDB shell.")]
Output = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="FILE", help="File to write the rows to; - is stdout.", show_default="stdout"
    ),
]


@selecting
def sql(
    words: Words = None,
    form: Form = "table",
    json_: Json = False,
    output: Output = "-",
    schema: Schema = False,
    init: Init = False,
    limit: Limit = None,
    selection: Selection = EVERYTHING,
    color: Color = "auto",
    no_color: NoColor = False,
) -> None:
    """Run SQL over the views of the traces.

    The views contain all traces; their column trace numbers the traces from 1. Only SELECT and EXPLAIN are allowed:
    they read the views and nothing else, and write nothing. The options that select samples apply to the views lines
    and functions.

    Examples:
      scalene-analyze sql --schema
      scalene-analyze sql --schema lines waits
      scalene-analyze sql t.parquet "SELECT file, line, cpu_s FROM lines LIMIT 5"
      scalene-analyze sql a.parquet b.parquet "SELECT trace, pid FROM processes"
      scalene-analyze sql t.parquet --format csv -o rows.csv < question.sql
    """
    form, color = "json" if json_ else form, checked_color(color, no_color)
    if form not in FORMS:
        raise UsageError(f"--format {form} is not known. It can be {', '.join(FORMS[:-1])} or {FORMS[-1]}.")
    if schema:
        return _print_schema(words or [], form, color)
    if init:
        from ...analyze.user_sql.run import init_script

        paths = given_paths(words or ())
        return write(init_script(paths, placed(selection, paths)))
    paths, text = _split(words or [])
    selection = placed(selection, paths)
    check_output(output, paths, form == "parquet")
    if form == "parquet":
        return save(_parquet(paths, text, selection, limit), output)
    return _print_rows(paths, text, selection, form, limit, output, color)


def _split(words: list[str]) -> tuple[list[Path], str]:
    """Traces and SQL: the last word is SQL if :func:`_is_sql` says so; else SQL is read from stdin."""
    if words and _is_sql(words[-1], len(words) == 1):
        return given_paths(words[:-1]), words[-1]
    paths = given_paths(words)
    if not all(exists(str(path)) for path in paths):
        return paths, ""  # opening them raises the error that names the missing one, whatever stdin is
    if sys.stdin.isatty():
        raise UsageError("No SQL is given. Give it as the last argument or on stdin; --schema lists the views.")
    return paths, sys.stdin.buffer.read().decode("utf-8", "surrogateescape")


def _is_sql(word: str, is_alone: bool) -> bool:
    """Is the last word SQL? Not if it names a file, or would name a trace if that existed. A word without others is SQL only
    if it has a space."""
    names_trace = word.rstrip().lower().endswith(".parquet")
    return not exists(word) and not names_trace and (not is_alone or " " in word.strip())


def _parquet(paths: list[Path], text: str, selection: Selection, limit: int | None) -> bytes:
    from ...analyze.user_sql.run import sql_arrow
    from ...formats.trace.arrow import parquet_bytes

    return parquet_bytes(sql_arrow(paths, text, selection, limit))


def _print_rows(
    paths: list[Path], text: str, selection: Selection, form: str, limit: int | None, output: str, color: str
) -> None:
    from ...analyze.user_sql.run import run_sql

    names, rows = run_sql(paths, text, selection, limit)
    is_screen = output == "-"
    if form == "csv":
        from ..render.sql import csv_text

        return _put(csv_text(names, rows, is_screen and sys.stdout.isatty()), output)
    if form == "json":
        document = _document(paths, text, limit, names, rows)
        return print_json(document) if is_screen else save(_json_bytes(document), output)
    from ..render.sql import sql_text
    from ..render.text import Screen

    lines = sql_text(names, rows, screen(color) if is_screen else Screen())
    return print_lines(lines) if is_screen else _put("".join(line + "\n" for line in lines), output)


def _put(text: str, output: str) -> None:
    return write(text) if output == "-" else save(text.encode("utf-8", "backslashreplace"), output)


def _json_bytes(document: dict[str, Any]) -> bytes:
    import json

    return json.dumps(document, allow_nan=False).encode("ascii") + b"\n"


def _document(
    paths: list[Path], text: str, limit: int | None, names: list[str], rows: list[tuple[Any, ...]]
) -> dict[str, Any]:
    from ..render.sql import json_rows

    return {
        "schema": "scalene-trace/sql/1",
        "query": {"sql": text, "limit": limit},
        "traces": [{"path": str(path)} for path in paths],
        "rows": json_rows(names, rows),
    }


def _print_schema(names: list[str], form: str, color: str) -> None:
    from ...analyze.results.base import to_json
    from ...analyze.trace.views import FIRST, describe
    from ..render.sql import schema_text

    found = named_views(names, describe())
    if form == "json":
        views = [{"view": name, "text": text, "columns": to_json(columns)} for name, text, columns in found]
        return print_json({"schema": "scalene-trace/sql-schema/1", "query": {}, "traces": [], "views": views})
    return print_lines(schema_text(found, screen(color), 0 if names else len(FIRST)))


def named_views(names: list[str], views: list[_View]) -> list[_View]:
    """The views called ``names``; all if there are none. Raises UsageError for one that does not exist."""
    known = {name: (name, text, columns) for name, text, columns in views}
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, 3)
            hint = f"Did you mean {' or '.join(close)}?" if close else "sql --schema lists all of them."
            raise UsageError(f"There is no view {name}. {hint}")
    return [known[name] for name in names] if names else views
