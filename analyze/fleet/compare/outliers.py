"""Hosts that differ from their peers: those with the same version and labels (docs/design/fleet.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....formats.units import counted
from ...diff.measures import LEAST_SHARE
from ...diff.results import NOISE
from ...results.fleet import Coverage
from ...results.fleet_comparison import FleetOutliers, HostCompared, Peers
from ...trace import queries
from ..opening import Fleet
from .host_effects import HostEffects, host_effects
from .judge import Effect, exp, verdicts
from .metrics import chosen_metrics, is_level
from .robust import distances
from .sides import make_peers
from .tables import Pair, Table, Tables
from .units import Flags, Integers, Units

#: So many peers are needed. With fewer, a mean and the deviations from it say little.
LEAST_PEERS = 8
#: The row of a host as a whole.
WHOLE = -1


@dataclass(frozen=True)
class HostEffect:
    """The distance of a cell (a host among its peers) from the mean of the others (robust.py). ``row``: of the line in the units, or WHOLE."""

    cell: int
    row: int
    effect: Effect


def compared_hosts(units: Units, chosen: Flags) -> tuple[list[HostEffect], list[float | None]]:
    """The distance of each host, and of each of the ``chosen`` lines on each host, from the mean of the others of its side; by side
    the standard deviation between hosts, None if they are too few."""
    count, known = len(units.sides), units.costing()
    units = units.only(known)
    runs = units.runs()
    fitted = host_effects(units, runs)
    found: list[HostEffect] = []
    spreads: list[float | None] = []
    for side in units.sides:
        cells = np.flatnonzero(side)
        if len(cells) < LEAST_PEERS:
            spreads.append(None)
            continue
        effects, spread = distances(np.log(fitted.whole[cells]), fitted.noise[cells])
        spreads.append(spread)
        found += [HostEffect(int(cell), WHOLE, effect) for cell, effect in zip(cells, effects, strict=True)]
        for row in np.flatnonzero(chosen).tolist():
            found += _of_line(units, fitted, row, np.flatnonzero(side & runs[row]))
    return [replace(each, cell=int(known[each.cell])) for each in found], spreads + [None] * (count - len(spreads))


def _of_line(units: Units, fitted: HostEffects, row: int, cells: Integers) -> list[HostEffect]:
    """The distances of a line on the hosts that run it, apart from what the other lines of the host share."""
    known = np.isfinite(fitted.variance[row, cells])
    if known.sum() < LEAST_PEERS:
        return []
    cells = cells[known]
    grain = float(units.grains[row])
    exposure = units.exposure[cells] * fitted.factors[row, cells]
    values = units.values[row, cells]
    logs = np.log(np.maximum(values + grain / 2, 1e-300) / exposure)  # as in levels.levels_of
    sampling = grain / (exposure * float(np.exp(np.median(logs)))) + fitted.variance[row, cells]
    effects, _ = distances(logs, sampling)
    return [HostEffect(int(cell), row, effect) for cell, effect in zip(cells, effects, strict=True)]


def judge_hosts(found: Sequence[HostEffect]) -> list[tuple[str, float]]:
    """Verdicts and adjusted p-values. Hosts and lines are two questions, each with half the probability of a false alarm: otherwise
    hosts would pay for the many lines."""
    judged: dict[int, tuple[str, float]] = {}
    for is_whole in (True, False):
        numbers = [number for number, each in enumerate(found) if (each.row == WHOLE) == is_whole]
        judged |= dict(zip(numbers, verdicts([found[number].effect for number in numbers], questions=2), strict=True))
    return [judged[number] for number in range(len(found))]


def build_outliers(
    fleet: Fleet,
    query: dict[str, Any],
    whole: Coverage,
    metric: str,
    labels: Sequence[str] = (),
    limit: int | None = None,
) -> FleetOutliers:
    """The hosts of selected_traces among those with the same ``labels`` (none = version and all labels that groups of hosts have
    in common). Raises MetricError."""
    notes = make_peers(fleet, labels, LEAST_PEERS)
    unit = "trace" if is_level(metric) else whole.per or "hour"
    if not chosen_metrics(fleet, metric):
        return FleetOutliers(query, whole, metric, unit, notes, [], 0, [])
    names = [name for _, name in queries.run(fleet.connection, "names_compared")]
    tables = Tables(fleet, [metric], is_pair=False)
    table = tables.table(metric)
    if not len(table.units.costing()):  # lines do not have the metric
        table = replace(table, units=table.totals)
    costs = table.units.values.sum(axis=1)
    chosen = costs >= LEAST_SHARE * max(float(table.totals.values.sum()), 1e-300)
    chosen[:2] = False
    found, spreads = compared_hosts(table.units, chosen)
    judgements = judge_hosts(found)
    rows = [
        _row(each, verdict, p, table, names, tables.pairs)
        for each, (verdict, p) in zip(found, judgements, strict=True)
        if each.row == WHOLE or verdict != NOISE
    ]
    rows.sort(key=lambda row: (row.verdict == NOISE, row.file is not None, -row.ratio, row.host))
    judged_on = table.units.side_numbers[table.units.costing()]
    groups = [
        Peers(name, int((judged_on == number).sum()), spreads[number] if number < len(spreads) else None)
        for number, name in enumerate(names)
    ]
    few = [group for group in groups if group.spread is None]
    if few:
        hosts = counted(LEAST_PEERS, "host", "hosts")
        groups_text = counted(len(few), "group has", "groups have")
        notes.append(f"{groups_text} less than {hosts} and cannot be judged. Compare over fewer labels with --by NAME.")
    return FleetOutliers(query, whole, metric, unit, notes, groups, len(found), rows[:limit])


def _row(
    each: HostEffect, verdict: str, p: float, table: Table, names: Sequence[str], pairs: Sequence[Pair]
) -> HostCompared:
    units, cell = table.units, each.cell
    place: tuple[str | None, int | None, str | None, str | None] = (None, None, None, None)
    values = table.totals.values[0, cell]
    if each.row != WHOLE:
        before, after = pairs[table.lines[each.row - 2]]
        line = max(before + after, key=lambda line: line.version or "")
        place = (line.file, line.line, line.function, line.text)
        values = units.values[each.row, cell]
    low, high = each.effect.interval()
    return HostCompared(
        table.hosts[units.hosts[cell]],
        names[units.side_numbers[cell]],
        *place,
        float(values / units.exposure[cell]),
        exp(each.effect.log_ratio),
        low,
        high,
        p,
        verdict,
        int(table.traces[cell]),
    )
