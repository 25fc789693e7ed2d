"""The traces of a fleet as rows: all that are selected, or those behind a figure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from ..results.base import sorted_rows
from ..results.fleet import FleetTrace
from ..trace import queries
from .opening import Fleet


def build_traces(
    fleet: Fleet,
    file: str | None = None,
    line: int | None = None,
    metric: str = "cpu_s",
    is_unreadable: bool = False,
    sort: str | None = None,
    limit: int | None = None,
) -> list[FleetTrace]:
    """The selected traces, in the order of their starts; with ``file`` those in which it (or its ``line``) has the figure
    ``metric``, largest first; with ``is_unreadable`` the files that could not be read, by path."""
    if is_unreadable:
        rows = queries.rows(fleet.connection, "unreadable_files")
    elif file is None:
        rows = queries.rows(fleet.connection, "trace_list")
    else:
        rows = queries.rows(fleet.connection, "traces_of_line", file=file, line=line, metric=metric)
    found = [_trace(row) for row in rows]
    return (sorted_rows(found, sort) if sort else found)[:limit]


def _trace(row: dict[str, Any]) -> FleetTrace:
    start_ns, wall_ns, recorded_ns = row.pop("start_ns"), row.pop("wall_ns"), row.pop("recorded_ns")
    recorded_ns = wall_ns if recorded_ns is None else recorded_ns
    labels, lost = dict(row.pop("labels") or {}), row.pop("losses")
    return FleetTrace(
        **row,
        labels=labels,
        lost_events=lost,
        started_at=time_text(start_ns),
        wall_s=None if wall_ns is None else wall_ns / 1e9,
        recorded_s=None if recorded_ns is None else recorded_ns / 1e9,
    )


def time_text(time_ns: int | None) -> str | None:
    """A time in nanoseconds since 1970 as ISO 8601, in UTC to the second; None if it is unknown, or none that a calendar has."""
    if time_ns is None:
        return None
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=time_ns // 10**9)).isoformat()
    except OverflowError:
        return None
