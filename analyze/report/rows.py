"""Rows of lines and functions, to which several queries add what they know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]

LINE = ("file", "line")
FUNCTION = ("file", "function", "first_line")
_PLACE = ("file", "line", "function", "first_line")


class Rows:
    """``rows`` of lines.sql or functions.sql by the columns ``names``. ``rest`` is the row of unattributed.sql, which has every
    column that adds up but one."""

    def __init__(self, rows: list[Row], names: Sequence[str], rest: Row) -> None:
        self._rows, self._names, self._rest = rows, names, rest
        self._by_key = {self._key(row): row for row in rows}

    def _key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self._names)

    def at(self, place: Row) -> Row:
        """The row of that place; where nothing else was sampled there, one of nothing is added."""
        key = self._key(place)
        if key not in self._by_key:
            more: Row = {"cumulative_cpu_s": 0.0} if self._names == FUNCTION else {}  # which lines do not have
            nothing = dict.fromkeys(self._rest, 0) | {"trace": 1} | more
            self._by_key[key] = nothing | {name: place[name] for name in _PLACE}
            self._rows.append(self._by_key[key])
        return self._by_key[key]
