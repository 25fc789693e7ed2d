"""What lines and functions ask CUDA libraries for: copies, waits and device memory (docs/design/gpu-copies.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..results.records import DeviceCopies
from ..trace import queries
from .rows import FUNCTION, LINE, Row, Rows

if TYPE_CHECKING:
    from ..trace.connection import Connection

DIRECTIONS = ("h2d_bytes", "d2h_bytes", "d2d_bytes", "h2h_bytes", "unified_bytes")
#: Columns of device_rows.sql that add up.
SUMMED = (*DIRECTIONS, "device_copy_s", "device_sync_s", "device_alloc_bytes", "device_live_at_peak_bytes")
#: Samplers of :data:`info.SAMPLERS` that this is about.
SAMPLERS = ("device_copy", "device_sync", "device_alloc")


def add_devices(
    connection: Connection, has_calls: bool, lines: list[Row], functions: list[Row], rest: Row
) -> int | None:
    """Adds the columns :data:`SUMMED` to rows of lines.sql and functions.sql, and to the one of unattributed.sql. A line
    that nothing else was sampled on becomes a row. Returns the most device memory that all recorded processes of a trace
    together had; None = none was seen. Nothing is asked for where calls of CUDA libraries were not seen."""
    for row in (*lines, *functions, rest):
        row.update(dict.fromkeys(SUMMED, 0))
    if not has_calls:
        return None
    found = queries.rows(connection, "device_rows")
    tables = Rows(lines, LINE, rest), Rows(functions, FUNCTION, rest)
    for each in found:
        for row in [rest] if each["file"] is None else [table.at(each) for table in tables]:
            _count(row, each)
    return max((row["device_bytes"] for row in queries.rows(connection, "device_moments")), default=None) or None


def have_calls(events: Iterable[dict[str, int | None]]) -> bool:
    """Were calls of a CUDA library seen in any of the traces? ``events``: those of each."""
    return any(each[name] for each in events for name in SAMPLERS)


def _count(row: Row, figures: Row) -> None:
    for name in SUMMED:
        row[name] += figures[name]


def asked_of_devices(rows: Iterable[Row], has_calls: bool) -> Row:
    """The fields of results about devices (but for what was alive) for these rows together; none where no call of a CUDA
    library was seen."""
    if not has_calls:
        return {}
    sums = dict.fromkeys(SUMMED, 0)
    for row in rows:
        _count(sums, row)
    copies = {name: sums[name] for name in DIRECTIONS}
    kept = {name: sums[name] for name in ("device_copy_s", "device_sync_s", "device_alloc_bytes")}
    return {"device_copy_bytes": sum(copies.values()), "device_copies": DeviceCopies(**copies)} | kept
