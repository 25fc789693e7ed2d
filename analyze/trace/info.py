"""The metadata of a trace: settings, losses, processes, marks, and the number of records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..results.trace import Info, Loss, MarkInfo, ProcessInfo, TraceInfo
from . import queries
from .traces import REPORT_TABLES, TraceFile, Traces, open_traces

if TYPE_CHECKING:
    from .connection import Connection

#: Samplers of the format, by the kind of their records.
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

#: The most digits of an integer setting, so that it fits into 64 bits.
_MOST_DIGITS = 18


@dataclass(frozen=True)
class Pauses:
    """Times of a trace in which nothing was sampled, by time, without overlaps: begin and end in ns from its start."""

    spans: tuple[tuple[int, int], ...] = ()

    def within(self, from_ns: int, to_ns: int) -> int:
        """How many nanoseconds of this time were paused."""
        return sum(max(min(end, to_ns) - max(begin, from_ns), 0) for begin, end in self.spans)


NEVER = Pauses()


def build_info(paths: Sequence[Path], query: dict[str, Any]) -> Info:
    """The metadata of each trace: settings, losses, counts, marks, and its processes as rows.

    ``query`` is copied into the result. Raises the errors of :func:`open_traces`.
    """
    described: list[dict[str, Any]] = []
    rows: list[ProcessInfo] = []
    marks: list[MarkInfo] = []
    for index, path in enumerate(paths, start=1):
        with open_traces([path], None, REPORT_TABLES) as traces:
            queries.ahead(traces.connection, "process_list", "mark_list", "loss_list")
            found = {"size_bytes": path.stat().st_size, "settings": settings(traces.connection)}
            described.append(vars(trace_info(traces)) | found)
            rows += process_infos(traces, index)
            marks += mark_infos(traces, index)
    return Info("info", query, described, rows, "processes", marks)


def settings(connection: Connection) -> dict[str, str]:
    """The settings of the one opened trace, by name."""
    return settings_by_trace(connection).get(1, {})


def settings_by_trace(connection: Connection) -> dict[int, dict[str, str]]:
    """The settings of each opened trace by name; traces without any are absent."""
    found: dict[int, dict[str, str]] = {}
    query = "SELECT trace, name, value FROM settings WHERE name IS NOT NULL AND value IS NOT NULL ORDER BY name"
    for trace, name, value in connection.execute(query).fetchall():
        found.setdefault(trace, {})[name] = value
    return found


def trace_info(traces: Traces) -> TraceInfo:
    """The metadata of the one opened trace."""
    (info,) = trace_infos(traces)
    return info


def trace_infos(traces: Traces) -> list[TraceInfo]:
    """The metadata of each opened trace, in their order."""
    connection = traces.connection
    counts, pythons, values = _record_counts(connection), _python_versions(connection), settings_by_trace(connection)
    pauses = pauses_by_trace(connection)
    losses: dict[int, list[Loss]] = {}
    for row in queries.rows(connection, "loss_list"):
        losses.setdefault(row.pop("trace"), []).append(Loss(**row))
    return [
        _trace_info(
            file,
            values.get(trace, {}),
            counts.get(trace, {}),
            pythons.get(trace),
            losses.get(trace, []),
            pauses.get(trace, NEVER),
        )
        for trace, file in enumerate(traces.files, start=1)
    ]


def _trace_info(
    file: TraceFile,
    values: dict[str, str],
    counts: dict[str, int],
    python: str | None,
    losses: list[Loss],
    pauses: Pauses,
) -> TraceInfo:
    wall_ns = whole_number(values.get("wall_ns"))
    command = _parsed(values.get("command"))
    return TraceInfo(
        path=str(file.path),
        trace_id=file.header.trace_id,
        format_version=file.header.version,
        started_at=values.get("started_at"),
        wall_s=None if wall_ns is None else wall_ns / 1e9,
        command=[str(word) for word in command] if isinstance(command, list) else None,
        python=python,
        processes=counts.get("process", 0),
        threads=counts.get("thread", 0),
        events=_events(values, counts),
        losses=losses,
        paused_s=0.0 if wall_ns is None else pauses.within(0, wall_ns) / 1e9,
        exit_status=whole_number(values.get("exit_status")),
    )


def pauses_by_trace(connection: Connection) -> dict[int, Pauses]:
    """The pauses of each opened trace that has any. A pause without an end lasts to the end of the trace."""
    sql = """SELECT p.trace, p.t_ns, coalesce(p.end_ns, w.wall_ns, p.t_ns) AS end_ns FROM marks p
        LEFT JOIN (SELECT trace, any_value(try_cast(value AS BIGINT)) AS wall_ns FROM settings WHERE name = 'wall_ns'
            GROUP BY trace) w USING (trace)
        WHERE p.what = 'pause' AND p.t_ns IS NOT NULL ORDER BY p.trace, p.t_ns, end_ns"""
    spans: dict[int, list[tuple[int, int]]] = {}
    for trace, begin, end in connection.execute(sql).fetchall():
        own = spans.setdefault(trace, [])
        begin = max(begin, own[-1][1]) if own else max(begin, 0)  # a damaged trace may have some that overlap
        own.append((begin, max(begin, end)))
    return {trace: Pauses(tuple(own)) for trace, own in spans.items()}


def _record_counts(connection: Connection) -> dict[int, dict[str, int]]:
    """The number of records by trace and kind."""
    found: dict[int, dict[str, int]] = {}
    for trace, kind, records in connection.execute("SELECT trace, kind, records FROM event_counts").fetchall():
        found.setdefault(trace, {})[kind] = records
    return found


def process_infos(traces: Traces, trace: int) -> list[ProcessInfo]:
    """The processes of the one opened trace as a tree: each after its parent, siblings by their start.

    ``trace`` becomes the trace number of the rows.
    """
    counts = _record_counts(traces.connection).get(1, {})
    off = _not_recorded(_events(settings(traces.connection), counts))
    rows = [row | off | {"trace": trace} for row in queries.rows(traces.connection, "process_list")]
    return [ProcessInfo(**row, depth=depth) for row, depth in tree_order(rows)]


def tree_order(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], int]]:
    """``rows`` (by start; with the keys ``process`` and ``parent``), each after its parent, with its depth from 0.

    Rows without a known parent are roots; so are rows of a cycle, which a damaged trace may have.
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
    """None for the figures of a process whose samplers were off."""
    names = ["python_s", "native_s", "unclassified_s", "system_s"] if events["cpu"] is None else []
    return dict.fromkeys(names + (["growth_bytes", "peak_bytes"] if events["memory"] is None else []))


