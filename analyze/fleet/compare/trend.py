"""Costs by day, version or label, and the points at which they changed (docs/design/fleet.md)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ....formats.units import counted
from ...diff.measures import LEAST_SHARE
from ...diff.significance import quantile
from ...results.fleet import Coverage
from ...results.fleet_comparison import FleetTrend, TrendPoint, TrendSeries, TrendStep
from ...trace import queries
from ..opening import Fleet
from .change_points import LEAST_DAYS, noise_of, steps_of
from .judge import LEAST_HOSTS, exp
from .levels import Levels, levels_of
from .metrics import chosen_metrics, is_level
from .sides import make_compared
from .tables import Pair, Tables
from .units import Numbers, Units

#: Days between two changes: one day that differs is not a change.
_LEAST_BETWEEN = 2
#: Lines that are searched, if no number is asked for.
MOST_LINES = 20


def build_trend(
    fleet: Fleet, query: dict[str, Any], whole: Coverage, metric: str, by: str = "day", limit: int | None = None
) -> FleetTrend:
    """The series of ``metric`` over selected_traces ``by`` day, or by the label of this name (also version): all of it, and the
    ``limit`` costliest lines. Raises MetricError."""
    notes = make_compared(fleet, by)
    unit = "trace" if is_level(metric) else whole.per or "hour"
    if not chosen_metrics(fleet, metric):
        return FleetTrend(query, whole, metric, unit, notes, None, [])
    names = [name for _, name in queries.run(fleet.connection, "names_compared")]
    tables = Tables(fleet, [metric], is_pair=False)
    table = tables.table(metric, LEAST_SHARE, MOST_LINES if limit is None else limit)
    rows = range(2, len(table.units.values))
    least = _LEAST_BETWEEN if by == "day" else 1
    tests = len(rows) + 1
    total = _series(table.totals, 0, names, table.traces, least, tests, None)
    lines = [
        _series(table.units, row, names, table.traces, least, tests, tables.pairs[table.lines[row - 2]]) for row in rows
    ]
    notes += _notes(total, by)
    return FleetTrend(query, whole, metric, unit, notes, total, lines)


def _notes(total: TrendSeries, by: str) -> list[str]:
    if total.spread is None:
        hosts = counted(LEAST_HOSTS, "host", "hosts")
        return [f"No changes are looked for: that needs two points, with {hosts} or more at most of them."]
    notes = []
    if len(total.points) < LEAST_DAYS:
        days = counted(LEAST_DAYS, "day", "days")
        what = days if by == "day" else f"{counted(LEAST_DAYS, 'value', 'values')} of {by}"
        notes.append(
            f"With less than {what} it is unknown by how much they differ in what all hosts of one share (weekday, traffic): changes"
            " are those beyond what hosts differ by."
        )
    if few := sum(point.hosts < LEAST_HOSTS for point in total.points):
        notes.append(f"{counted(few, 'point has', 'points have')} less than {counted(LEAST_HOSTS, 'host', 'hosts')}.")
    return notes


def _series(
    units: Units, row: int, names: list[str], traces: Numbers, least: int, tests: int, pair: Pair | None
) -> TrendSeries:
    latest = pair and max(pair[0] + pair[1], key=lambda line: line.version or "")
    place = (latest.file, latest.line, latest.function, latest.text) if latest else (None,) * 4
    use = [name for name in range(len(names)) if units.values[row, units.side_numbers == name].sum() > 0]
    part = _only(units, row, use)
    levels = levels_of(part, 0)
    points = _points(part, levels, [names[side] for side in use], traces[np.isin(units.side_numbers, use)])
    enough = levels is not None and len(use) > 1 and float(np.median(levels.hosts)) >= LEAST_HOSTS
    if levels is None or not enough:
        return TrendSeries(*place, points, [], None)
    steps = [
        TrendStep(names[use[step.index]], exp(step.effect.log_ratio), *step.effect.interval(), step.p)
        for step in steps_of(levels, least, tests)
    ]
    return TrendSeries(*place, points, steps, noise_of(levels).spread)


def _only(units: Units, row: int, use: list[int]) -> Units:
    """The units of one line on these sides, which are numbered anew."""
    part = units.only(np.flatnonzero(np.isin(units.side_numbers, use)))
    rows, numbers = slice(row, row + 1), np.searchsorted(np.array(use), part.side_numbers)
    return replace(part, values=part.values[rows], variances=part.variances[rows], side_numbers=numbers)


def _points(units: Units, levels: Levels | None, names: list[str], traces: Numbers) -> list[TrendPoint]:
    sides = [units.side_numbers == number for number in range(len(names))]
    values = [float(units.values[0, side].sum() / units.exposure[side].sum()) for side in sides]
    counts = [int((units.values[0, side] > 0).sum()) for side in sides]
    numbers = [int(traces[side].sum()) for side in sides]
    if levels is None:
        return [
            TrendPoint(n, v, None, None, None, None, c, t)
            for n, v, c, t in zip(names, values, counts, numbers, strict=True)
        ]
    shown = np.exp(levels.logs)
    expected = sum(float(units.exposure[side].sum()) * each for side, each in zip(sides, shown, strict=True))
    shown = shown * units.values.sum() / expected
    # What all hosts have in common moves all levels alike: the errors are those of the distance from their mean.
    count = len(names)
    centre = np.eye(count) - np.full((count, count), 1 / count)
    covariance = centre @ levels.covariance @ centre if count > 1 else levels.covariance
    errors = quantile(0.05, levels.freedom) * np.sqrt(np.diag(covariance))
    ratios: list[float | None] = [None, *np.exp(np.diff(levels.logs)).tolist()]
    return [
        TrendPoint(
            names[i],
            values[i],
            float(shown[i]),
            float(shown[i] * exp(-errors[i])),
            float(shown[i] * exp(errors[i])),
            ratios[i],
            counts[i],
            numbers[i],
        )
        for i in range(count)
    ]
