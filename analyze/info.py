"""What a trace says of itself: settings, losses, processes, how much it holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from . import queries
from .open import Traces
from .results import Loss, MarkInfo, ProcessInfo, TraceInfo

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Samplers of the format; those that this version does not record count as None.
SAMPLERS = ("cpu", "wait", "memory", "alloc", "copy", "gpu", "rss")


def settings(connection: DuckDBPyConnection) -> dict[str, str]:
    """The settings of the (one) trace, by name."""
    return dict(connection.execute("SELECT name, value FROM settings ORDER BY name").fetchall())


def trace_info(traces: Traces) -> TraceInfo:
    """What the one opened trace says of itself."""
    connection, (file,) = traces.connection, traces.files
    values, counts = settings(connection), queries.rows(connection, "event_counts")[0]
    wall_ns = _parsed(values.get("wall_ns"))
    command = _parsed(values.get("command"))
    return TraceInfo(
        path=str(file.path),
        trace_id=file.header.trace_id,
        format_version=file.header.version,
        started_at=values.get("started_at"),
        wall_s=wall_ns / 1e9 if isinstance(wall_ns, int) else None,
        command=[str(word) for word in command] if isinstance(command, list) else None,
        python=_python_version(connection),
        processes=counts["processes"],
        threads=counts["threads"],
        events=_events(values, counts),
        losses=[Loss(**row) for row in queries.rows(connection, "losses_list")],
    )


def process_infos(traces: Traces, trace: int) -> list[ProcessInfo]:
    """The processes of the one opened trace, by start; ``trace`` is the number to show for it."""
    return [ProcessInfo(**(row | {"trace": trace})) for row in queries.rows(traces.connection, "process_list")]


def mark_infos(traces: Traces, trace: int) -> list[MarkInfo]:
    """What was said during the one opened recording, by time; ``trace`` is the number to show for it."""
    return [MarkInfo(**(row | {"trace": trace})) for row in queries.rows(traces.connection, "mark_list")]


def _python_version(connection: DuckDBPyConnection) -> str | None:
    """Version of the first interpreter that the recording met."""
    found = "SELECT python_version FROM processes WHERE python_version IS NOT NULL ORDER BY t_ns, process LIMIT 1"
    row = connection.execute(found).fetchone()
    return row[0] if row else None


def _events(values: dict[str, str], counts: dict[str, Any]) -> dict[str, int | None]:
    features = _parsed(values.get("features"))
    events: dict[str, int | None] = {}
    for name in SAMPLERS:
        is_on = name in features if isinstance(features, list) and name != "rss" else bool(counts.get(name))
        events[name] = counts[name] if name in counts and (is_on or counts[name]) else None
    return events


def _parsed(text: str | None) -> Any:
    """The JSON value of a setting; None for what is absent or none."""
    try:
        return json.loads(text) if text is not None else None
    except ValueError:
        return None