def mark_infos(traces: Traces, trace: int) -> list[MarkInfo]:
    """The user's marks in the one opened trace, by time; ``trace`` becomes the trace number of the rows."""
    return [MarkInfo(**(row | {"trace": trace})) for row in queries.rows(traces.connection, "mark_list")]


def _python_versions(connection: Connection) -> dict[int, str]:
    """By trace, the version of the first Python interpreter in the recording."""
    found = "SELECT trace, first(python_version ORDER BY t_ns, process) FROM processes WHERE python_version IS NOT NULL"
    return dict(connection.execute(f"{found} GROUP BY trace").fetchall())


def _events(values: dict[str, str], counts: dict[str, int]) -> dict[str, int | None]:
    features = _parsed(values.get("features"))
    events: dict[str, int | None] = {}
    for name in SAMPLERS:
        count = counts.get(name, 0)
        is_on = isinstance(features, list) and name in features and name != "rss"
        events[name] = count if is_on or count else None
    return events


def whole_number(text: str | None) -> int | None:
    """A setting as a non-negative 64-bit integer; None if it is absent or not such a number."""
    is_one = text is not None and text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if text is not None and is_one else None


def _parsed(text: str | None) -> Any:
    """The JSON value of a setting; None if it is absent, not JSON, or nested too deeply to parse."""
    try:
        return json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return None
