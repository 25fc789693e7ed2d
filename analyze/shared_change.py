"""What all lines of a program have in common between two sides, and what a line has beside it (docs/design/diff.md).

A machine that is slower during one run is slower on every line. What most lines share is therefore no change of any of
them, and a line is held against the others: with A and B its sums on both sides, s² the variance of ln(B/A) by sampling
and by what lines differ by themselves from run to run, and D the change that the others share, known with the variance V,

    z = (ln(B/A) - D) / sqrt(s² + V)

D is estimated from the other lines by a random-effects mean (DerSimonian and Laird 1986), with a normal prior around 0 that
is as wide as runs are known to differ. Of single runs, of which nothing tells how much they differ, 10 % in
common is assumed. Where the others tell nothing, a line is judged by :func:`significance.ratio_test` alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .significance import LEAST_EFFECT, RunSpread, Side, spread_of, two_sided

Sides = tuple[Side, Side]

#: Relative standard deviation from run to run of all lines together: assumed where no side has two runs.
PRIOR_SIGMA_OF_MACHINE = 0.1
#: As many other lines must have changed alike, at least, and as large a part of them.
_LEAST_LINES, _LEAST_PART = 3, 0.5
#: Farther off, in standard deviations, a line's change is its own.
_ALIKE = 2.5
#: What all lines share is more than the machine's, from so many of the prior's standard deviations on.
_MOST_SHARED = 2.0


@dataclass(frozen=True)
class _Line:
    """ln(after / before) and its variance: by sampling, and by what differs from run to run by this line alone."""

    log_ratio: float
    of_samples: float
    of_runs: float

    @property
    def variance(self) -> float:
        return self.of_samples + self.of_runs


class SharedChange:
    """Of the lines of a measure, each with its figures on both sides. ``runs``: how much each differs from run to run, in
    common with the others or not; ``own``: not in common."""

    def __init__(self, rows: Sequence[Sides], runs: RunSpread) -> None:
        counts = [len(side.figures) for side in rows[0]] if rows else [1, 1]
        self._shares = sum(1 / count for count in counts)
        sigma = runs.sigma if max(counts) > 1 else max(runs.sigma, PRIOR_SIGMA_OF_MACHINE)
        self._prior = sigma**2 * self._shares
        self.own = _own_spread(rows, runs)
        self._lines = [_line(row, self.own.sigma**2 * self._shares) for row in rows]

    def p_of(self, index: int) -> float | None:
        """How likely noise alone takes the line so far from what the others share; None where they share nothing.

        1 where it differs from them by less than LEAST_EFFECT, or the other way than it differs from itself before.
        """
        others = [each for number, each in enumerate(self._lines) if number != index]
        return self._p_beside(self._lines[index], others)

    def p_of_all(self, total: Sides) -> float | None:
        """The same of the lines' total, held against what all of them share."""
        return self._p_beside(_line(total, self.own.sigma**2 * self._shares), self._lines)

    def _p_beside(self, line: _Line | None, others: Sequence[_Line | None]) -> float | None:
        if line is None or (found := self._shared_by(others)) is None:
            return None
        shared, variance = found
        beside = line.log_ratio - shared
        if abs(beside) < math.log(1 + LEAST_EFFECT) or beside * line.log_ratio < 0:
            return 1.0
        whole = line.variance + variance
        freedom = self.own.freedom * (whole / line.of_runs) ** 2 if line.of_runs else math.inf
        return two_sided(beside / math.sqrt(whole), freedom)

    def variance_beside(self, index: int) -> float:
        """Variance of what the other lines share, as a logarithm; 0 where they share nothing."""
        found = self._shared_by([each for number, each in enumerate(self._lines) if number != index])
        return found[1] if found else 0.0

    def ratio(self) -> float | None:
        """The change that the lines share, as after / before; None where they share nothing."""
        found = self._shared_by(self._lines)
        return math.exp(found[0]) if found else None

    def _shared_by(self, found: Sequence[_Line | None]) -> tuple[float, float] | None:
        """The logarithm of the change that these lines share, and its variance; None where they share none, or one that is
        more than runs are known to differ by: then it is the program that changed."""
        lines = [each for each in found if each is not None]
        alike = [each for each in lines if abs(each.log_ratio) <= _ALIKE * math.sqrt(self._prior + each.variance)]
        if len(alike) < max(_LEAST_LINES, _LEAST_PART * len(lines)):
            return None
        between = _heterogeneity(alike)
        weights = [1 / (each.variance + between) for each in alike]
        precision = math.fsum(weights) + 1 / self._prior
        mean = math.fsum(weight * each.log_ratio for weight, each in zip(weights, alike, strict=True)) / precision
        return (mean, 1 / precision) if abs(mean) <= _MOST_SHARED * math.sqrt(self._prior) else None


def _heterogeneity(lines: Sequence[_Line]) -> float:
    """Variance of the lines' changes beyond their own (DerSimonian and Laird 1986, equation 8)."""
    weights = [1 / each.variance for each in lines]
    total = math.fsum(weights)
    mean = math.fsum(w * each.log_ratio for w, each in zip(weights, lines, strict=True)) / total
    q = math.fsum(w * (each.log_ratio - mean) ** 2 for w, each in zip(weights, lines, strict=True))
    scale = total - math.fsum(w * w for w in weights) / total
    return max((q - (len(lines) - 1)) / scale, 0.0) if scale > 0 else 0.0


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
