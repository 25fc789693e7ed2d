"""Results of SQL as a table or CSV, and the list of views."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

from ...analyze.trace.views import ViewColumn
from ...formats.units import counted
from .table import columns_text, wrap
from .text import Screen, clean, clean_lines

#: What a formula begins with, in the wide forms of East Asian texts too; and what a spreadsheet may drop before that.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_INVISIBLE = ("\t", "\n")  # carriage returns do not get here
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def sql_text(names: list[str], rows: list[tuple[Any, ...]], screen: Screen) -> Iterator[str]:
    """A result as a table; cells are cleaned, NULL shows as such."""
    numbers = {i for i in range(len(names)) if any(isinstance(row[i], (int, float)) for row in rows)}
    texts = [[clean(_cell(value)) for value in row] for row in rows]
    yield from columns_text([clean(name) for name in names], texts, screen, numbers)
    yield screen.paint(f"({counted(len(rows), 'row', 'rows')})", "dim")


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def csv_text(names: list[str], rows: list[tuple[Any, ...]], is_terminal: bool, is_for_spreadsheets: bool = True) -> str:
    """A result as CSV, NULL as an empty cell. Texts are cleaned, in a file except for their line feeds and tabs. In one for
    spreadsheets none is a formula (:func:`inert`)."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    cleaned = clean if is_terminal else clean_lines
    text = (lambda each: inert(cleaned(each))) if is_for_spreadsheets else cleaned
    writer.writerow(map(text, names))
    writer.writerows([_csv_cell(value, text) for value in row] for row in rows)
    return buffer.getvalue()


def _csv_cell(value: Any, text: Callable[[str], str]) -> str:
    if value is None or isinstance(value, (int, float, Decimal)):
        return "" if value is None else str(value)
    return text(str(value))


def json_rows(names: list[str], rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """The rows of a result as objects for JSON."""
    return [dict(zip(names, map(_json_value, row), strict=True)) for row in rows]


def _json_value(value: Any) -> Any:
    """A value of DuckDB for JSON: bytes as hex, NaN and infinities as null, other types as text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (list, tuple)):
        return [_json_value(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _json_value(each) for key, each in value.items()}
    return str(value)


def inert(text: str) -> str:
    """``text`` with an apostrophe before it if a spreadsheet would take it for a formula. A number is none, also as text.

    The characters are those of OWASP's page on CSV injection. Spaces before them are no protection everywhere.
    """
    is_formula = text.lstrip().startswith(_FORMULA) or text.startswith(_INVISIBLE)
    return f"'{text}" if is_formula and not _NUMBER.fullmatch(text) else text


def schema_text(views: Sequence[tuple[str, str, list[ViewColumn]]], screen: Screen, first: int) -> Iterator[str]:
    """Every view with its columns, types, units and meaning. Most questions need those before place ``first`` only."""
    for place, (name, text, columns) in enumerate(views):
        if first and place in (0, first):
            yield from ("The other views:" if place else "Most questions need one of these views:", "")
        yield screen.paint(name, "bold")
        yield from (screen.paint(line, "dim") for line in wrap(f"  {text}", screen.width, indent="  "))
        for column in columns:
            kind = f"{column.type} " if column.type else ""
            unit = f"[{column.unit}] " if column.unit else ""
            yield from wrap(f"  {column.name:24} {kind}{unit}{column.text}", screen.width, indent=" " * 27)
        yield ""
