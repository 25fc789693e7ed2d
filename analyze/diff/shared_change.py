"""Estimates the change that most lines share, and tests each line relative to it (docs/design/diff.md).

A machine that is slower during one run is slower on every line. A change that most lines share is therefore attributed to the
machine, and each line is compared with the others. Let A and B be the sums of a line on both sides, s² the variance of ln(B/A)
by sampling and by differences of the single line between runs, and D the change that the others share, with variance V:

    z = (ln(B/A) - D) / sqrt(s² + V)

D is estimated from the other lines by a random-effects mean (DerSimonian and Laird 1986), with a normal prior around 0 whose
width is the known spread between runs. With single runs that spread is unknown: 10 % in common is assumed, and significant
differences among the other lines are added to s². If the others share no change, or a larger one than runs differ by, a line
is judged by :func:`significance.ratio_test` instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .significance import ALPHA, LEAST_EFFECT, PRIOR_FREEDOM, RunSpread, Side, log_ratio_of, spread_of, two_sided

Sides = tuple[Side, Side]

#: Relative standard deviation between runs of all lines together, assumed if no side has two runs.
PRIOR_SIGMA_OF_MACHINE = 0.1
#: At least this number of other lines, and this share of them, must have changed similarly.
LEAST_LINES, LEAST_PART = 3, 0.5
#: A line further away than this (standard deviations) changed by itself.
_ALIKE = 2.5
#: A shared change beyond this (standard deviations of the prior) cannot be attributed to the machine.
_MOST_SHARED = 2.0
#: A shared change, or a difference among lines, is significant from this on (its own standard deviations).
_SURE = 2.0


@dataclass(frozen=True)
class RelativeTest:
    """The test of a line relative to the others.

    ``p``: probability of a distance at least as large by noise alone; 1 if the line differs from the others by less than
    LEAST_EFFECT, or in the direction opposite to its own change. ``variance``: variance of the shared change.
    """

    p: float
    variance: float


@dataclass(frozen=True)
class Line:
    """ln(after / before) and its variance: by sampling, and by differences of this line alone between runs."""

    log_ratio: float
    of_samples: float
    of_runs: float

    @property
    def variance(self) -> float:
        """The total variance."""
        return self.of_samples + self.of_runs


@dataclass(frozen=True)
class _Shared:
    """Logarithm of the shared ratio, its variance, the significant variance among the lines, and whether the ratio is significant."""

    log_ratio: float
    variance: float
    between: float
    is_sure: bool


class SharedChange:
    """The change that the lines of a measure share. ``rows``: one or more lines, each with its figures on both sides.

    ``own``: spread of lines between runs relative to each other. ``runs``: spread of each line by itself, with the degrees of
    freedom that remain if all lines of a run differ together. ``relative``: the test of each line relative to the others;
    None if those share no change. ``ratio``: after / before that the lines share which did not change by themselves; None if
    it is not significant. ``grain``: mean weight of a sample.
    """

    def __init__(self, rows: Sequence[Sides], runs: RunSpread, grain: float) -> None:
        counts = [len(side.figures) for side in rows[0]]
        shares = sum(1 / count for count in counts)
        self._is_single = max(counts) == 1
        self.own = _own_spread(rows, runs)
        self.runs = runs if self._is_single else _together(runs, self.own, sum(counts))
        self._prior = (PRIOR_SIGMA_OF_MACHINE if self._is_single else runs.sigma) ** 2 * shares
        lines = [_line(row, self.own.sigma**2 * shares, grain) for row in rows]
        self.relative = [self._relative(lines, index) for index in range(len(lines))]
        stayed = [line for line, each in zip(lines, self.relative, strict=True) if each and each.p >= ALPHA]
        found = self._shared_by(stayed)
        self.ratio = math.exp(found.log_ratio) if found and found.is_sure else None

    def _relative(self, lines: Sequence[Line | None], index: int) -> RelativeTest | None:
        line = lines[index]
        shared = self._shared_by([each for number, each in enumerate(lines) if number != index])
        if line is None or shared is None:
            return None
        distance = line.log_ratio - shared.log_ratio
        variance = shared.variance + shared.between * self._is_single
        if abs(distance) < math.log(1 + LEAST_EFFECT) or distance * line.log_ratio < 0:
            return RelativeTest(1.0, variance)
        whole = line.variance + variance
        freedom = self.own.freedom * (whole / line.of_runs) ** 2 if line.of_runs else math.inf
        return RelativeTest(two_sided(distance / math.sqrt(whole), freedom), variance)

    def _shared_by(self, found: Sequence[Line | None]) -> _Shared | None:
        """The change that these lines share; None if there is none, or if it exceeds what runs differ by: then the program
        itself changed."""
        lines = [each for each in found if each is not None]
        alike = [each for each in lines if abs(each.log_ratio) <= _ALIKE * math.sqrt(self._prior + each.variance)]
        if len(alike) < max(LEAST_LINES, LEAST_PART * len(lines)):
            return None
        between, is_uneven = heterogeneity(alike)
        weights = [1 / (each.variance + between) for each in alike]
        total = math.fsum(weights)
        mean = math.fsum(weight * each.log_ratio for weight, each in zip(weights, alike, strict=True)) / total
        precision = total + 1 / self._prior
        log_ratio = mean * total / precision
        if abs(log_ratio) > _MOST_SHARED * math.sqrt(self._prior):
            return None
        return _Shared(log_ratio, 1 / precision, between if is_uneven else 0.0, abs(mean) > _SURE / math.sqrt(total))


def _together(runs: RunSpread, own: RunSpread, count: int) -> RunSpread:
    """``runs`` with fewer degrees of freedom: each of ``count`` runs is one observation of what its lines have in common."""
    common = max(runs.sigma**2 - own.sigma**2, 0.0)
    unsure = own.sigma**4 / own.freedom + common**2 / (PRIOR_FREEDOM + count - 2)
    return RunSpread(runs.sigma, runs.sigma**4 / unsure if unsure else math.inf)


def heterogeneity(lines: Sequence[Line]) -> tuple[float, bool]:
    """Variance of the lines' changes beyond their own (DerSimonian and Laird 1986, equation 8), and whether it is significant."""
    weights = [1 / each.variance for each in lines]
    total = math.fsum(weights)
    mean = math.fsum(w * each.log_ratio for w, each in zip(weights, lines, strict=True)) / total
    q = math.fsum(w * (each.log_ratio - mean) ** 2 for w, each in zip(weights, lines, strict=True))
    scale = total - math.fsum(w * w for w in weights) / total
    freedom = len(lines) - 1
    is_sure = q > freedom + _SURE * math.sqrt(2 * freedom)
    return max((q - freedom) / scale, 0.0) if scale > 0 else 0.0, is_sure


