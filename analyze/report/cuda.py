"""Calls of CUDA libraries by line and function: copies, waits and device memory (docs/design/cuda-calls.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..results.report import DeviceCopies
from ..trace import queries
from .row_index import FUNCTION, LINE, Row, RowIndex

if TYPE_CHECKING:
    from ..trace.connection import Connection

DIRECTIONS = ("h2d_bytes", "d2h_bytes", "d2d_bytes", "h2h_bytes", "unified_bytes")
#: Columns of line_device_figures.sql that add up.
SUMMED = (*DIRECTIONS, "device_copy_s", "device_sync_s", "device_alloc_bytes", "device_live_at_peak_bytes")
#: The samplers of :data:`info.SAMPLERS` that record calls of CUDA libraries.
SAMPLERS = ("device_copy", "device_sync", "device_alloc")


def add_devices(
    connection: Connection, has_calls: bool, lines: list[Row], functions: list[Row], rest: Row
) -> int | None:
    """Adds the columns :data:`SUMMED` to rows of lines.sql and functions.sql, and to the row of unattributed.sql (``rest``).

    A line without other samples becomes a new row. Returns the most device memory (bytes) that all recorded processes of a
    trace had together; None if none was recorded. Without calls of CUDA libraries (``has_calls``) the columns are 0 and
    nothing is queried.
    """
    for row in (*lines, *functions, rest):
        row.update(dict.fromkeys(SUMMED, 0))
    if not has_calls:
        return None
    found = queries.rows(connection, "line_device_figures")
    tables = RowIndex(lines, LINE, rest), RowIndex(functions, FUNCTION, rest)
    for each in found:
        for row in [rest] if each["file"] is None else [table.at(each) for table in tables]:
            _count(row, each)
    return max((row["device_bytes"] for row in queries.rows(connection, "device_moments")), default=None) or None


def have_calls(events: Iterable[dict[str, int | None]]) -> bool:
    """Were calls of a CUDA library recorded in any trace? ``events``: :attr:`TraceInfo.events` of each trace."""
    return any(each[name] for each in events for name in SAMPLERS)


def _count(row: Row, figures: Row) -> None:
    for name in SUMMED:
        row[name] += figures[name]


def device_fields(rows: Iterable[Row], has_calls: bool) -> Row:
    """The fields of results about copies, waits and allocations on devices for the sum of ``rows``; empty without CUDA calls."""
    if not has_calls:
        return {}
    sums = dict.fromkeys(SUMMED, 0)
    for row in rows:
        _count(sums, row)
    copies = {name: sums[name] for name in DIRECTIONS}
    kept = {name: sums[name] for name in ("device_copy_s", "device_sync_s", "device_alloc_bytes")}
    return {"device_copy_bytes": sum(copies.values()), "device_copies": DeviceCopies(**copies)} | kept
