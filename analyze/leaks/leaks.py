"""Leaks: lines whose allocations stay, steadily, until the end. docs/design/leaks.md has the rules and what they find.

A line's judged samples are looked at as a whole first. Where too many of them were freed, they are split by allocator,
then by type, then the size classes are left out of which too many were freed; the parts that pass are its suspects. So
temporaries on a line do not hide a leak beside them, and a leak of many sizes is not cut into parts too small to tell.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..results.base import Table, sorted_rows
from ..results.report import Leak
from ..results.trend import Point, reduce_points
from ..trace import queries
from ..trace.info import trace_info
from ..trace.selection import Selection
from ..trace.sources import Sources, source_line, sources_of
from ..trace.traces import REPORT_TABLES, open_traces

if TYPE_CHECKING:
    from ..trace.connection import Connection

Row = dict[str, Any]
Key = tuple[Any, ...]

#: A site is a suspect from this probability on that its allocations are never freed.
LEAST_PROBABILITY = 0.95
#: A leak is reported from this share of what the process tree grew by in the judged time on.
LEAST_SHARE_OF_GROWTH = 0.01
#: Judged are the allocations of these hundredths of a process's time: not start-up, and old enough to have been freed.
FIRST_PLACE, END_PLACE = 10, 90
#: Survivors must come from this many of ten slices of the judged time, and some from its last third.
SLICES, LEAST_SLICES = 10, 6
LATE_PLACE, LEAST_LATE = 63, 2
#: Survivors must not thin out: least mean position (steady growth: 1/2) and least share of the last third (1/3) ...
LEAST_MEAN, LEAST_LATE_SHARE = 0.4, 1 / 6
#: ... or, where few survivors leave much to chance, what steady growth reaches but for this many standard deviations.
DEVIATIONS = 2.8
#: Live bytes must never fall by more than this share of what survived.
MOST_FALL = 0.1
#: How a line is split, one step after the other; at last by size class.
_SPLITS = (("family", "allocator"), ("type",))


def laplace(mallocs: int, frees: int) -> float:
    """Probability that the next allocation is not freed, by the rule of succession: 1 - (frees + 1) / (mallocs + 2).

    (The Scalene paper prints mallocs - frees + 2 below the line, which leaves [0, 1] for some counts.)
    """
    return 1 - (frees + 1) / (mallocs + 2)


@dataclass(frozen=True)
class Judged:
    """When a process was judged: from start to judged, with the allocations of first to last (ns)."""

    start_ns: int
    judged_ns: int

    @property
    def first_ns(self) -> int:
        return self.after(FIRST_PLACE)

    @property
    def last_ns(self) -> int:
        return self.after(END_PLACE)

    def after(self, hundredths: int) -> int:
        """The moment at which so many hundredths of the time are over."""
        return self.start_ns + (self.judged_ns - self.start_ns) * hundredths // 100


@dataclass(frozen=True)
class Grown:
    """The suspects of a line in one trace: their cells, the time that they were judged over, live bytes over time."""

    cells: list[Row]
    judged_s: float
    trend: list[Point]


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
    suspects: dict[int, dict[Key, list[Row]]] = {}
    if connection.execute("SELECT count(*) FROM leak_candidates").fetchall() == [(0,)]:
        return {}
    for (trace, *key), rows in _split(queries.rows(connection, "leak_cells"), ("trace", "file", "line")).items():
        if found := _suspects(rows):
            suspects.setdefault(trace, {})[tuple(key)] = found
    return {trace: leaks for trace, lines in suspects.items() if (leaks := _leaks_of(connection, trace, lines))}


def _leaks_of(connection: Connection, trace: int, suspects: dict[Key, list[Row]]) -> dict[Key, Grown]:
    """The suspect lines of a trace that make up enough of its growth."""
    moments = "SELECT process, start_ns, judged_ns FROM process_moments WHERE trace = ? AND judged_ns IS NOT NULL"
    times = {process: Judged(*moment) for process, *moment in connection.execute(moments, (trace,)).fetchall()}
    least = LEAST_SHARE_OF_GROWTH * _tree_growth(connection, trace, times.values())
    return {key: _grown(rows, times) for key, rows in suspects.items() if _kept(rows) >= least}


def _tree_growth(connection: Connection, trace: int, times: Collection[Judged]) -> float:
    """What the process tree grew by from its lowest moment in the judged time to the end of it, or else its peak."""
    start_ns, end_ns = min(each.first_ns for each in times), max(each.judged_ns for each in times)
    events = "SELECT t_ns, footprint_bytes FROM footprint_events WHERE trace = ? ORDER BY t_ns, is_gone"
    rows = connection.execute(events, (trace,)).fetchall()
    held = [value for t_ns, value in rows if t_ns <= start_ns][-1:]
    held += [value for t_ns, value in rows if start_ns < t_ns <= end_ns]
    growth = held[-1] - min(held) if held else 0
    return float(growth or max(held, default=0))


def _suspects(rows: list[Row], level: int = 0) -> list[Row]:
    """The cells of those parts of a line that pass, each part as large as possible."""
    if laplace(*_counts(rows)) >= LEAST_PROBABILITY:
        if not _is_steady(rows):
            return []  # nothing in it is freed, and all of it together thins out: so do its parts, but for chance
        if not _falls_back(rows):
            return rows
    if level < len(_SPLITS):
        return [row for part in _split(rows, _SPLITS[level]).values() for row in _suspects(part, level + 1)]
    kept = [row for part in _split(rows, ("size_class",)).values() if _is_mostly_kept(part) for row in part]
    return _suspects(kept, level) if 0 < len(kept) < len(rows) else []


def _split(rows: list[Row], names: tuple[str, ...]) -> dict[Key, list[Row]]:
    parts: dict[Key, list[Row]] = {}
    for row in rows:
        parts.setdefault(tuple(row[name] for name in names), []).append(row)
    return parts


def _is_mostly_kept(rows: list[Row]) -> bool:
    mallocs, frees = _counts(rows)
    return frees <= (1 - LEAST_PROBABILITY) * mallocs


def _counts(rows: list[Row]) -> tuple[int, int]:
    """Mallocs and frees."""
    mallocs: int = sum(row["mallocs"] for row in rows)
    frees: int = sum(row["frees"] for row in rows)
    return mallocs, frees


def _is_steady(rows: list[Row]) -> bool:
    """Did survivors come in all the time, and did they not thin out?"""
    survivors = [(row["place"], row["mallocs"] - row["frees"]) for row in rows]
    width = (END_PLACE - FIRST_PLACE) // SLICES
    slices = {(place - FIRST_PLACE) // width for place, count in survivors if count}
    late = sum(count for place, count in survivors if place >= LATE_PLACE)
    return len(slices) >= LEAST_SLICES and late >= LEAST_LATE and _kept(rows) > 0 and not _thins_out(rows)


def _thins_out(rows: list[Row]) -> bool:
    kept = _kept(rows)
    mean_place: float = sum(row["kept_bytes"] * (row["place"] + 0.5) for row in rows) / kept
    mean = (mean_place - FIRST_PLACE) / (END_PLACE - FIRST_PLACE)
    late_share: float = sum(row["kept_bytes"] for row in rows if row["place"] >= LATE_PLACE) / kept
    count = kept**2 / sum(row["kept_squares"] for row in rows)  # of equal survivors that would scatter as much
    least_mean = 0.5 - DEVIATIONS * math.sqrt(1 / 12 / count)
    least_share = 1 / 3 - DEVIATIONS * math.sqrt(2 / 9 / count)
    return mean < min(LEAST_MEAN, least_mean) or late_share < min(LEAST_LATE_SHARE, least_share)


def _falls_back(rows: list[Row]) -> bool:
    """Did the live bytes ever fall by much? Then what was there was given back, and may be again."""
    highest, fall = 0.0, 0.0
    for _, value in _live_curve(rows):
        highest = max(highest, value)
        fall = max(fall, highest - value)
    return fall > MOST_FALL * _kept(rows)


def _live_curve(rows: list[Row]) -> list[tuple[int, float]]:
    """(hundredth, live bytes at its end) from the process's start until it is judged, where they change."""
    changes: dict[int, float] = {}
    for row in rows:
        if row["place"] < 100:
            changes[row["place"]] = changes.get(row["place"], 0.0) + row["change_bytes"]
    curve, live = [], 0.0
    for place in sorted(changes):
        live += changes[place]
        curve.append((place, live))
    return curve


