"""What most lines of a program have in common between two sides, and what a line has beside it (docs/design/diff.md).

A machine that is slower during one run is slower on every line. What most lines share is therefore no change of any of
them, and a line is held against the others: with A and B its sums on both sides, s² the variance of ln(B/A) by sampling
and by what lines differ by themselves from run to run, and D the change that the others share, known with the variance V,

    z = (ln(B/A) - D) / sqrt(s² + V)

D is estimated from the other lines by a random-effects mean (DerSimonian and Laird 1986), with a normal prior around 0 that
is as wide as runs are known to differ. Of single runs, of which nothing tells how much they differ, 10 % in common is
assumed, and what the others surely differ by among themselves is part of s². Where the others share nothing, or more than runs
differ by, a line is judged by :func:`significance.ratio_test`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .significance import ALPHA, LEAST_EFFECT, PRIOR_FREEDOM, RunSpread, Side, spread_of, two_sided

Sides = tuple[Side, Side]

#: Relative standard deviation from run to run of all lines together: assumed where no side has two runs.
PRIOR_SIGMA_OF_MACHINE = 0.1
#: As many other lines must have changed alike, at least, and as large a part of them.
_LEAST_LINES, _LEAST_PART = 3, 0.5
#: Farther off, in standard deviations, a line's change is its own.
_ALIKE = 2.5
#: What lines share is more than the machine's, from so many of the prior's standard deviations on.
_MOST_SHARED = 2.0
#: What lines share, and what they differ by, is sure from so many of its own standard deviations on.
_SURE = 2.0


@dataclass(frozen=True)
class Beside:
    """A line held against the others. ``p``: how likely noise alone takes it so far from them; 1 where it differs by less
    than LEAST_EFFECT, or the other way than it differs from itself before. ``variance``: of what it is held against."""

    p: float
    variance: float


@dataclass(frozen=True)
class _Line:
    """ln(after / before) and its variance: by sampling, and by what differs from run to run by this line alone."""

    log_ratio: float
    of_samples: float
    of_runs: float

    @property
    def variance(self) -> float:
        return self.of_samples + self.of_runs


@dataclass(frozen=True)
class _Shared:
    """Logarithm of what lines share, its variance, that of what they surely differ by beside it, and is it more than noise?"""

    log_ratio: float
    variance: float
    between: float
    is_sure: bool


class SharedChange:
    """Of the lines of a measure, one at least, each with its figures on both sides.

    ``own``: how lines differ from run to run relative to each other; ``runs``: the same of each for itself, with as many
    degrees of freedom as there are when all lines of a run differ together; ``beside``: each line against the others,
    None where those share nothing; ``ratio``: after / before of what the lines share that did not change by themselves,
    None where that is nothing sure.
    """

    def __init__(self, rows: Sequence[Sides], runs: RunSpread) -> None:
        counts = [len(side.figures) for side in rows[0]]
        shares = sum(1 / count for count in counts)
        self._is_single = max(counts) == 1
        self.own = _own_spread(rows, runs)
        self.runs = runs if self._is_single else _together(runs, self.own, sum(counts))
        self._prior = (PRIOR_SIGMA_OF_MACHINE if self._is_single else runs.sigma) ** 2 * shares
        lines = [_line(row, self.own.sigma**2 * shares) for row in rows]
        self.beside = [self._beside(lines, index) for index in range(len(lines))]
        stayed = [line for line, each in zip(lines, self.beside, strict=True) if each and each.p >= ALPHA]
        found = self._shared_by(stayed)
        self.ratio = math.exp(found.log_ratio) if found and found.is_sure else None

    def _beside(self, lines: Sequence[_Line | None], index: int) -> Beside | None:
        line = lines[index]
        shared = self._shared_by([each for number, each in enumerate(lines) if number != index])
        if line is None or shared is None:
            return None
        apart = line.log_ratio - shared.log_ratio
        held_against = shared.variance + shared.between * self._is_single
        if abs(apart) < math.log(1 + LEAST_EFFECT) or apart * line.log_ratio < 0:
            return Beside(1.0, held_against)
        whole = line.variance + held_against
        freedom = self.own.freedom * (whole / line.of_runs) ** 2 if line.of_runs else math.inf
        return Beside(two_sided(apart / math.sqrt(whole), freedom), held_against)

    def _shared_by(self, found: Sequence[_Line | None]) -> _Shared | None:
        """What these lines share; None where that is nothing, or more than runs are known to differ by: then it is the
        program that changed."""
        lines = [each for each in found if each is not None]
        alike = [each for each in lines if abs(each.log_ratio) <= _ALIKE * math.sqrt(self._prior + each.variance)]
        if len(alike) < max(_LEAST_LINES, _LEAST_PART * len(lines)):
            return None
        between, is_uneven = _heterogeneity(alike)
        weights = [1 / (each.variance + between) for each in alike]
        total = math.fsum(weights)
        told = math.fsum(weight * each.log_ratio for weight, each in zip(weights, alike, strict=True)) / total
        precision = total + 1 / self._prior
        log_ratio = told * total / precision
        if abs(log_ratio) > _MOST_SHARED * math.sqrt(self._prior):
            return None
        return _Shared(log_ratio, 1 / precision, between if is_uneven else 0.0, abs(told) > _SURE / math.sqrt(total))


def _together(runs: RunSpread, own: RunSpread, count: int) -> RunSpread:
    """``runs`` with fewer degrees of freedom: what ``count`` runs have in common, on both sides, each tells but once."""
    common = max(runs.sigma**2 - own.sigma**2, 0.0)
    unsure = own.sigma**4 / own.freedom + common**2 / (PRIOR_FREEDOM + count - 2)
    return RunSpread(runs.sigma, runs.sigma**4 / unsure if unsure else math.inf)


def _heterogeneity(lines: Sequence[_Line]) -> tuple[float, bool]:
    """Variance of the lines' changes beyond their own (DerSimonian and Laird 1986, equation 8); is it more than chance?"""
    weights = [1 / each.variance for each in lines]
    total = math.fsum(weights)
    mean = math.fsum(w * each.log_ratio for w, each in zip(weights, lines, strict=True)) / total
    q = math.fsum(w * (each.log_ratio - mean) ** 2 for w, each in zip(weights, lines, strict=True))
    scale = total - math.fsum(w * w for w in weights) / total
    freedom = len(lines) - 1
    is_sure = q > freedom + _SURE * math.sqrt(2 * freedom)
    return max((q - freedom) / scale, 0.0) if scale > 0 else 0.0, is_sure


def _line(row: Sides, of_runs: float) -> _Line | None:
    """None where a side has nothing."""
    before, after = row
    if min(before.mean, after.mean) <= 0:
        return None
    of_samples = sum(side.variance / side.mean**2 for side in row)
    return _Line(math.log(after.mean / before.mean), of_samples, of_runs)


def _own_spread(rows: Sequence[Sides], runs: RunSpread) -> RunSpread:
    """How lines differ from run to run beside what they share: each is taken relative to all others of its run."""
    whole = [row for row in rows if all(figure.value > 0 for side in row for figure in side.figures)]
    if len(whole) <= _LEAST_LINES:
        return runs
    sides = [[row[side] for row in whole] for side in (0, 1)]
    relative = [_relative(side, runs) for side in sides]
    return spread_of(list(zip(*relative, strict=True)))


def _relative(lines: Sequence[Side], runs: RunSpread) -> list[Side]:
    """The lines of one side, each over the speed of its runs as the other lines have it."""
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
