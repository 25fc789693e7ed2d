"""Leaks: lines whose allocations stay, steadily, until the end. :mod:`.rule` decides which lines those are; here they are
held against the growth of the process tree, and several traces are added up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..results.base import Table, sorted_rows
from ..results.estimates import standard_error, unseen_bytes
from ..results.libraries import NativeFunction
from ..results.report import Leak
from ..results.trend import Point, reduce_points
from ..trace import queries
from ..trace.info import NEVER, Pauses, pauses_by_trace, trace_info
from ..trace.native import NativeFrames
from ..trace.selection import Selection
from ..trace.sources import Sources, source_line, sources_of
from ..trace.traces import REPORT_TABLES, open_traces
from .rule import Key, Row, Rule, kept_bytes, laplace, live_curve, read_rule, split, suspects

if TYPE_CHECKING:
    from ..trace.connection import Connection

#: The question whether any line may leak, which is asked first.
CANDIDATES = "SELECT count(*) FROM leak_candidates"


@dataclass(frozen=True)
class Judged:
    """The time over which a process is judged (ns), and the pauses of the trace."""

    start_ns: int
    judged_ns: int
    pauses: Pauses = NEVER

    def after(self, hundredths: int) -> int:
        """The moment at which this many hundredths of the time are over."""
        return self.start_ns + (self.judged_ns - self.start_ns) * hundredths // 100


@dataclass(frozen=True)
class Grown:
    """The suspects of a line in one trace: their cells, the time over which they were judged, live bytes over time, and the
    native stack of most of the bytes."""

    cells: list[Row]
    judged_s: float
    trend: list[Point]
    native_stack: list[NativeFunction]


def build_leaks(
    paths: Sequence[Path],
    selection: Selection,
    query: dict[str, Any],
    sort: str | None = None,
    limit: int | None = None,
) -> Table:
    """Rows of :class:`Leak`, the fastest first. Raises the errors of :func:`open_traces`."""
    infos = []
    reductions: list[dict[Key, Grown]] = []
    sources: dict[str, list[str]] = {}
    for path in paths:
        with open_traces([path], selection, REPORT_TABLES) as traces:
            infos.append(trace_info(traces))
            reductions += find_leaks(traces.connection).values()
            files = {file for leaks in reductions for file, _ in leaks}
            sources = sources_of(traces.connection, files) | sources
    leaks = merged_leaks(reductions, sources)
    return Table("leaks", query, infos, (leaks if sort is None else sorted_rows(leaks, sort))[:limit])


def find_leaks(connection: Connection) -> dict[int, dict[Key, Grown]]:
    """The leaks by (file, line) of each opened trace that has any; traces count from 1."""
    found: dict[int, dict[Key, list[Row]]] = {}
    if connection.execute(CANDIDATES).fetchall() == [(0,)]:
        return {}
    rule = read_rule(connection)
    for (trace, *key), rows in split(queries.rows(connection, "leak_cells"), ("trace", "file", "line")).items():
        if passed := suspects(rows, rule):
            found.setdefault(trace, {})[tuple(key)] = passed
    return {trace: leaks for trace, lines in found.items() if (leaks := _leaks_of(connection, trace, lines, rule))}


def _leaks_of(connection: Connection, trace: int, lines: dict[Key, list[Row]], rule: Rule) -> dict[Key, Grown]:
    """The suspect lines of a trace that make up enough of its growth."""
    moments = "SELECT process, start_ns, judged_ns FROM process_moments WHERE trace = ? AND judged_ns IS NOT NULL"
    pauses = pauses_by_trace(connection).get(trace, NEVER)
    rows = connection.execute(moments, (trace,)).fetchall()
    times = {process: Judged(from_ns, to_ns, pauses) for process, from_ns, to_ns in rows}
    start_ns = min(each.after(rule.first_place) for each in times.values())
    end_ns = max(each.judged_ns for each in times.values())
    least = rule.least_share_of_growth * _tree_growth(connection, trace, start_ns, end_ns)
    if end_ns > start_ns:  # growth of a pause is on no line
        least *= 1 - pauses.within(start_ns, end_ns) / (end_ns - start_ns)
    leaking = {key: rows for key, rows in lines.items() if kept_bytes(rows) >= least}
    stacks = _native_stacks(connection, trace) if leaking else {}
    return {key: _grown(rows, times, rule, stacks.get(key, [])) for key, rows in leaking.items()}


def _native_stacks(connection: Connection, trace: int) -> dict[Key, list[NativeFunction]]:
    """The native stack that holds most bytes of each line of a trace that may leak."""
    largest: dict[Key, int] = {}
    for each, file, line, native, _ in queries.run(connection, "leak_native_figures"):
        if each == trace:
            largest.setdefault((file, line), native)
    frames = NativeFrames(connection) if largest else None
    return {
        key: [NativeFunction(*names) for names in frames.called(native, trace)]
        for key, native in largest.items()
        if frames
    }


def _tree_growth(connection: Connection, trace: int, start_ns: int, end_ns: int) -> float:
    """What the process tree grew by from its lowest moment in this time to the end of it, or else its peak (bytes)."""
    events = "SELECT t_ns, footprint_bytes FROM footprint_events WHERE trace = ? ORDER BY t_ns, is_gone"
    rows = connection.execute(events, (trace,)).fetchall()
    held = [value for t_ns, value in rows if t_ns <= start_ns][-1:]
    held += [value for t_ns, value in rows if start_ns < t_ns <= end_ns]
    growth = held[-1] - min(held) if held else 0
    return float(growth or max(held, default=0))


def _grown(rows: list[Row], times: dict[int, Judged], rule: Rule, native_stack: list[NativeFunction]) -> Grown:
    by_process: dict[int, list[Row]] = {}
    for row in rows:
        by_process.setdefault(row["process"], []).append(row)
    judged = [times[process] for process, cells in by_process.items() if kept_bytes(cells)]
    last_ns, first_ns = (max(t.after(rule.end_place) for t in judged), min(t.after(rule.first_place) for t in judged))
    most = max(by_process, key=lambda process: kept_bytes(by_process[process]))
    time = times[most]
    curve = [(time.after(place + 1) / 1e9, round(value)) for place, value in live_curve(by_process[most])]
    trend = reduce_points([(time.start_ns / 1e9, 0), *curve])
    judged_ns = last_ns - first_ns - time.pauses.within(first_ns, last_ns)
    return Grown(rows, judged_ns / 1e9, trend, native_stack)


def merged_leaks(reductions: Sequence[dict[Key, Grown]], sources: Sources) -> list[Leak]:
    """The leaks of several traces, added up by line; the fastest first."""
    by_line: dict[Key, list[Grown]] = {}
    for reduction in reductions:
        for key, grown in reduction.items():
            by_line.setdefault(key, []).append(grown)
    leaks = [_leak(key, parts, sources) for key, parts in by_line.items()]
    return sorted(leaks, key=lambda leak: (-leak.bytes_per_s, leak.file, leak.line))


def _leak(key: Key, parts: list[Grown], sources: Sources) -> Leak:
    rows = [row for part in parts for row in part.cells]
    sums = {name: sum(row[name] for row in rows) for name in _SUMS}
    judged_s = sum(part.judged_s for part in parts) or float("inf")  # all of it was paused
    largest = max(parts, key=lambda part: kept_bytes(part.cells))
    unseen = unseen_bytes(max(row["live_interval_bytes"] for row in rows))
    function, first_line = _most(rows, "function", "first_line")
    return Leak(
        file=key[0],
        line=key[1],
        function=function,
        probability=laplace(sums["mallocs"], sums["frees"]),
        bytes_per_s=sums["kept_bytes"] / judged_s,
        mallocs=sums["mallocs"],
        frees=sums["frees"],
        live_at_end_bytes=round(sums["end_bytes"]),
        live_at_end_error_bytes=round(standard_error(sums["end_variance"], unseen)),
        first_line=first_line,
        source=source_line(sources, *key),
        error_bytes_per_s=standard_error(sums["kept_variance"], unseen) / judged_s,
        allocations_per_s=sums["made"] / judged_s,
        age_s=sums["age_s"] / sums["alive"] if sums["alive"] else None,
        type=_most(rows, "type")[0],
        allocator=_most(rows, "allocator")[0],
        family=_most(rows, "family")[0],
        trend=largest.trend,
        native_stack=largest.native_stack,
    )


_SUMS = ("mallocs", "frees", "kept_bytes", "kept_variance", "made", "alive", "age_s", "end_bytes", "end_variance")


def _most(rows: list[Row], *names: str) -> tuple[Any, ...]:
    """The values of these columns that most of the surviving bytes have."""
    sums: dict[tuple[Any, ...], float] = {}
    for row in rows:
        values = tuple(row[name] for name in names)
        sums[values] = sums.get(values, 0.0) + row["kept_bytes"]
    return max(sums, key=lambda values: sums[values])
