"""What a trace says of itself: settings, losses, processes, how much it holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from . import queries
from .open import Traces
from .results import Loss, MarkInfo, ProcessInfo, TraceInfo

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Samplers of the format; those that this version does not record count as None.
SAMPLERS = (
    "cpu",
    "wait",
    "task",
    "memory",
    "alloc",
    "copy",
    "gpu",
    "rss",
    "device_copy",
    "device_sync",
    "device_alloc",
)


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
    """The processes of the one opened trace as a tree: each after its parent, those of one parent by their start.

    ``trace`` is the number to show for it.
    """
    off = _not_recorded(_events(settings(traces.connection), queries.rows(traces.connection, "event_counts")[0]))
    rows = [row | off | {"trace": trace} for row in queries.rows(traces.connection, "process_list")]
    return [ProcessInfo(**row, depth=depth) for row, depth in tree_order(rows)]


def tree_order(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], int]]:
    """``rows`` (by start; with ``process`` and ``parent``) each after its parent, with its depth from 0.

    Rows whose parent is not there are roots; those of a cycle (a damaged trace) too.
    """
    children: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        children.setdefault(row["parent"], []).append(row)
    known, done = {row["process"] for row in rows}, set[int]()
    roots = [row for row in rows if row["parent"] not in known]
    for root in (*roots, *rows):
        waiting = [(root, 0)]
        while waiting:
            row, depth = waiting.pop()
            if row["process"] not in done:
                done.add(row["process"])
                yield row, depth
                waiting += [(child, depth + 1) for child in reversed(children.get(row["process"], []))]


def _not_recorded(events: dict[str, int | None]) -> dict[str, None]:
    """None for the figures of a process whose sampler was off."""
    names = ["python_s", "native_s", "system_s"] if events["cpu"] is None else []
    return dict.fromkeys(names + (["growth_bytes", "peak_bytes"] if events["memory"] is None else []))


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
