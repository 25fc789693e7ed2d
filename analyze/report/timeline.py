"""Memory of the process tree over time."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..results.timeline import GcEvent, GpuPoint, Timeline, TimelinePoint
from ..results.trace import MarkInfo
from ..results.trend import MAX_POINTS, Point, reduce_points, steps
from ..trace import queries
from ..trace.info import mark_infos, trace_info
from ..trace.selection import Selection
from ..trace.traces import REPORT_TABLES, open_traces
from .gpu import gpu_points

if TYPE_CHECKING:
    from ..trace.connection import Connection

Event = tuple[int, int]  #: (time in ns, bytes from then on)

#: What was never in memory is said if it is this much, and this share of the peak. Less may be buffers of which a part is not
#: used yet: the working space that BLAS maps for each thread, stacks, numpy.empty.
LEAST_UNUSED_BYTES, LEAST_UNUSED_SHARE = 100_000_000, 1 / 3


@dataclass(frozen=True)
class Memory:
    """Memory of the process tree in bytes: its peaks, and its footprint over time; ``all_peaks_bytes``: the peaks of all traces
    together; ``low_rss_bytes``: the peak of the resident set in the trace with the highest peak, if that shows that much of
    what was allocated was never in memory (:func:`_low_rss`)."""

    peak_bytes: int
    all_peaks_bytes: int
    python_peak_bytes: int
    peak_rss_bytes: int | None
    footprint: list[Event]
    low_rss_bytes: int | None = None

    def timeline(self) -> list[Point]:
        """The footprint over time as (s, bytes), at most 100 points."""
        return reduce_points(steps(self.footprint))

    def merged(self, other: Memory) -> Memory:
        """Two traces merged: the higher of each peak, and the footprint of the trace with the higher peak."""
        higher = self if self.peak_bytes >= other.peak_bytes else other
        resident = [each.peak_rss_bytes for each in (self, other) if each.peak_rss_bytes is not None]
        python = max(self.python_peak_bytes, other.python_peak_bytes)
        together = self.all_peaks_bytes + other.all_peaks_bytes
        return Memory(
            peak_bytes=higher.peak_bytes,
            all_peaks_bytes=together,
            python_peak_bytes=python,
            peak_rss_bytes=max(resident, default=None),
            footprint=higher.footprint,
            low_rss_bytes=higher.low_rss_bytes,
        )


def memory_over_time(connection: Connection, selection: Selection, traces: int = 1) -> list[Memory]:
    """The memory of each opened trace within the selection's time window; ``traces``: the number of opened traces."""
    footprints, resident = footprint_events(connection), peak_rss(connection, selection)
    found = [_memory(footprints[trace], resident.get(trace), selection) for trace in range(1, traces + 1)]
    if selection.from_s is not None or selection.to_s is not None or selection.processes:
        return found  # high-water marks have no time
    if not any(_is_low(each.peak_rss_bytes, each.peak_bytes) for each in found):
        return found
    unused = _never_resident(connection)
    return [replace(each, low_rss_bytes=_low_rss(each, unused.get(trace, 0))) for trace, each in enumerate(found, 1)]


def _is_low(rss_bytes: int | None, peak_bytes: int) -> bool:
    """Is the peak of the resident set well below that of the footprint?"""
    return rss_bytes is not None and peak_bytes - rss_bytes >= max(LEAST_UNUSED_BYTES, LEAST_UNUSED_SHARE * peak_bytes)


def _low_rss(memory: Memory, unused_bytes: int) -> int | None:
    """The peak of the resident set if it is well below that of the footprint, also as far as single processes show it: the
    resident set of the tree is read a few times a second, so that pages which were there for less may be in no reading."""
    rss_bytes = memory.peak_rss_bytes
    is_shown = _is_low(memory.peak_bytes - unused_bytes, memory.peak_bytes)
    return rss_bytes if is_shown and _is_low(rss_bytes, memory.peak_bytes) else None


def _never_resident(connection: Connection) -> dict[int, int]:
    """By trace, how much higher the footprints of processes were than the kernel's high-water marks of their resident sets. The
    marks miss nothing; processes without one, which ran on or were killed, do not count."""
    sql = """
        WITH told AS (
            SELECT trace, process, footprint_bytes FROM memory_samples
            UNION ALL
            SELECT trace, process, footprint_bytes FROM heap_samples
        ), highest AS (
            SELECT trace, process, max(footprint_bytes) AS footprint_bytes FROM told GROUP BY ALL
        )
        SELECT trace, sum(greatest(footprint_bytes - peak_rss_bytes, 0))::BIGINT
        FROM highest JOIN processes USING (trace, process) WHERE peak_rss_bytes > 0 GROUP BY trace"""
    return dict(connection.execute(sql).fetchall())


def _memory(rows: list[tuple[int, int, int]], peak_rss_bytes: int | None, selection: Selection) -> Memory:
    footprint = _window([(t_ns, value) for t_ns, value, _ in rows], selection)
    python = _window([(t_ns, value) for t_ns, _, value in rows], selection)
    peak_bytes = max((each[1] for each in footprint), default=0)
    return Memory(
        peak_bytes=peak_bytes,
        all_peaks_bytes=peak_bytes,
        python_peak_bytes=max((each[1] for each in python), default=0),
        peak_rss_bytes=peak_rss_bytes,
        footprint=footprint,
    )


def footprint_events(connection: Connection) -> defaultdict[int, list[tuple[int, int, int]]]:
    """Footprints of the process trees by trace: (time in ns, bytes, Python's part in bytes) in order of time."""
    found = "SELECT trace, t_ns, footprint_bytes, python_footprint_bytes FROM footprint_events"
    rows = connection.execute(f"{found} ORDER BY trace, t_ns, is_gone").fetchall()
    return _by_trace(rows)


def peak_rss(connection: Connection, selection: Selection) -> dict[int, int]:
    """The highest resident sets of the process trees in bytes by trace; traces without a known one are absent.

    The figure is the sum over the processes as the recorder polled it, or the kernel's high-water mark of a single process if
    that is higher. A high-water mark has no time, so it is used only if the selection restricts neither time nor processes.
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
    """The rows by trace, without the trace number in their first column."""
    found: defaultdict[int, list[Any]] = defaultdict(list)
    for row in rows:
        found[row[0]].append(row[1:])
    return found


def _window(events: list[Event], selection: Selection) -> list[Event]:
    """The events within the time window; the last event before the window is moved to its start."""
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
    """Rows of :class:`TimelinePoint` in order of trace and time, with garbage collections, marks and GPUs.

    ``limit``: the most rows per trace. ``query`` is copied into the result. Raises the errors of :func:`open_traces`.
    """
    infos, rows = [], []
    collections: list[list[GcEvent]] = []
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
    times_s = sorted(
        t_s for t_s, _ in sorted(points, key=lambda point: -point[1])[:limit]
    )  # a limit below 3 keeps the highest
    series = [_Held(events) for events in (footprint, python, resident)]
    return [TimelinePoint(trace, t_s, *(held.at(round(t_s * 1e9)) for held in series)) for t_s in times_s]


class _Held:
    """A step function: values that hold until the next one."""

    def __init__(self, events: list[Event]) -> None:
        self._times = [t_ns for t_ns, _ in events]
        self._values = [value for _, value in events]

    def at(self, t_ns: int) -> int | None:
        """The value at ``t_ns``; None before the first."""
        index = bisect.bisect_right(self._times, t_ns)
        return self._values[index - 1] if index else None
