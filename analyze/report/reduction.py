"""Reduces traces to the rows that a report needs, and adds up several traces.

Batches of traces are reduced in parallel and added to the sums one after the other. So a hundred traces need hardly more
memory than one, apart from the metadata of each.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...formats.errors import TraceDamaged
from ...formats.units import UnitError, parse_size
from ..leaks.leaks import CANDIDATES, Grown, find_leaks
from ..results.trace import TraceInfo
from ..results.trend import Point, reduce_points, steps
from ..trace import queries
from ..trace.info import NEVER, Pauses, pauses_by_trace, trace_infos
from ..trace.selection import Selection
from ..trace.sources import sources_of
from ..trace.traces import REPORT_TABLES, Traces, open_traces
from .batches import AtOnce, batches_of
from .cuda import SUMMED as _SUMMED_OF_DEVICES
from .cuda import add_devices, have_calls
from .gpu import add_gpu, merged_gpu
from .row_index import CUMULATIVE, Row
from .threads import CLASSES
from .timeline import Event, Memory, memory_over_time

if TYPE_CHECKING:
    from ..trace.connection import Connection

Key = tuple[Any, ...]

_CPU = ("ticks", "cpu_s", "python_s", "native_s", "unclassified_s", "system_s", "gc_s", "parallel_native_s")
_VARIANCES = ("cpu_variance",)
_MEMORY = ("memory_samples", "growth_bytes", "allocated_bytes", "python_allocated_bytes")
_ALLOCATIONS = (
    "alloc_bytes",
    "alloc_python_bytes",
    "alloc_variance",
    "live_at_peak_bytes",
    "live_at_peak_variance",
    "live_at_end_bytes",
    "live_at_end_variance",
    "copy_bytes",
)
_WAITING = ("wait_s", "threads")
_HIGHEST = ("alloc_interval_bytes", "live_interval_bytes", "is_guess")
_SUMMED = frozenset(
    (
        *(*_CPU, *_VARIANCES, *CLASSES, "suspended_s", *_MEMORY, *_ALLOCATIONS, *CUMULATIVE),
        *(*_SUMMED_OF_DEVICES, *_WAITING),
    )
)

#: Sums of the rows of several traces, in the order of the traces. A line's function is that of the first trace.
_SUMS = {
    "lines": """
        SELECT file, line, arg_min_null(function, trace) AS function, arg_min_null(first_line, trace) AS first_line,
            sum(COLUMNS(* EXCLUDE (trace, file, line, function, first_line, alloc_interval_bytes, live_interval_bytes))),
            max(alloc_interval_bytes) AS alloc_interval_bytes, max(live_interval_bytes) AS live_interval_bytes
        FROM lines GROUP BY file, line
        ORDER BY min(trace), arg_min(cpu_s, trace) DESC, arg_min(growth_bytes, trace) DESC,
            arg_min(alloc_bytes, trace) DESC, file, line""",
    "functions": """
        SELECT file, function, first_line,
            sum(COLUMNS(* EXCLUDE (trace, file, function, first_line, alloc_interval_bytes, live_interval_bytes))),
            max(alloc_interval_bytes) AS alloc_interval_bytes, max(live_interval_bytes) AS live_interval_bytes
        FROM functions GROUP BY file, function, first_line
        ORDER BY min(trace), arg_min(cpu_s, trace) DESC, arg_min(cumulative_cpu_s, trace) DESC,
            arg_min(alloc_bytes, trace) DESC, file, first_line, function""",
}

#: Other statements without parameters that every report asks.
_ASKED = (
    "line_callee_figures",
    "library_figures",
    "outside_packages",
    "waiting_lines",
    "line_trends",
    "unattributed",
    "loss_list",
)


@dataclass
class Sums:
    """Sums over traces: rows by key with the columns of lines.sql, functions.sql, library_figures.sql,
    line_callee_figures.sql, outside_packages.sql and waiting_lines.sql.

    ``infos``: one for each trace, in their order. ``leaks``: one dict for each trace with leaks. ``growth``: by key, the
    cumulative growth (time in ns, bytes) in the trace where it ends largest. ``window_s``: recorded time in the selection, of all traces;
    ``longest_s``: that of the longest one. ``memory``: the highest peaks. ``growth_variance``: square of the error that the
    threshold of the footprint samples leaves to a growth, summed over all processes.
    """

    infos: list[TraceInfo]
    window_s: float
    longest_s: float
    memory: Memory | None
    lines: dict[Key, Row]
    functions: dict[Key, Row]
    unattributed: Row
    growth: dict[Key, list[Event]]
    leaks: list[dict[Key, Grown]]
    libraries: dict[Key, Row]
    callees: dict[Key, Row]
    packages: dict[Key, Row]
    waiting: dict[Key, Row]
    sources: dict[str, list[str]]
    gpu_peak_bytes: int | None
    device_peak_bytes: int | None
    growth_variance: float = 0.0

    def has(self, sampler: str) -> bool:
        """Was the sampler on in any of the traces?"""
        return any(info.events[sampler] is not None for info in self.infos)

    def trend(self, key: Key) -> list[Point]:
        """The cumulative growth at each sample ([s, bytes], reduced to few points)."""
        return reduce_points(steps(self.growth.get(key, [])))

    def add(self, other: Sums) -> None:
        """Adds the sums of the traces that follow; may take over their rows."""
        has_gpu = self.has("gpu") or other.has("gpu")
        self.infos += other.infos
        self.leaks += other.leaks
        self.memory = _merged(self.memory, other.memory)
        self.gpu_peak_bytes = _highest(self.gpu_peak_bytes, other.gpu_peak_bytes)
        self.device_peak_bytes = _highest(self.device_peak_bytes, other.device_peak_bytes)
        self.window_s += other.window_s
        self.growth_variance += other.growth_variance
        self.longest_s = max(self.longest_s, other.longest_s)
        _add(self.lines, other.lines, has_gpu)
        _add(self.functions, other.functions, has_gpu)
        _add(self.libraries, other.libraries)
        _add(self.callees, other.callees)
        _add(self.packages, other.packages)
        _add(self.waiting, other.waiting)
        _add({(): self.unattributed}, {(): other.unattributed}, has_gpu)
        _add_growth(self.growth, other.growth)
        self.sources = other.sources | self.sources


def _add(mine: dict[Key, Row], others: dict[Key, Row], has_gpu: bool = False) -> None:
    """Adds the rows of ``others`` to those of ``mine`` with the same key."""
    names: list[str] = []
    for key, row in others.items():
        if (sums := mine.setdefault(key, row)) is row:
            continue
        if sums.get("library") != row.get("library"):  # where lines wait in several
            sums["library"] = None
        names = names or [name for name in row if name in _SUMMED]
        for name in names:
            sums[name] += row[name]
        sums |= {name: max(sums[name], row[name]) for name in _HIGHEST if name in row}
        if has_gpu:
            sums |= merged_gpu((sums, row))


def _add_growth(mine: dict[Key, list[Event]], others: dict[Key, list[Event]]) -> None:
    mine |= {key: each for key, each in others.items() if key not in mine or abs(each[-1][1]) > abs(mine[key][-1][1])}


def _merged(one: Memory | None, other: Memory | None) -> Memory | None:
    return one.merged(other) if one and other else one or other


def _highest(*values: int | None) -> int | None:
    return max((value for value in values if value is not None), default=None)


def sums_of(paths: Sequence[Path], selection: Selection) -> Sums:
    """The sums over the traces at ``paths``. Small traces are reduced in batches, one batch per core at the same time.

    Raises the errors of :func:`open_traces`.
    """
    batches, number = batches_of(paths, len(os.sched_getaffinity(0)))
    if len(batches) == 1:
        return _reduced(batches[0], selection)
    threads = 1 if number > 1 else None  # parallel batches share the cores
    with AtOnce[Sums](number) as at_once:
        parts = at_once.map(partial(_reduced, selection=selection, threads=threads, using=at_once.using), batches)
        sums = next(parts)
        for each in parts:
            sums.add(each)
    return sums


def _reduced(
    batch: Sequence[Path],
    selection: Selection,
    threads: int | None = None,
    using: Callable[[Connection], AbstractContextManager[None]] | None = None,
) -> Sums:
    """The sums of a batch. ``threads``: as in open_traces; ``using``: of its connection, while that is asked."""
    try:
        with (
            open_traces(batch, selection, REPORT_TABLES, threads) as traces,
            using(traces.connection) if using else nullcontext(),
        ):
            return reduce_traces(traces, selection)
    except TraceDamaged:
        for path in batch if len(batch) > 1 else ():
            _reduced([path], selection, threads, using)  # raises for the damaged one, by name
        raise


def reduce_traces(traces: Traces, selection: Selection) -> Sums:
    """The sums of the opened traces."""
    connection = traces.connection
    connection.ahead(_sum(traces, query) for query in _SUMS)
    queries.ahead(connection, *_ASKED)
    infos = trace_infos(traces)
    has_allocations = any(info.events["alloc"] for info in infos)
    if has_allocations:
        connection.ahead([CANDIDATES])
    lines, functions = _summed(traces, "lines"), _summed(traces, "functions")
    unattributed = queries.rows(connection, "unattributed")[0]
    has_calls = have_calls(info.events for info in infos)
    device_peak_bytes = add_devices(connection, has_calls, lines, functions, unattributed)
    has_gpu = any(info.events["gpu"] is not None for info in infos)
    gpu_peak_bytes = add_gpu(connection, has_gpu, lines, functions, unattributed)
    pauses = pauses_by_trace(connection)
    lengths = [recorded_s(info, selection, pauses.get(trace, NEVER)) for trace, info in enumerate(infos, start=1)]
    return Sums(
        infos=infos,
        window_s=sum(lengths),
        longest_s=max(lengths),
        memory=_memory(traces, infos, selection),
        lines=by_key(lines, line_key),
        functions=by_key(functions, function_key),
        unattributed=unattributed,
        growth=_growth(queries.run(connection, "line_trends")),
        leaks=list(find_leaks(connection).values()) if has_allocations else [],
        libraries=by_key(queries.rows(connection, "library_figures"), _library_key),
        callees=by_key(queries.rows(connection, "line_callee_figures"), _callee_key),
        packages=by_key(queries.rows(connection, "outside_packages"), _package_key),
        waiting=by_key(queries.rows(connection, "waiting_lines"), _waiting_key),
        sources=sources_of(connection, {row["file"] for row in (*lines, *functions)}),
        gpu_peak_bytes=gpu_peak_bytes,
        device_peak_bytes=device_peak_bytes,
        growth_variance=sum(growth_variances(connection).values()),
    )


def growth_variances(connection: Connection) -> dict[int, float]:
    """By trace, the square of the error that the threshold T of the footprint samples leaves to a growth. Less than T is in no
    sample of a process yet, or charged to a line too early: the standard error of a line's growth is T / 2 per process. T is
    the largest that was in effect."""
    sql = """
        SELECT trace, processes, [threshold] || coalesce(texts, []) FROM
            (SELECT trace, count(*) AS processes FROM processes GROUP BY trace)
            JOIN (SELECT trace, any_value(value) AS threshold FROM settings
                  WHERE name = 'memory_threshold_bytes' GROUP BY trace) USING (trace)
            LEFT JOIN (SELECT trace, list(split_part(text, '=', 2)) AS texts FROM marks
                       WHERE what = 'set' AND text LIKE 'memory-threshold=%' GROUP BY trace) USING (trace)"""
    rows = connection.execute(sql).fetchall()
    return {trace: float(processes * (max(map(_size_of, texts)) / 2) ** 2) for trace, processes, texts in rows}


def _size_of(text: str | None) -> int:
    """Bytes that a text of the trace gives; 0 where it is no size."""
    try:
        return parse_size(text or "0")
    except UnitError:
        return 0


def _sum(traces: Traces, query: str) -> str:
    """The statement for the rows of lines.sql or functions.sql, added up over the opened traces."""
    return queries.body(query) if len(traces.files) == 1 else _SUMS[query]


def _summed(traces: Traces, query: str) -> list[Row]:
    return queries.dicts(traces.connection.execute(_sum(traces, query)))


def _memory(traces: Traces, infos: Sequence[TraceInfo], selection: Selection) -> Memory | None:
    merged: Memory | None = None
    if all(info.events["memory"] is None for info in infos):
        return None
    for info, memory in zip(infos, memory_over_time(traces.connection, selection, len(infos)), strict=True):
        if info.events["memory"] is not None:
            merged = _merged(merged, memory)
    return merged


def window_s(info: TraceInfo, selection: Selection) -> float:
    """The duration in seconds of the part of the recording that is selected; 0 if the recording's duration is unknown."""
    wall_s = info.wall_s or 0.0
    to_s = wall_s if selection.to_s is None else min(selection.to_s, wall_s)
    return max(to_s - max(selection.from_s or 0.0, 0.0), 0.0)