def _kept(rows: list[Row]) -> float:
    return float(sum(row["kept_bytes"] for row in rows))


def _grown(rows: list[Row], times: dict[int, Judged]) -> Grown:
    by_process: dict[int, list[Row]] = {}
    for row in rows:
        by_process.setdefault(row["process"], []).append(row)
    judged = [times[process] for process, cells in by_process.items() if _kept(cells)]
    judged_ns = max(each.last_ns for each in judged) - min(each.first_ns for each in judged)
    most = max(by_process, key=lambda process: _kept(by_process[process]))
    time = times[most]
    curve = [(time.after(place + 1) / 1e9, round(value)) for place, value in _live_curve(by_process[most])]
    return Grown(rows, judged_ns / 1e9, reduce_points([(time.start_ns / 1e9, 0), *curve]))


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
    judged_s = sum(part.judged_s for part in parts)
    largest = max(parts, key=lambda part: _kept(part.cells))
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
        live_at_end_error_bytes=round(math.sqrt(sums["end_variance"])),
        first_line=first_line,
        source=source_line(sources, *key),
        error_bytes_per_s=math.sqrt(sums["kept_variance"]) / judged_s,
        allocations_per_s=sums["made"] / judged_s,
        age_s=sums["age_s"] / sums["alive"] if sums["alive"] else None,
        type=_most(rows, "type")[0],
        allocator=_most(rows, "allocator")[0],
        family=_most(rows, "family")[0],
        trend=largest.trend,
    )


_SUMS = ("mallocs", "frees", "kept_bytes", "kept_variance", "made", "alive", "age_s", "end_bytes", "end_variance")


def _most(rows: list[Row], *names: str) -> tuple[Any, ...]:
    """The values of these columns that most of the surviving bytes have."""
    sums: dict[tuple[Any, ...], float] = {}
    for row in rows:
        values = tuple(row[name] for name in names)
        sums[values] = sums.get(values, 0.0) + row["kept_bytes"]
    return max(sums, key=lambda values: sums[values])