def _line(row: Sides, of_runs: float, grain: float) -> Line | None:
    """The line with its variances; None if a side has no samples."""
    sampled = log_ratio_of(*row, grain)
    if sampled is None or min(side.mean for side in row) <= 0:
        return None
    return Line(*sampled, of_runs)


def _own_spread(rows: Sequence[Sides], runs: RunSpread) -> RunSpread:
    """The spread of lines between runs after removing what they share: each line relative to all others of its run."""
    whole = [row for row in rows if all(figure.value > 0 for side in row for figure in side.figures)]
    if len(whole) <= LEAST_LINES:
        return runs
    sides = [[row[side] for row in whole] for side in (0, 1)]
    relative = [_relative(side, runs) for side in sides]
    return spread_of(list(zip(*relative, strict=True)))


def _relative(lines: Sequence[Side], runs: RunSpread) -> list[Side]:
    """The lines of one side, each divided by the speed of its runs as estimated from the other lines."""
    count = len(lines[0].figures)
    weights = [1 / (line.variance * count / line.mean**2 + runs.sigma**2) for line in lines]
    logs = [[math.log(figure.value / line.mean) for figure in line.figures] for line in lines]
    sums = [math.fsum(w * row[run] for w, row in zip(weights, logs, strict=True)) for run in range(count)]
    total = math.fsum(weights)
    found = []
    for line, weight, row in zip(lines, weights, logs, strict=True):
        speeds = [math.exp((sums[run] - weight * row[run]) / (total - weight)) for run in range(count)]
        found.append(Side(tuple(f.scaled(speed) for f, speed in zip(line.figures, speeds, strict=True))))
    return found