def recorded_s(info: TraceInfo, selection: Selection, pauses: Pauses) -> float:
    """How much of that was recorded, in seconds."""
    length_s, from_s = window_s(info, selection), max(selection.from_s or 0.0, 0.0)
    return max(length_s - pauses.within(round(from_s * 1e9), round((from_s + length_s) * 1e9)) / 1e9, 0.0)


def line_key(row: Row) -> Key:
    """The key of a row by line."""
    return row["file"], row["line"]


def function_key(row: Row) -> Key:
    """The key of a row by function."""
    return row["file"], row["function"], row["first_line"]


def _package_key(row: Row) -> Key:
    return row["package"], row["is_standard"]


def _waiting_key(row: Row) -> Key:
    return *line_key(row), row["cause"]


def _callee_key(row: Row) -> Key:
    return *line_key(row), *function_key(row)[1:], row["library"], row["image"], row["symbol"]


def _library_key(row: Row) -> Key:
    return *line_key(row), *function_key(row)[1:], row["library"], row["class"], row["path"], row["symbol"]


def by_key(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, Row]:
    """The rows by their keys."""
    return {key(row): row for row in rows}


def _growth(rows: Iterable[tuple[Any, ...]]) -> dict[Key, list[Event]]:
    """Cumulative growth at each sample, by line and by function. ``rows``: rows of line_trends.sql."""
    growth: dict[Key, list[Event]] = {}
    for file, line, function, first_line, of_line, of_function, t_ns, net_bytes in rows:
        keys = ((file, line) if of_line else None, (file, function, first_line) if of_function else None)
        for key in filter(None, keys):
            points = growth.setdefault(key, [])
            points.append((t_ns, net_bytes + (points[-1][1] if points else 0)))
    return growth
