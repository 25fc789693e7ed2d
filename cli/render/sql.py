"""Results of SQL as a table or CSV, and the list of views."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any

from ...analyze.trace.views import ViewColumn
from .table import columns_text, wrap
from .text import Screen, clean, counted


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


def csv_text(names: list[str], rows: list[tuple[Any, ...]], is_terminal: bool) -> str:
    """A result as CSV, NULL as an empty cell; on a terminal the cells are cleaned."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        cells = ["" if value is None else str(value) for value in row]
        writer.writerow([clean(cell) for cell in cells] if is_terminal else cells)
    return buffer.getvalue()


def schema_text(views: Iterable[tuple[str, str, list[ViewColumn]]], screen: Screen) -> Iterator[str]:
    """Every view with its columns, types, units and meaning."""
    for name, text, columns in views:
        yield screen.paint(name, "bold")
        yield from (screen.paint(line, "dim") for line in wrap(f"  {text}", screen.width, indent="  "))
        for column in columns:
            kind = f"{column.type} " if column.type else ""
            unit = f"[{column.unit}] " if column.unit else ""
            yield from wrap(f"  {column.name:24} {kind}{unit}{column.text}", screen.width, indent=" " * 27)
        yield ""
