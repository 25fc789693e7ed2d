"""Finds rows of lines and functions by their place, so that several queries can add columns to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]

LINE = ("file", "line")
FUNCTION = ("file", "function", "first_line")
#: Columns that only functions have: sums over all stacks that contain the function.
CUMULATIVE = (
    "cumulative_cpu_s",
    "cumulative_cpu_variance",
    "cumulative_wait_s",
    "cumulative_alloc_bytes",
    "cumulative_alloc_variance",
    "cumulative_live_at_peak_bytes",
    "cumulative_live_at_peak_variance",
    "cumulative_live_at_end_bytes",
    "cumulative_live_at_end_variance",
)
_PLACE = ("file", "line", "function", "first_line")


class RowIndex:
    """``rows`` of lines.sql or functions.sql, indexed by the columns ``names``.

    ``rest`` is the row of unattributed.sql. It has every column that adds up except those of CUMULATIVE, and so is the
    pattern for new rows.
    """

    def __init__(self, rows: list[Row], names: Sequence[str], rest: Row) -> None:
        self._rows, self._names, self._rest = rows, names, rest
        self._by_key = {self._key(row): row for row in rows}

    def _key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self._names)

    def at(self, place: Row) -> Row:
        """The row of a place; if it does not exist yet, a row of zeros is added to ``rows``."""
        key = self._key(place)
        if key not in self._by_key:
            more: Row = dict.fromkeys(CUMULATIVE, 0.0) if self._names == FUNCTION else {}
            nothing = dict.fromkeys(self._rest, 0) | {"trace": 1} | more
            self._by_key[key] = nothing | {name: place[name] for name in _PLACE}
            self._rows.append(self._by_key[key])
        return self._by_key[key]
