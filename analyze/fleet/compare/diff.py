"""Compares two selections of traces with hosts as units (docs/design/fleet.md)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from ...diff.measures import LEAST_SHARE
from ...diff.results import BETTER, WORSE
from ...results.fleet import Coverage
from ...results.fleet_comparison import FleetChange, FleetDiff, FleetLineChange, FleetStatistics
from ...trace import queries
from ..opening import Fleet
from .judge import LEAST_HOSTS, Comparison, Effect, Judged, judged, judged_total, verdicts
from .lines import VersionLine
from .metrics import chosen_metrics
from .sentences import summary_of
from .tables import OTHERS, OUTSIDE, Pair, Table, Tables
from .units import Units

#: The place of a verdict on a line that does not run on enough hosts.
NOT_ENOUGH = "not enough data"


class SidesError(ValueError):
    """The two sides cannot be compared; ``str()`` is one sentence or two."""


def compare_sides(
    fleet: Fleet,
    query: dict[str, Any],
    whole: Coverage,
    sides: Sequence[Coverage],
    metric: str | None = None,
    limit: int | None = None,
) -> FleetDiff:
    """Compares the tables before_traces and after_traces of ``fleet``; ``sides`` and ``whole`` are their coverage.

    Raises MetricError, and SidesError if a trace is on both sides.
    """
    left_out = _make_sides(fleet, whole.per)
    metrics = chosen_metrics(fleet, metric, least_sides=2)
    tables = Tables(fleet, metrics)
    # numpy computes without the interpreter's lock, beside the next table too; each table that is judged takes memory.
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        judging = {name: pool.submit(_Metric, name, tables.table(name), tables) for name in metrics}
        found = {name: each.result() for name, each in judging.items()}
    tested = [(name, key, effect) for name, each in found.items() for key, effect in each.tested.items()]
    judgements = verdicts([effect for _, _, effect in tested])
    for (name, key, _), (verdict, p) in zip(tested, judgements, strict=True):
        found[name].judge(key, verdict, p)
    lines = _lines(tables.pairs, found)
    totals = {name: each.changes["total"] for name, each in found.items()}
    statistics = FleetStatistics(
        tests=len(tested),
        spread={name: each.comparison.spread for name, each in found.items()},
        shared_ratio={name: ratio for name, each in found.items() if (ratio := each.shared_ratio) is not None},
        other_lines={name: each.others for name, each in found.items()},
        left_out=left_out,
    )
    unit = whole.per or "hour"
    parts = [part for _, part in queries.run(fleet.connection, "sides_together")]
    together = min(parts, default=None)
    return FleetDiff(
        query=query,
        fleet=whole,
        sides=list(sides),
        unit=unit,
        summary=summary_of(totals, lines, statistics, unit, LEAST_HOSTS, together),
        totals=totals,
        together=together,
        lines=lines[:limit],
        unattributed={name: each.changes[OUTSIDE] for name, each in found.items() if OUTSIDE in each.changes},
        statistics=statistics,
    )


def _make_sides(fleet: Fleet, per: str | None) -> int:
    """Makes the table compared_traces. Returns how many traces are on a side but not in it. Raises SidesError."""
    raw = fleet.connection.raw
    raw.execute(f"CREATE OR REPLACE TEMP TABLE compared_traces AS {queries.body('sides_compared')}")
    (counts,) = queries.run(fleet.connection, "sides_counted")
    given, taken, twice = counts
    if twice:
        raise SidesError(
            f"The two sides have {twice:,} of their traces in common. Select them by different values, or by time."
        )
    if not taken:
        what = "known host and length" if per is None else f"known host and the mark {per}"
        raise SidesError(f"No trace of the two sides has a {what}.")
    return int(given - taken)


class _Metric:
    """The comparison of one metric. Keys of ``changes`` and ``tested``: "total", OUTSIDE, or rows of the table from 2 on."""

    def __init__(self, name: str, table: Table, tables: Tables) -> None:
        # Not the table: its figures are most of the memory, and once they are judged nothing needs them.
        self.name, self.lines, self.others = name, table.lines, table.others
        units = table.units
        sums = units.values.sum(axis=1)
        chosen = sums >= LEAST_SHARE * max(float(table.totals.values.sum()), 1e-300)
        chosen[OTHERS] = False
        self.comparison: Comparison = judged(units, chosen)
        total = judged_total(table.totals)
        self.changes: dict[Any, FleetChange] = {"total": _change(table.totals, 0, total)}
        self.tested: dict[Any, Effect] = {"total": total.effect} if total.effect else {}
        if total.effect is None:
            self.changes["total"] = replace(self.changes["total"], verdict=NOT_ENOUGH)
        for row, line in enumerate(self.comparison.lines):
            if row == OTHERS or not sums[row]:
                continue
            self.changes[row] = _change(units, row, line)
            if chosen[row] and line.effect is not None:
                self.tested[row] = line.effect
            elif chosen[row] and self._is_on_both(row, tables):
                self.changes[row] = replace(self.changes[row], verdict=NOT_ENOUGH)
        self.by_pair = {pair: self.changes[row + 2] for row, pair in enumerate(table.lines) if row + 2 in self.changes}

    def _is_on_both(self, row: int, tables: Tables) -> bool:
        return row == OUTSIDE or all(tables.pairs[self.lines[row - 2]])

    def judge(self, key: Any, verdict: str, p: float) -> None:
        """Adds a verdict to a change."""
        self.changes[key] = replace(self.changes[key], verdict=verdict, p=p)
        if isinstance(key, int) and key > OUTSIDE:
            self.by_pair[self.lines[key - 2]] = self.changes[key]

    @property
    def shared_ratio(self) -> float | None:
        """after / before that most lines share."""
        shared = self.comparison.shared
        return None if shared is None else float(np.exp(shared))


def _change(units: Units, row: int, line: Judged) -> FleetChange:
    """What a row costs on both sides, not yet judged."""
    costs: list[float | None] = []
    for side in units.sides:
        exposure = float(units.exposure[side].sum())
        costs.append(float(units.values[row, side].sum()) / exposure if exposure else None)
    change = FleetChange(
        costs[0],
        costs[1],
        hosts_before=line.before,
        hosts_after=line.after,
        pairs=line.pairs,
        is_relative=line.is_relative,
    )
    if line.effect is None:
        return change
    low, high = line.effect.interval()
    return replace(change, ratio=float(np.exp(line.effect.log_ratio)), low=low, high=high)


def _lines(pairs: Sequence[Pair], found: dict[str, _Metric]) -> list[FleetLineChange]:
    """The lines that are looked at: those judged better or worse first, then by the size of their difference."""
    rows = []
    for number, (before, after) in enumerate(pairs):
        changes = {name: each.by_pair[number] for name, each in found.items() if number in each.by_pair}
        if changes:
            rows.append(_line(before, after, changes))

    def key(line: FleetLineChange) -> tuple[Any, ...]:
        is_judged = any(each.verdict in (BETTER, WORSE) for each in line.changes.values())
        sizes = [-abs((each.after or 0.0) - (each.before or 0.0)) for each in map(line.changes.get, found) if each]
        return (
            not is_judged,
            *(sizes or [0.0])[:1],
            line.file or line.before_file or "",
            line.line or line.before_line or 0,
        )

    return sorted(rows, key=key)


def _line(
    before: Sequence[VersionLine], after: Sequence[VersionLine], changes: dict[str, FleetChange]
) -> FleetLineChange:
    old, new = (max(side, key=lambda line: line.version or "") if side else None for side in (before, after))
    if old and new:
        status = "same" if old.text is None or new.text is None or old.text == new.text else "edited"
    else:
        status = "removed" if old else "added"
        changes = {
            name: replace(each, ratio=None, low=None, high=None, p=None, verdict=None) for name, each in changes.items()
        }
    described = [(each.file, each.line, each.function, each.text) if each else (None,) * 4 for each in (new, old)]
    return FleetLineChange(status, *described[0], *described[1], changes)
