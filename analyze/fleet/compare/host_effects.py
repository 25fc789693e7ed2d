"""What all lines of a host share: a slower processor, a busier day (docs/design/fleet.md).

The cost of a line l in a cell c (a host on a side) for each unit of exposure is taken as mean(l, side) · host(c) · (1 + e), with
a variance of e by sampling, which is known, and one between hosts, which the line has for itself. host(c) is the mean of the
relative costs of the lines of the cell, each weighted by its precision (a random-effects mean: DerSimonian and Laird 1986).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...diff.significance import LEAST_SIGMA, PRIOR_SIGMA
from .units import Flags, Integers, Numbers, Units

#: The fit has converged to a thousandth of an error after this many rounds.
_ROUNDS = 6


@dataclass(frozen=True)
class HostEffects:
    """The effects, as factors with a geometric mean of 1 on each side, as all lines but one show them (lines × cells).

    ``variance``: their relative variance by the noise of those lines. ``spread``: relative variance between hosts of a
    side. ``others`` (lines): the number of lines that they come from. ``whole`` and ``noise`` (cells): the effects, and their
    variance, as all lines show them.
    """

    factors: Numbers
    variance: Numbers
    spread: float
    others: Numbers
    whole: Numbers
    noise: Numbers


def host_effects(units: Units, runs: Flags) -> HostEffects:
    """Fits the effects by turns with the means of the lines. ``runs``: which lines run in which cells."""
    effects = np.ones(len(units.exposure))
    between = np.full(len(units.values), PRIOR_SIGMA**2)
    weights = relative = np.zeros_like(units.values)
    for _ in range(_ROUNDS):
        relative, sampling = _relative(units, runs, effects, between)
        between = between_hosts(relative, sampling, runs, units.sides)
        weights = runs / (sampling + between[:, None] + LEAST_SIGMA**2)
        total = weights.sum(axis=0)
        factors = np.divide((weights * relative).sum(axis=0), total, where=total > 0, out=np.ones_like(total))
        effects = _centred(effects * np.maximum(factors, 1e-6), units.sides)
    return _without_own(units, runs, effects, relative, weights)


def _without_own(units: Units, runs: Flags, effects: Numbers, relative: Numbers, weights: Numbers) -> HostEffects:
    """The effects for each line as the others show them: a line is not compared with itself."""
    rest = weights.sum(axis=0) - weights
    known = rest > 1e-9 * weights.sum(axis=0)
    sums = (weights * relative).sum(axis=0) - weights * relative
    factors = np.divide(sums, rest, where=known, out=np.ones_like(rest))
    variance = np.divide(1.0, rest, where=known, out=np.full_like(rest, np.inf))
    found = _centred(effects * np.maximum(factors, 1e-6), units.sides)
    logs = np.log(effects)
    noise = 1 / np.maximum(weights.sum(axis=0), 1e-12)
    freedom = sum(max(int(side.sum()) - 1, 0) for side in units.sides)
    spread = float((logs**2).sum() / freedom - noise.mean()) if freedom else 0.0
    has_line = runs.any(axis=1)
    return HostEffects(found, variance, max(spread, 0.0), has_line.sum() - has_line.astype(np.float64), effects, noise)


def _centred(effects: Numbers, sides: tuple[Flags, ...]) -> Numbers:
    logs = np.log(effects)
    for side in sides:
        if side.any():
            logs[..., side] -= logs[..., side].mean(axis=-1, keepdims=True)
    found: Numbers = np.exp(logs)
    return found


def _relative(units: Units, runs: Flags, effects: Numbers, between: Numbers) -> tuple[Numbers, Numbers]:
    """Cost without the host's effect, relative to the mean of the line on its side, and its relative variance by sampling."""
    adjusted = units.rates / effects
    exposure = np.broadcast_to(units.exposure * effects, adjusted.shape)
    return relative_to_mean(adjusted, exposure, units.grains, runs, between, units.sides)


def _columns(side: Flags) -> slice | Integers:
    """Where a side has its cells: as a slice, which copies nothing, if they stand together."""
    found = np.flatnonzero(side)
    if len(found) and found[-1] - found[0] + 1 == len(found):
        return slice(int(found[0]), int(found[-1]) + 1)
    return found


def relative_to_mean(
    adjusted: Numbers, exposure: Numbers, grains: Numbers, runs: Flags, between: Numbers, sides: tuple[Flags, ...]
) -> tuple[Numbers, Numbers]:
    """``adjusted`` costs relative to their means on each side, and their relative variances by sampling.

    The variances are those of the expected cost, not of the observed one: a weight that depends on the cost itself would
    bias the mean.
    """
    relative, sampling = np.ones_like(adjusted), np.zeros_like(adjusted)
    least = between[:, None] + LEAST_SIGMA**2
    for side in map(_columns, sides):
        use, costs, exposed = runs[:, side], adjusted[:, side], exposure[:, side]
        mean, noise = np.zeros((len(costs), 1)), np.zeros_like(costs)
        for _ in range(2):
            weights = use / (noise + least)
            total = weights.sum(axis=1, keepdims=True)
            mean = np.divide((weights * costs).sum(axis=1, keepdims=True), total, where=total > 0, out=total * 0)
            expected = mean * exposed
            noise = np.divide(grains[:, None], expected, where=use & (expected > 0), out=np.zeros_like(expected))
        relative[:, side] = np.divide(costs, mean, where=use & (mean > 0), out=np.ones_like(costs))
        sampling[:, side] = noise
    return relative, sampling


def between_hosts(relative: Numbers, sampling: Numbers, runs: Flags, sides: tuple[Flags, ...]) -> Numbers:
    """By line, the relative variance between hosts of a side beyond sampling: the method of moments, with the weights of
    :func:`...diff.significance.spread_of`; never negative."""
    counts = [(runs & side).sum(axis=1, keepdims=True) for side in sides]
    excess = np.zeros_like(relative)
    for side, count in zip(sides, counts, strict=True):
        scale = np.divide(count, count - 1, where=count > 1, out=np.zeros(count.shape))
        own = _columns(side)
        excess[:, own] = (relative[:, own] - 1) ** 2 * scale - sampling[:, own]
    usable = runs & np.any([side & (count > 1) for side, count in zip(sides, counts, strict=True)], axis=0)
    found = np.full(len(relative), PRIOR_SIGMA**2)
    for _ in range(3):
        weights = usable / (sampling + found[:, None] + LEAST_SIGMA**2) ** 2
        total = weights.sum(axis=1)
        mean = np.divide(
            (weights * excess).sum(axis=1), total, where=total > 0, out=np.full(len(total), PRIOR_SIGMA**2)
        )
        found = np.maximum(mean, 0.0)
    return found
