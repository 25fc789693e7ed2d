"""The report: what every line and function costs, over one trace or several.

Several traces are reduced one at a time and then merged: a hundred of them need no more memory than one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import queries
from .devices import SUMMED as _SUMMED_DEVICES
from .devices import add_devices, asked_of_devices, device_peak
from .info import trace_info
from .leaks import Grown, find_leaks, merged_leaks
from .libraries import library_times
from .open import REPORT_TABLES, Traces, open_traces
from .results import Function, Leak, Line, Report, Totals, TraceInfo, sorted_rows
from .selection import Selection
from .sources import source_line, sources_of
from .timeline import Memory, memory_over_time
from .trend import Point, classify, reduce_points, steps
from .waits import CLASSES, waited

Row = dict[str, Any]
Key = tuple[Any, ...]

#: A line whose growth moved by less of the peak than this is called flat.
TREND_SHARE = 0.01

_CPU = ("ticks", "cpu_s", "python_s", "native_s", "system_s", "gc_s", "parallel_native_s")
_SUMMED = (*_CPU, "cumulative_cpu_s", *CLASSES, "suspended_s")
_SUMMED_MEMORY = ("memory_samples", "growth_bytes", "allocated_bytes", "python_allocated_bytes")
_SUMMED_ALLOCATIONS = ("alloc_bytes", "alloc_variance", "live_at_peak_bytes", "live_at_end_bytes", "copy_bytes")


@dataclass(frozen=True)
class Reduction:
    """One trace, reduced: rows by key with the columns of lines.sql and functions.sql, and growth over time by key."""

    info: TraceInfo
    window_s: float
    memory: Memory | None
    lines: dict[Key, Row]
    functions: dict[Key, Row]
    unattributed: Row
    trends: dict[Key, list[tuple[int, int]]]
    leaks: dict[Key, Grown]
    libraries: list[Row]
    sources: dict[str, list[str]]
    device_peak_bytes: int | None = None


def build_report(
    paths: Sequence[Path], selection: Selection, sort: str | None = None, limit: int | None = None
) -> Report:
    """The report over the traces at ``paths``.

    ``sort`` names a field of :class:`Line`, by default CPU time, then growth; ``limit`` cuts lines and functions.
    Raises the errors of :func:`open_traces`.
    """
    reductions = []
    for path in paths:
        with open_traces([path], selection, REPORT_TABLES) as traces:
            reductions.append(reduce_trace(traces, selection))
    return _report(reductions, query_of(selection, sort, limit), sort, limit)


def query_of(selection: Selection, sort: str | None = None, limit: int | None = None) -> dict[str, Any]:
    """The ``query`` part of the JSON: what was asked."""
    return {
        "include": list(selection.include),
        "exclude": list(selection.exclude),
        "all": selection.all_files,
        "from_s": selection.from_s,
        "to_s": selection.to_s,
        "process": list(selection.processes),
        "thread": list(selection.threads),
        "sort": sort,
        "limit": limit,
    }


def reduce_trace(traces: Traces, selection: Selection) -> Reduction:
    """The one opened trace, reduced to rows by line and by function."""
    connection, info = traces.connection, trace_info(traces)
    line_rows, function_rows = queries.rows(connection, "lines"), queries.rows(connection, "functions")
    unattributed = queries.rows(connection, "unattributed")[0]
    add_devices(connection, line_rows, function_rows, unattributed)
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
        libraries=queries.rows(connection, "library_rows"),
        sources=sources_of(connection, {row["file"] for row in (*lines.values(), *functions.values())}),
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


def _by_key(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, Row]:
    return {key(row): row for row in rows}


def _trends(rows: Iterable[Row]) -> dict[Key, list[tuple[int, int]]]:
    """Growth so far (ns, bytes) at each sample, by line and by function."""
    trends: dict[Key, list[tuple[int, int]]] = {}
    for row in rows:
        for key in (line_key(row), function_key(row)):
            points = trends.setdefault(key, [])
            before = points[-1][1] if points else 0
            points.append((row["t_ns"], before + row["net_bytes"]))
    return trends


def _report(reductions: list[Reduction], query: dict[str, Any], sort: str | None, limit: int | None) -> Report:
    unattributed = _merged_row([each.unattributed for each in reductions])
    maker = _Maker(reductions, unattributed, query["from_s"] or 0.0)
    lines = [maker.line(key, row) for key, row in _merged([each.lines for each in reductions]).items()]
    functions = [maker.function(key, row) for key, row in _merged([each.functions for each in reductions]).items()]
    return Report(
        query=query,
        traces=[each.info for each in reductions],
        totals=maker.totals,
        timeline=maker.timeline(),
        lines=_in_order(lines, sort)[:limit],
        unattributed=maker.unattributed(unattributed),
        leaks=maker.leaks if maker.has_allocations else None,
        functions=_in_order(functions, sort)[:limit],
        sources=maker.sources,
    )


def _merged(tables: list[dict[Key, Row]]) -> dict[Key, Row]:
    if len(tables) == 1:
        return tables[0]
    groups: dict[Key, list[Row]] = {}
    for table in tables:
        for key, row in table.items():
            groups.setdefault(key, []).append(row)
    return {key: _merged_row(rows) for key, rows in groups.items()}


def _merged_row(rows: list[Row]) -> Row:
    names = (*_SUMMED, *_SUMMED_MEMORY, *_SUMMED_ALLOCATIONS, *_SUMMED_DEVICES)
    return rows[0] | {name: sum(row[name] for row in rows) for name in names if name in rows[0]}


class _Maker:
    """Makes results of merged rows; knows the totals and which samplers were on."""

    def __init__(self, reductions: list[Reduction], unattributed: Row, start_s: float = 0.0) -> None:
        self._reductions = reductions
        self.has_cpu = any(each.info.events["cpu"] is not None for each in reductions)
        self.has_waits = any(each.info.events["wait"] is not None for each in reductions)
        self.has_tasks = any(each.info.events["task"] is not None for each in reductions)
        self.has_memory = any(each.memory is not None for each in reductions)
        self.has_allocations = any(each.info.events["alloc"] is not None for each in reductions)
        self.has_peak = any(each.memory is not None and each.memory.peak_bytes > 0 for each in reductions)
        self.has_copies = any(each.info.events["copy"] is not None for each in reductions)
        self._events = [each.info.events for each in reductions]
        self.sources: dict[str, list[str]] = {}
        for each in reductions:
            self.sources = each.sources | self.sources
        self.window_s = sum(each.window_s for each in reductions)
        self._window = start_s, start_s + max(each.window_s for each in reductions)
        self.leaks = merged_leaks([each.leaks for each in reductions], self.sources)
        self.totals = self._totals(unattributed)
        keys = (lambda row: line_key(row) if row["file"] else (), function_key)
        self._libraries = library_times([row for each in reductions for row in each.libraries], keys)

    def _totals(self, unattributed: Row) -> Totals:
        """Sums over all samples, attributed or not; the highest of the peaks."""
        rows = [row for each in self._reductions for row in each.lines.values()] + [unattributed]
        names = ("cpu_s", "python_s", "native_s", "system_s", "gc_s")
        cpu: Row = {name: sum(row[name] for row in rows) if self.has_cpu else None for name in names}
        memories = [each.memory for each in self._reductions if each.memory is not None]
        return Totals(
            **cpu,
            **waited(rows, self.has_waits),
            suspended_s=sum(row["suspended_s"] for row in rows) if self.has_tasks else None,
            peak_bytes=max((m.peak_bytes for m in memories), default=None),
            python_peak_bytes=max((m.python_peak_bytes for m in memories), default=None),
            peak_rss_bytes=max((m.peak_rss_bytes for m in memories if m.peak_rss_bytes is not None), default=None),
            alloc_bytes=round(sum(row["alloc_bytes"] for row in rows)) if self.has_allocations else None,
            copy_bytes=sum(row["copy_bytes"] for row in rows) if self.has_copies else None,
            **asked_of_devices(rows, self._events),
            device_peak_bytes=max(each.device_peak_bytes or 0 for each in self._reductions) or None,
        )

    def timeline(self) -> list[Point] | None:
        """That of the trace with the highest peak."""
        memories = [each.memory for each in self._reductions if each.memory is not None]
        return max(memories, key=lambda memory: memory.peak_bytes).timeline if memories else None

    def line(self, key: Key, row: Row) -> Line:
        source = source_line(self.sources, row["file"], row["line"])
        leaks = [leak for leak in self.leaks if (leak.file, leak.line) == key]
        names = (row["file"], row["line"], row["function"], row["first_line"], source)
        return Line(*names, **self._figures(row, key, leaks))

    def function(self, key: Key, row: Row) -> Function:
        source = source_line(self.sources, row["file"], row["first_line"])
        leaks = [leak for leak in self.leaks if (leak.file, leak.function, leak.first_line) == key]
        names = (row["file"], row["first_line"], row["function"], row["first_line"], source)
        cumulative = row["cumulative_cpu_s"] if self.has_cpu else None
        return Function(*names, **self._figures(row, key, leaks), cumulative_cpu_s=cumulative)

    def unattributed(self, row: Row) -> Line:
        return Line(None, None, None, None, **self._figures(row, (), []))

    def _figures(self, row: Row, key: Key, leaks: list[Leak]) -> Row:
        figures: Row = waited([row], self.has_waits)
        figures["suspended_s"] = row["suspended_s"] if self.has_tasks else None
        if self.has_cpu:
            figures |= {name: row[name] for name in _CPU}
            figures["native_libraries"] = self._libraries.get(key, [])
            figures["cpu_percent"] = 100 * row["cpu_s"] / self.totals.cpu_s if self.totals.cpu_s else 0.0
        if self.has_memory:
            allocated = row["allocated_bytes"]
            figures["growth_bytes"] = row["growth_bytes"]
            figures["python_alloc_fraction"] = row["python_allocated_bytes"] / allocated if allocated else None
            figures["trend"] = self._trend(key)
            figures["trend_class"] = self._trend_class(figures["trend"])
        return figures | self._allocated(row) | self._leaking(leaks) | self._copied(row) | self._on_devices(row)

    def _allocated(self, row: Row) -> Row:
        if not self.has_allocations:
            return {}
        return {
            "alloc_bytes": round(row["alloc_bytes"]),
            "alloc_error_bytes": round(math.sqrt(row["alloc_variance"])),
            "live_at_peak_bytes": round(row["live_at_peak_bytes"]) if self.has_peak else None,
            "live_at_end_bytes": round(row["live_at_end_bytes"]),
        }

    def _copied(self, row: Row) -> Row:
        if not self.has_copies:
            return {}
        rate = row["copy_bytes"] / self.window_s if self.window_s else None
        return {"copy_bytes": row["copy_bytes"], "copy_bytes_per_s": rate}

    def _on_devices(self, row: Row) -> Row:
        asked = asked_of_devices([row], self._events)
        return asked | {"device_live_at_peak_bytes": row["device_live_at_peak_bytes"]} if asked else {}

    def _leaking(self, leaks: list[Leak]) -> Row:
        """Probability and rate of these leaks together; 0 for none."""
        if not self.has_allocations:
            return {}
        rate = sum(leak.bytes_per_s for leak in leaks)
        return {"leak_probability": max((leak.probability for leak in leaks), default=0.0), "leak_bytes_per_s": rate}

    def _trend(self, key: Key) -> list[Point]:
        """That of the trace in which the growth is largest."""
        trends = [each.trends[key] for each in self._reductions if key in each.trends]
        return reduce_points(steps(max(trends, key=lambda events: abs(events[-1][1])))) if trends else []

    def _trend_class(self, trend: list[Point]) -> str | None:
        """What it looks like over the longest of the recordings; less than 1 % of the peak is flat."""
        if not trend:
            return None
        start_s, end_s = self._window
        return classify(trend, start_s, end_s, TREND_SHARE * (self.totals.peak_bytes or 0))


def _in_order(rows: list[Any], sort: str | None) -> list[Any]:
    return sorted(rows, key=_default_order) if sort is None else sorted_rows(rows, sort)


def _default_order(row: Line) -> tuple[Any, ...]:
    cumulative = row.cumulative_cpu_s if isinstance(row, Function) else 0
    names = (row.file or "", row.line or 0, row.function or "")
    costs = (row.cpu_s, cumulative, row.growth_bytes, row.alloc_bytes, row.wait_s)
    return *(-(cost or 0) for cost in costs), *names
