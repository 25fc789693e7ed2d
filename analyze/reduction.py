"""Traces, reduced to what a report needs of them, and the sums over several.

Several traces are reduced beside each other and added up one after the other: a hundred of them need hardly more memory
than one, but for what is said of each.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import queries
from .devices import SUMMED as _SUMMED_OF_DEVICES
from .devices import add_devices, device_peak
from .gpu import add_gpu, merged_gpu
from .info import trace_info
from .leaks import Grown, find_leaks
from .open import REPORT_TABLES, Traces, open_traces
from .results import TraceInfo
from .rows import Row
from .selection import Selection
from .sources import sources_of
from .timeline import Memory, memory_over_time
from .trend import Point, reduce_points, steps
from .waits import CLASSES

Key = tuple[Any, ...]

_CPU = ("ticks", "cpu_s", "python_s", "native_s", "system_s", "gc_s", "parallel_native_s", "cumulative_cpu_s")
_MEMORY = ("memory_samples", "growth_bytes", "allocated_bytes", "python_allocated_bytes")
_ALLOCATIONS = ("alloc_bytes", "alloc_variance", "live_at_peak_bytes", "live_at_end_bytes", "copy_bytes")
_SUMMED = frozenset((*_CPU, *CLASSES, "suspended_s", *_MEMORY, *_ALLOCATIONS, *_SUMMED_OF_DEVICES))


@dataclass(frozen=True)
class Reduction:
    """One trace, reduced: rows by key with the columns of lines.sql, functions.sql and library_rows.sql, and the growth
    over time by key."""

    info: TraceInfo
    window_s: float
    memory: Memory | None
    lines: dict[Key, Row]
    functions: dict[Key, Row]
    unattributed: Row
    trends: dict[Key, list[Point]]
    leaks: dict[Key, Grown]
    libraries: dict[Key, Row]
    sources: dict[str, list[str]]
    gpu_peak_bytes: int | None = None
    device_peak_bytes: int | None = None


class Sums:
    """Traces added up: rows by key, as in :class:`Reduction`; and what belongs to each trace, in their order.

    ``window_s`` is the length of all, ``longest_s`` that of the longest; ``trends`` has, by key, the curve of the trace in
    which the growth is largest.
    """

    def __init__(self, first: Reduction) -> None:
        self.infos, self.leaks = [first.info], [first.leaks]
        self.memories = [] if first.memory is None else [first.memory]
        self.gpu_peaks = [] if first.gpu_peak_bytes is None else [first.gpu_peak_bytes]
        self.device_peaks = [first.device_peak_bytes or 0]
        self.window_s = self.longest_s = first.window_s
        self.lines, self.functions, self.libraries = first.lines, first.functions, first.libraries
        self.unattributed, self.trends, self.sources = first.unattributed, first.trends, first.sources

    def has(self, sampler: str) -> bool:
        """Whether any of the traces was recorded with it."""
        return any(info.events[sampler] is not None for info in self.infos)

    def add(self, other: Reduction) -> None:
        """Adds one more trace."""
        self.infos.append(other.info)
        self.leaks.append(other.leaks)
        self.memories += [] if other.memory is None else [other.memory]
        self.gpu_peaks += [] if other.gpu_peak_bytes is None else [other.gpu_peak_bytes]
        self.device_peaks.append(other.device_peak_bytes or 0)
        self.window_s += other.window_s
        self.longest_s = max(self.longest_s, other.window_s)
        for mine, others in (
            (self.lines, other.lines),
            (self.functions, other.functions),
            (self.libraries, other.libraries),
            ({(): self.unattributed}, {(): other.unattributed}),
        ):
            _add(mine, others)
        self.trends |= {key: each for key, each in other.trends.items() if _grown(each) > _grown(self.trends.get(key))}
        self.sources = other.sources | self.sources


def _add(mine: dict[Key, Row], others: dict[Key, Row]) -> None:
    for key, row in others.items():
        if (sums := mine.setdefault(key, row)) is not row:
            gpu = merged_gpu((sums, row)) if "gpu_s" in row else {}
            sums |= {name: sums[name] + row[name] for name in _SUMMED & row.keys()} | gpu


def _grown(trend: list[Point] | None) -> float:
    return abs(trend[-1][1]) if trend else -1


def sums_of(paths: Sequence[Path], selection: Selection) -> Sums:
    """The traces at ``paths``, added up; several are reduced at once, one for each core.

    Raises the errors of :func:`open_traces`.
    """

    def reduced(path: Path) -> Reduction:
        with open_traces([path], selection, REPORT_TABLES) as traces:
            return reduce_trace(traces, selection)

    sums = Sums(reduced(paths[0]))
    if len(paths) == 1:
        return sums
    from concurrent.futures import ThreadPoolExecutor  # 13 ms that one trace need not pay

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for each in pool.map(reduced, paths[1:]):
            sums.add(each)
    return sums


def reduce_trace(traces: Traces, selection: Selection) -> Reduction:
    """The one opened trace, reduced to rows by line and by function."""
    connection, info = traces.connection, trace_info(traces)
    line_rows, function_rows = queries.rows(connection, "lines"), queries.rows(connection, "functions")
    unattributed = queries.rows(connection, "unattributed")[0]
    add_devices(connection, line_rows, function_rows, unattributed)
    gpu_peak_bytes = add_gpu(connection, info.events["gpu"] is not None, line_rows, function_rows, unattributed)
    lines, functions = _by_key(line_rows, line_key), _by_key(function_rows, function_key)
    return Reduction(
        info=info,
        window_s=window_s(info, selection),
        memory=memory_over_time(connection, selection) if info.events["memory"] is not None else None,
        lines=lines,
        functions=functions,
        unattributed=unattributed,
        trends=_trends(queries.rows(connection, "line_trends")),
        leaks=find_leaks(connection) if info.events["alloc"] else {},
        libraries=_by_key(queries.rows(connection, "library_rows"), _library_key),
        sources=sources_of(connection, {row["file"] for row in (*lines.values(), *functions.values())}),
        gpu_peak_bytes=gpu_peak_bytes,
        device_peak_bytes=device_peak(connection),
    )


def window_s(info: TraceInfo, selection: Selection) -> float:
    """Seconds of the recording that the selection covers; 0 where its length is not known."""
    wall_s = info.wall_s or 0.0
    to_s = wall_s if selection.to_s is None else min(selection.to_s, wall_s)
    return max(to_s - max(selection.from_s or 0.0, 0.0), 0.0)


def line_key(row: Row) -> Key:
    return row["file"], row["line"]


def function_key(row: Row) -> Key:
    return row["file"], row["function"], row["first_line"]


def _library_key(row: Row) -> Key:
    return *line_key(row), *function_key(row)[1:], row["library"], row["class"], row["path"], row["symbol"]


def _by_key(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, Row]:
    return {key(row): row for row in rows}


def _trends(rows: Iterable[Row]) -> dict[Key, list[Point]]:
    """Growth so far at each sample ([s, bytes], reduced), by line and by function."""
    events: dict[Key, list[tuple[int, int]]] = {}
    for row in rows:
        for key in (line_key(row), function_key(row)):
            points = events.setdefault(key, [])
            before = points[-1][1] if points else 0
            points.append((row["t_ns"], before + row["net_bytes"]))
    return {key: reduce_points(steps(points)) for key, points in events.items()}
