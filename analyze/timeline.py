"""Memory of the process tree over time."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import queries
from .gpu import gpu_points
from .info import mark_infos, trace_info
from .open import REPORT_TABLES, open_traces
from .results import GpuPoint, Mark, MarkInfo, Timeline, TimelinePoint
from .selection import Selection
from .trend import MAX_POINTS, Point, reduce_points, steps

if TYPE_CHECKING:
    from .connection import Connection

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


def memory_over_time(connection: Connection, selection: Selection, trace: int = 1) -> Memory:
    """The memory of an opened trace within the selection's time window; traces count from 1."""
    rows = footprint_events(connection, trace)
    footprint = _window([(t_ns, value) for t_ns, value, _ in rows], selection)
    python = _window([(t_ns, value) for t_ns, _, value in rows], selection)
    return Memory(
        peak_bytes=max((each[1] for each in footprint), default=0),
        python_peak_bytes=max((each[1] for each in python), default=0),
        peak_rss_bytes=peak_rss(connection, selection, trace),
        footprint=footprint,
    )


def footprint_events(connection: Connection, trace: int) -> list[tuple[int, int, int]]:
    """(time in ns, footprint, Python's part in bytes) of the process tree of an opened trace, in order of time."""
    found = "SELECT t_ns, footprint_bytes, python_footprint_bytes FROM footprint_events WHERE trace = ?"
    return connection.execute(f"{found} ORDER BY t_ns, is_gone", (trace,)).fetchall()


def peak_rss(connection: Connection, selection: Selection, trace: int = 1) -> int | None:
    """Highest resident set of the process tree in bytes; None = nothing told it.

    The sum over the processes as the recorder read it, or the kernel's own high-water mark of one process if that is
    higher. A high-water mark has no time, so it counts only where the selection has no restriction.
    """
    found = [each[1] for each in _window(_rss_events(connection, trace), selection)]
    if selection.from_s is None and selection.to_s is None and not selection.processes:
        highest = "SELECT max(peak_rss_bytes) FROM processes WHERE trace = ?"
        (mark,) = connection.execute(highest, (trace,)).fetchall()[0]
        found += [mark] if mark is not None else []
    return max(found, default=None)


def _rss_events(connection: Connection, trace: int) -> list[Event]:
    found = "SELECT t_ns, rss_bytes FROM rss_events WHERE trace = ? ORDER BY t_ns"
    return connection.execute(found, (trace,)).fetchall()


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
    rows = footprint_events(connection, 1)
    footprint = _window([(t_ns, value) for t_ns, value, _ in rows], selection)
    python = _window([(t_ns, value) for t_ns, _, value in rows], selection)
    resident = _window(_rss_events(connection, 1), selection)
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
