"""Tests the difference of each line between two sides, with hosts as units (docs/design/fleet.md).

The mean of a line on a side is a weighted mean over its hosts (random effects: variance by sampling and between hosts), and the
variance of that mean is estimated from how the hosts scatter (Hartung and Knapp 2001; Knapp and Hartung 2003), never below
what sampling alone gives. Differences are compared with Student's t (Welch and Satterthwaite 1946 for its degrees of freedom).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...diff.results import BETTER, NOISE, WORSE
from ...diff.shared_change import LEAST_LINES, LEAST_PART, Line, heterogeneity
from ...diff.significance import ALPHA, LEAST_EFFECT, LEAST_SIGMA, holm, quantile, two_sided
from .host_effects import between_hosts, host_effects, relative_to_mean
from .units import Flags, Integers, Numbers, Units

#: A line is judged if it runs on so many hosts of each side, or on so many that are on both.
LEAST_HOSTS = 3
#: A side has a variance of its own if the line runs on so many of its hosts.
_OWN_VARIANCE = 6
#: A line further from the median of the others than this (its own standard deviations) changed by itself.
_ALIKE = 2.5
#: A shared change that hosts cause with a smaller probability than this is one of the program.
_LEAST_P_OF_HOSTS = 0.001


@dataclass(frozen=True)
class Effect:
    """ln(after / before) of a line, its variance, and the degrees of freedom of that."""

    log_ratio: float
    variance: float
    freedom: float

    @property
    def p(self) -> float:
        """Probability of an effect at least as large by noise alone, not adjusted for other tests."""
        return two_sided(self.log_ratio / math.sqrt(self.variance), self.freedom)

    def interval(self, outside: float = 0.05) -> tuple[float, float]:
        """The interval that does not hold the ratio with the probability ``outside``."""
        error = quantile(outside, self.freedom) * math.sqrt(self.variance)
        return exp(self.log_ratio - error), exp(self.log_ratio + error)

    @property
    def matters(self) -> bool:
        """May the effect be LEAST_EFFECT or more? (At the level of the verdicts. Effects as small as the least one would be
        missed every other time if the estimate had to exceed it.)"""
        low, high = self.interval(ALPHA)
        return high >= 1 + LEAST_EFFECT or low <= 1 / (1 + LEAST_EFFECT)


@dataclass(frozen=True)
class Judged:
    """A line as it was tested.

    ``effect``: None = it does not run on enough hosts. ``is_relative``: apart from what all lines of a host share. ``before``,
    ``after``, ``pairs``: on how many hosts it counts, and how many of them are compared with themselves.
    """

    effect: Effect | None
    is_relative: bool
    before: int
    after: int
    pairs: int


@dataclass(frozen=True)
class Comparison:
    """The tests of all lines. ``spread``: relative standard deviation of what lines of a host share, between hosts of a side.
    ``shared``: ln of the ratio that most lines share; None = they share none, or it cannot be due to the hosts."""

    lines: list[Judged]
    spread: float
    shared: float | None


def exp(value: float) -> float:
    """The exponential, of a bounded argument."""
    return math.exp(max(-700.0, min(value, 700.0)))


def judged_total(units: Units) -> Judged:
    """Tests a line alone, as the total is: as it stands. Hosts on which it costs nothing count too."""
    return _effects(units, np.ones(units.values.shape, dtype=np.bool_), np.ones_like(units.values))[0]


def judged(units: Units, chosen: Flags | None = None) -> Comparison:
    """Tests each line of ``units`` on the hosts that run it. Lines that are not ``chosen`` (None = all are) show what a host does
    to all lines, but are not themselves compared with the others."""
    units = units.only(units.costing())
    if not len(units.exposure):
        return Comparison([Judged(None, False, 0, 0, 0)] * len(units.values), 0.0, None)
    runs = units.runs()
    fitted = host_effects(units, runs)
    lines = _effects(units, runs, np.ones_like(units.values))
    relative = [each.effect for each in _effects(units, runs, fitted.factors)]
    # On hosts of the same speed, or beside lines with few samples, the effects are noise.
    noise = np.mean(fitted.variance, axis=1, where=runs | ~runs.any(axis=1, keepdims=True))
    helps = (fitted.others >= LEAST_LINES) & (noise < fitted.spread) & (True if chosen is None else chosen)
    prior = _variance_of_hosts(units, fitted.spread)
    shared_ratios = []
    for index in np.flatnonzero(helps).tolist():
        own = relative[index]
        shared = _shared(relative[:index] + relative[index + 1 :], prior)
        if own is not None and shared is not None:
            log_ratio, variance = shared
            shared_ratios.append(log_ratio)
            effect = Effect(own.log_ratio - log_ratio, own.variance + variance, own.freedom)
            lines[index] = replace(lines[index], effect=effect, is_relative=True)
    return Comparison(lines, math.sqrt(fitted.spread), float(np.median(shared_ratios)) if shared_ratios else None)


def _variance_of_hosts(units: Units, spread: float) -> float:
    """Variance of the mean difference of the hosts of both sides: their relative variance by the number of hosts."""
    counts = [int(side.sum()) for side in units.sides]
    return spread * sum(1 / count for count in counts if count)


def _shared(found: Sequence[Effect | None], prior: float) -> tuple[float, float] | None:
    """ln of the ratio that these lines share, and its variance by their differences; None if there is none, or if it is
    larger than hosts differ by: then the program itself changed.

    Errors that come from the sampling of the lines are part of the effects of the hosts, and so of the line's own scatter.
    """
    effects = [each for each in found if each is not None]
    if len(effects) < LEAST_LINES:
        return None
    ratios = np.array([each.log_ratio for each in effects])
    variances = np.array([each.variance for each in effects])
    centre = _weighted_median(ratios, 1 / np.sqrt(variances))
    alike = np.abs(ratios - centre) <= _ALIKE * np.sqrt(variances + LEAST_SIGMA**2)
    if alike.sum() < max(LEAST_LINES, LEAST_PART * len(effects)):
        return None
    lines = [Line(each.log_ratio, each.variance, 0.0) for each, use in zip(effects, alike, strict=True) if use]
    between, _ = heterogeneity(lines)
    own = variances[alike]
    weights = 1 / (own + between)
    mean, variance = float((weights * ratios[alike]).sum() / weights.sum()), float(1 / weights.sum())
    if abs(mean) > quantile(_LEAST_P_OF_HOSTS, max(min(each.freedom for each in effects), 1)) * math.sqrt(
        prior + variance
    ):
        return None
    return mean, max(variance - float(1 / (1 / own).sum()), 0.0)


def _weighted_median(values: Numbers, weights: Numbers) -> float:
    order = np.argsort(values)
    sums = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(sums, sums[-1] / 2)])


def _effects(units: Units, runs: Flags, factors: Numbers) -> list[Judged]:
    """The difference of each line after its costs were divided by ``factors`` (lines × cells)."""
    adjusted, exposure = units.rates / factors, units.exposure * factors
    found = [(np.flatnonzero(side)) for side in units.sides]
    places = [dict(zip(units.hosts[cells].tolist(), cells.tolist(), strict=True)) for cells in found]
    on_both = places[0].keys() & places[1].keys()
    both = sorted(on_both)
    grains = units.grains
    if both and 2 * len(both) >= min(map(len, places)):
        pair_cells = [np.array([each[host] for host in both]) for each in places]
        rest = [
            np.array([cell for host, cell in each.items() if host not in on_both], dtype=np.int64) for each in places
        ]
        paired = _paired(adjusted, exposure, grains, runs, pair_cells)
    else:
        rest, paired = found, []
    unpaired = _unpaired(adjusted, exposure, grains, runs, rest)
    lines = []
    for index in range(len(adjusted)):
        counts = [int(runs[index, side].sum()) for side in units.sides]
        pair, pairs = paired[index] if paired else (None, 0)
        lines.append(Judged(_combined(pair, unpaired[index]), False, counts[0], counts[1], pairs))
    return lines


def _combined(first: Effect | None, second: Effect | None) -> Effect | None:
    """Two independent effects as one, by their precisions (Graybill and Deal 1959)."""
    if first is None or second is None:
        return first or second
    precision = 1 / first.variance + 1 / second.variance
    parts = [1 / each.variance / precision for each in (first, second)]
    log_ratio = parts[0] * first.log_ratio + parts[1] * second.log_ratio
    freedom = 1 / (parts[0] ** 2 / first.freedom + parts[1] ** 2 / second.freedom)
    return Effect(log_ratio, 1 / precision, freedom)


def _unpaired(
    adjusted: Numbers, exposure: Numbers, grains: Numbers, runs: Flags, cells: Sequence[Integers]
) -> list[Effect | None]:
    """The difference between different hosts. Each side has its own variance, or where one has few hosts, both have the same."""
    both = np.concatenate(cells)
    taken = adjusted[:, both], exposure[:, both], grains, runs[:, both]
    is_after = np.arange(len(both)) >= len(cells[0])
    own = [_side_means(*taken, (side,))[0] for side in (~is_after, is_after)]
    pooled = _side_means(*taken, (~is_after, is_after))
    found: list[Effect | None] = []
    for *apart, before, after in zip(*own, *pooled, strict=True):
        if min(before.count, after.count) < LEAST_HOSTS or min(before.mean, after.mean) <= 0:
            found.append(None)
        elif min(before.count, after.count) < _OWN_VARIANCE:
            freedom = float(before.count + after.count - 2)
            found.append(Effect(math.log(after.mean / before.mean), before.variance + after.variance, freedom))
        else:
            found.append(_welch(*apart))
    return found


@dataclass(frozen=True)
class _SideMean:
    """Mean over hosts, its relative variance, and the number of hosts."""

    mean: float
    variance: float
    count: int


def _welch(before: _SideMean, after: _SideMean) -> Effect:
    variance = before.variance + after.variance
    parts = sum((each.variance**2) / (each.count - 1) for each in (before, after))
    return Effect(math.log(after.mean / before.mean), variance, variance**2 / parts)


def _side_means(
    adjusted: Numbers, exposure: Numbers, grains: Numbers, runs: Flags, sides: tuple[Flags, ...]
) -> list[list[_SideMean]]:
    """By side the means of all lines. All ``sides`` have the same variance between hosts."""
    runs = runs & np.any(sides, axis=0)
    between = np.full(len(adjusted), LEAST_SIGMA**2)
    relative = sampling = np.zeros_like(adjusted)
    for _ in range(3):
        relative, sampling = relative_to_mean(adjusted, exposure, grains, runs, between, sides)
        between = np.maximum(between_hosts(relative, sampling, runs, sides), LEAST_SIGMA**2)
    weights = runs / (sampling + between[:, None])
    freedom = np.maximum(sum(np.maximum((runs & side).sum(axis=1) - 1, 0) for side in sides), 1)
    scatter = np.maximum((weights * (relative - 1) ** 2).sum(axis=1) / freedom, 1.0)
    found = []
    for side in sides:
        total = np.maximum((weights * side).sum(axis=1), 1e-300)
        means = (weights * side * adjusted).sum(axis=1) / total
        counts = (runs & side).sum(axis=1)
        rows = zip(means.tolist(), (scatter / total).tolist(), counts.tolist(), strict=True)
        found.append([_SideMean(*row) for row in rows])
    return found


def _paired(
    adjusted: Numbers, exposure: Numbers, grains: Numbers, runs: Flags, cells: Sequence[Integers]
) -> list[tuple[Effect | None, int]]:
    """The difference between both sides of the same hosts, and the number of these: what a line costs more on one host than
    on another cancels out."""
    use = runs[:, cells[0]] & runs[:, cells[1]]
    counts = use.sum(axis=1)
    costs = [adjusted[:, each] for each in cells]
    means, noise = [], np.zeros_like(costs[0])
    weights = use.astype(np.float64)
    between = np.full(len(adjusted), LEAST_SIGMA**2)
    distance = noise
    for _ in range(3):
        total = np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
        means = [(weights * cost).sum(axis=1, keepdims=True) / total for cost in costs]
        noise = np.zeros_like(costs[0])
        shares = []
        for mean, cost, each in zip(means, costs, cells, strict=True):
            expected = mean * exposure[:, each]
            noise = noise + np.divide(grains[:, None], expected, where=expected > 0, out=np.zeros_like(expected))
            shares.append(np.divide(cost, mean, where=mean > 0, out=np.ones_like(cost)))
        distance = shares[1] - shares[0]
        side = np.ones(len(cells[0]), dtype=np.bool_)
        between = np.maximum(between_hosts(1 + distance, noise, use, (side,)), LEAST_SIGMA**2)
        weights = use / (noise + between[:, None])
    total = np.maximum(weights.sum(axis=1), 1e-300)
    scatter = (weights * distance**2).sum(axis=1) / np.maximum(counts - 1, 1)
    variances = np.maximum(scatter, 1.0) / total
    found: list[tuple[Effect | None, int]] = []
    for before, after, variance, count in zip(means[0][:, 0], means[1][:, 0], variances, counts, strict=True):
        if count < LEAST_HOSTS or min(before, after) <= 0:
            found.append((None, 0))
            continue
        found.append((Effect(math.log(after / before), float(variance), float(count - 1)), int(count)))
    return found


def verdicts(effects: Sequence[Effect], questions: int = 1) -> list[tuple[str, float]]:
    """By effect better, worse or noise, and the p-value adjusted for the number of effects (Holm 1979), and for the number of
    ``questions`` that share the probability of a false alarm (Bonferroni)."""
    adjusted = [min(questions * p, 1.0) for p in holm([each.p for each in effects])]
    return [(_verdict(each, p), p) for each, p in zip(effects, adjusted, strict=True)]


def _verdict(effect: Effect, p: float) -> str:
    if p >= ALPHA or not effect.matters:
        return NOISE
    return WORSE if effect.log_ratio > 0 else BETTER
