"""Memory of the process tree over time."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..results.records import GpuPoint, Mark, MarkInfo, Timeline, TimelinePoint
from ..results.trend import MAX_POINTS, Point, reduce_points, steps
from ..trace import queries
from ..trace.info import mark_infos, trace_info
from ..trace.selection import Selection
from ..trace.traces import REPORT_TABLES, open_traces
from .gpu import gpu_points

if TYPE_CHECKING:
    from ..trace.connection import Connection

Event = tuple[int, int]  #: (time in ns, bytes from then on)


@dataclass(frozen=True)
class Memory:
    """Peaks of the process tree, and its footprint over time."""

    peak_bytes: int
    python_peak_bytes: int
    peak_rss_bytes: int | None
    footprint: list[Event]

    def timeline(self) -> list[Point]:
        """The footprint over time as [s, bytes], at most 100 points."""
        return reduce_points(steps(self.footprint))

    def merged(self, other: Memory) -> Memory:
        """Of two traces: the higher of each peak, and the footprint of the one with the higher."""
        higher = self if self.peak_bytes >= other.peak_bytes else other
        resident = [each.peak_rss_bytes for each in (self, other) if each.peak_rss_bytes is not None]
        python = max(self.python_peak_bytes, other.python_peak_bytes)
        return Memory(higher.peak_bytes, python, max(resident, default=None), higher.footprint)


def memory_over_time(connection: Connection, selection: Selection, traces: int = 1) -> list[Memory]:
    """The memory of each opened trace within the selection's time window; ``traces``: how many are open."""
    footprints, resident = footprint_events(connection), peak_rss(connection, selection)
    return [_memory(footprints[trace], resident.get(trace), selection) for trace in range(1, traces + 1)]


def _memory(rows: list[tuple[int, int, int]], peak_rss_bytes: int | None, selection: Selection) -> Memory:
    footprint = _window([(t_ns, value) for t_ns, value, _ in rows], selection)
    python = _window([(t_ns, value) for t_ns, _, value in rows], selection)
    return Memory(
        peak_bytes=max((each[1] for each in footprint), default=0),
        python_peak_bytes=max((each[1] for each in python), default=0),
        peak_rss_bytes=peak_rss_bytes,
        footprint=footprint,
    )


def footprint_events(connection: Connection) -> defaultdict[int, list[tuple[int, int, int]]]:
    """(time in ns, footprint, Python's part in bytes) of the process trees of the opened traces, by trace, in order of time."""
    found = "SELECT trace, t_ns, footprint_bytes, python_footprint_bytes FROM footprint_events"
    rows = connection.execute(f"{found} ORDER BY trace, t_ns, is_gone").fetchall()
    return _by_trace(rows)


def peak_rss(connection: Connection, selection: Selection) -> dict[int, int]:
    """Highest resident sets of the process trees in bytes, by trace; those of which nothing is told are absent.

    The sum over the processes as the recorder read it, or the kernel's own high-water mark of one process if that is
    higher. A high-water mark has no time, so it counts only where the selection has no restriction.
    """
    peaks: dict[int, int] = {}
    for trace, events in _rss_events(connection).items():
        if held := _window(events, selection):
            peaks[trace] = max(each[1] for each in held)
    if selection.from_s is None and selection.to_s is None and not selection.processes:
        highest = "SELECT trace, max(peak_rss_bytes) AS mark FROM processes GROUP BY trace HAVING mark IS NOT NULL"
        for trace, mark in connection.execute(highest).fetchall():
            peaks[trace] = max(mark, peaks.get(trace, mark))
    return peaks


def _rss_events(connection: Connection) -> defaultdict[int, list[Event]]:
    return _by_trace(
        connection.execute("SELECT trace, t_ns, rss_bytes FROM rss_events ORDER BY trace, t_ns").fetchall()
    )


def _by_trace(rows: list[tuple[Any, ...]]) -> defaultdict[int, list[Any]]:
    """The rows without the trace that each begins with."""
    found: defaultdict[int, list[Any]] = defaultdict(list)
    for row in rows:
        found[row[0]].append(row[1:])
    return found


def _window(events: list[Event], selection: Selection) -> list[Event]:
    """The events within the window; the last one before it is moved to its start."""
    from_ns, to_ns = selection.from_ns, selection.to_ns
    if to_ns is not None:
        events = [event for event in events if event[0] < to_ns]
    if from_ns is None:
        return events
    before = [event for event in events if event[0] < from_ns]
    return [(from_ns, event[1]) for event in before[-1:]] + [event for event in events if event[0] >= from_ns]


def build_timeline(
    paths: Sequence[Path], selection: Selection, query: dict[str, object], limit: int = MAX_POINTS
) -> Timeline:
    """Rows of :class:`TimelinePoint`, at most ``limit`` a trace, in order of trace and time, garbage collections and GPUs.

    Raises the errors of :func:`open_traces`.
    """
    infos, rows = [], []
    collections: list[list[Mark]] = []
    marks: list[MarkInfo] = []
    gpu: list[GpuPoint] = []
    for index, path in enumerate(paths, start=1):
        with open_traces([path], selection, REPORT_TABLES) as traces:
            infos.append(trace_info(traces))
            rows += _timeline_points(traces.connection, selection, index, limit)
            collections.append(queries.run(traces.connection, "collection_marks"))
            marks += mark_infos(traces, index)
            gpu += gpu_points(traces.connection, infos[-1], selection, index)
    return Timeline("timeline", query, infos, rows, "", collections, marks, gpu)


def _timeline_points(connection: Connection, selection: Selection, trace: int, limit: int) -> list[TimelinePoint]:
    rows = footprint_events(connection)[1]
    footprint = _window([(t_ns, value) for t_ns, value, _ in rows], selection)
    python = _window([(t_ns, value) for t_ns, _, value in rows], selection)
    resident = _window(_rss_events(connection)[1], selection)
    if not any(value for _, value in footprint):
        footprint, python = [], []
    points = reduce_points(steps(footprint or resident), max(limit, 3))
    times_s = sorted(t_s for t_s, _ in sorted(points, key=lambda point: -point[1])[:limit])  # at most two: the highest
    series = [_Held(events) for events in (footprint, python, resident)]
    return [TimelinePoint(trace, t_s, *(held.at(round(t_s * 1e9)) for held in series)) for t_s in times_s]


class _Held:
    """Values that hold until the next."""

    def __init__(self, events: list[Event]) -> None:
        self._times = [t_ns for t_ns, _ in events]
        self._values = [value for _, value in events]

    def at(self, t_ns: int) -> int | None:
        """The value at ``t_ns``; None before the first."""
        index = bisect.bisect_right(self._times, t_ns)
        return self._values[index - 1] if index else None
