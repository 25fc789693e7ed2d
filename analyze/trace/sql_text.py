"""Names and texts as they stand in SQL."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby


def quoted(name: str) -> str:
    """``name`` as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """``text`` as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


def printable(text: str) -> str:
    """``text`` as an SQL expression of printable characters: the others are calls of ``chr``. For statements that are shown."""
    runs = ((is_plain, "".join(run)) for is_plain, run in groupby(text, str.isprintable))
    pieces = [literal(run) if is_plain else " || ".join(f"chr({ord(each)})" for each in run) for is_plain, run in runs]
    return " || ".join(pieces) or literal(text)


def no_rows(columns: Iterable[tuple[str, object]]) -> str:
    """A query with these columns (names and types) and no rows."""
    return f"SELECT {', '.join(f'NULL::{kind} AS {quoted(name)}' for name, kind in columns)} WHERE false"
