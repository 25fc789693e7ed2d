"""Tests whether a difference between two sides is more than noise (docs/design/diff.md).

A side is one run or several. A figure of a run is a sum of weights (ticks, sampled bytes). Its sampling variance is the sum
of the squared weights. The variance between runs is added as one relative variance for all rows of a measure. The result is an
over-dispersed (quasi-Poisson) log-ratio (McCullagh and Nelder, Generalized Linear Models, 1989, section 6.2).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

#: Probability of any false alarm when a program is compared with itself, and the smallest relative effect that is reported.
ALPHA, LEAST_EFFECT = 0.01, 0.05
#: Relative standard deviation between runs: the one assumed if no side has two runs, and the lower bound of estimates.
PRIOR_SIGMA, LEAST_SIGMA = 0.03, 0.01
#: Weight of that assumption beside an estimate from runs, in degrees of freedom.
PRIOR_FREEDOM = 4.0
#: The assumed deviation of wall time and waiting time, which depend on the machine's other load.
PRIOR_SIGMA_OF_WAITING = 0.35
#: Degrees of freedom from which on the normal distribution replaces Student's t, and its 97.5 % quantile.
_MANY, _Z_95 = 300, 1.959964
#: A side with fewer samples than this does not show its own sampling variance.
_FEW = 10


@dataclass(frozen=True)
class Figure:
    """A figure of one run, its sampling variance, and the variance that other programs on the machine cause."""

    value: float
    variance: float = 0.0
    by_others: float = 0.0

    def scaled(self, divisor: float) -> Figure:
        """The figure divided by ``divisor``."""
        return Figure(self.value / divisor, self.variance / divisor**2, self.by_others / divisor**2)


def sum_of(figures: Sequence[Figure]) -> Figure:
    """The sum of figures of one run. Other programs affect all of them together, so those deviations add up, not the variances."""
    by_others = math.fsum(math.sqrt(each.by_others) for each in figures) ** 2
    return Figure(math.fsum(each.value for each in figures), math.fsum(each.variance for each in figures), by_others)


@dataclass(frozen=True)
class Side:
    """The figures of one side, one for each run."""

    figures: tuple[Figure, ...]

    @property
    def mean(self) -> float:
        """The mean over the runs."""
        return math.fsum(figure.value for figure in self.figures) / len(self.figures)

    @property
    def variance(self) -> float:
        """Variance of the mean, without the differences between runs."""
        return math.fsum(each.variance + each.by_others for each in self.figures) / len(self.figures) ** 2

    @property
    def spread(self) -> float:
        """Sample variance of the runs; needs two runs or more."""
        mean = self.mean
        return math.fsum((figure.value - mean) ** 2 for figure in self.figures) / (len(self.figures) - 1)


@dataclass(frozen=True)
class Tested:
    """The result of a test: estimate, 95 % interval from ``low`` to ``high``, and p-value.

    The estimate is a ratio (after / before), or a difference if figures may be negative. ``p``: probability of an effect at
    least as large by noise alone, not adjusted for other tests.
    """

    estimate: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class RunSpread:
    """Relative standard deviation between runs and its degrees of freedom (inf: assumed, not estimated)."""

    sigma: float
    freedom: float = math.inf


def spread_of(rows: Iterable[tuple[Side, Side]], prior: float = PRIOR_SIGMA) -> RunSpread:
    """The spread between runs, pooled over rows: the variance of the runs minus the sampling variance (method of moments).

    Rows with many samples have a larger weight. The assumed ``prior`` is blended in with PRIOR_FREEDOM degrees of freedom,
    and is returned alone if no side has two runs. The result is never below LEAST_SIGMA.
    """
    sides = [side for row in rows for side in row if len(side.figures) > 1 and side.mean > 0]
    if not sides:
        return RunSpread(prior)
    sampling = [side.variance * len(side.figures) / side.mean**2 for side in sides]
    excess = [side.spread / side.mean**2 - own for side, own in zip(sides, sampling, strict=True)]
    variance = found = prior**2
    weights: list[float] = []
    for _ in range(3):  # the weights depend on the variance that is estimated
        weights = [(len(side.figures) - 1) / (own + variance) ** 2 for side, own in zip(sides, sampling, strict=True)]
        found = math.fsum(w * each for w, each in zip(weights, excess, strict=True)) / math.fsum(weights)
        variance = max(found, prior**2)
    freedom = variance**2 * math.fsum(weights)
    blended = (PRIOR_FREEDOM * prior**2 + freedom * max(found, 0.0)) / (PRIOR_FREEDOM + freedom)
    return RunSpread(max(math.sqrt(blended), LEAST_SIGMA), PRIOR_FREEDOM + freedom)


def ratio_test(before: Side, after: Side, runs: RunSpread, grain: float) -> Tested:
    """Tests the ratio after / before of figures that are never negative.

    z = ln(B / A) / sqrt(V_A / A² + V_B / B² + sigma² (1 / n_A + 1 / n_B)), where V is the sampling variance of a mean
    (:func:`log_ratio_of`). z is compared with Student's t, with the degrees of freedom of the denominator after Satterthwaite
    (1946).
    """
    sampled = log_ratio_of(before, after, grain)
    if sampled is None:
        return Tested(1.0, 0.0, math.inf, 1.0)
    log_ratio, of_samples = sampled
    of_runs = runs.sigma**2 * sum(1 / len(side.figures) for side in (before, after))
    error, p = _error_and_p(log_ratio, of_samples, of_runs, runs.freedom)
    return Tested(_exp(log_ratio), _exp(log_ratio - error), _exp(log_ratio + error), p)


def log_ratio_of(before: Side, after: Side, grain: float) -> tuple[float, float] | None:
    """ln(after / before) of the means, and its variance by sampling; None if both sides are zero.

    If a side has few samples (of the mean weight ``grain``), half a sample is added to both sides (Haldane 1956, Anscombe
    1956). The sum of squared weights of such a side may be far too small: a line whose only tick weighs half a millisecond,
    at ticks of 10 ms, would otherwise have an error of half a millisecond.
    """
    sides = (before, after)
    least = min(side.mean * len(side.figures) for side in sides)
    half = grain / 2 if least < _FEW * grain else 0.0
    means = [side.mean + half / len(side.figures) for side in sides]
    if min(means) <= 0:
        return None
    variances = [side.variance + half * grain / len(side.figures) ** 2 for side in sides]
    of_samples = sum(variance / mean**2 for variance, mean in zip(variances, means, strict=True))
    return math.log(means[1] / means[0]), of_samples


def difference_test(before: Side, after: Side, runs: RunSpread) -> Tested:
    """Tests the difference after - before of figures that may be negative, with the variances of :func:`ratio_test`."""
    of_samples = before.variance + after.variance
    of_runs = sum(runs.sigma**2 * side.mean**2 / len(side.figures) for side in (before, after))
    difference = after.mean - before.mean
    error, p = _error_and_p(difference, of_samples, of_runs, runs.freedom)
    return Tested(difference, difference - error, difference + error, p)


def _error_and_p(effect: float, of_samples: float, of_runs: float, freedom: float) -> tuple[float, float]:
    """Half the width of the 95 % interval, and the p-value of the effect, from the variances by sampling and between runs."""
    variance = of_samples + of_runs
    if not variance:
        return 0.0, float(effect == 0)
    whole = freedom * (variance / of_runs) ** 2 if of_runs else math.inf
    error = math.sqrt(variance)
    return _quantile_95(whole) * error, two_sided(effect / error, whole)


def spread_test(before: Side, after: Side) -> Tested:
    """Tests the ratio of figures without a sampling error: Student's t on their logarithms. Needs two runs on each side.

    The variance is never taken to be less than the one that other programs cause.
    """
    logs = [[math.log(max(figure.value, 1e-9)) for figure in side.figures] for side in (before, after)]
    sides = [Side(tuple(map(Figure, values))) for values in logs]
    counts = [len(values) for values in logs]
    freedom = sum(counts) - 2
    pooled = sum(side.spread * (n - 1) for side, n in zip(sides, counts, strict=True)) / freedom
    by_others = [each.by_others / max(each.value, 1e-9) ** 2 for side in (before, after) for each in side.figures]
    least = max(LEAST_SIGMA**2, math.fsum(by_others) / len(by_others))
    error = math.sqrt(max(pooled, least) * sum(1 / n for n in counts))
    log_ratio = sides[1].mean - sides[0].mean
    low, high = (_exp(log_ratio + sign * _quantile_95(freedom) * error) for sign in (-1, 1))
    return Tested(_exp(log_ratio), low, high, student(log_ratio / error, freedom))


def _exp(value: float) -> float:
    return math.exp(max(-700.0, min(value, 700.0)))


def two_sided(t: float, freedom: float = math.inf) -> float:
    """Two-sided p-value of ``t``: of Student's t, or of the normal distribution if there are many degrees of freedom."""
    return math.erfc(abs(t) / math.sqrt(2)) if freedom >= _MANY else student(t, max(int(freedom), 1))


def student(t: float, freedom: int) -> float:
    """Two-sided p-value of Student's t for integer degrees of freedom (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4)."""
    angle = math.atan(abs(t) / math.sqrt(freedom))
    cosine, term, total = math.cos(angle), 1.0, 0.0
    first = 1 + freedom % 2
    for k in range(first, freedom, 2):
        total += term
        term *= cosine**2 * k / (k + 1)
    if freedom % 2:
        inside = 2 / math.pi * (angle + (math.sin(angle) * cosine * total if freedom > 1 else 0.0))
    else:
        inside = math.sin(angle) * total
    return max(1 - inside, 0.0)


def _quantile_95(freedom: float) -> float:
    """The value that a deviate exceeds, in either direction, with a probability of 5 %."""
    return _Z_95 if freedom >= _MANY else quantile(0.05, freedom)


def quantile(p: float, freedom: float) -> float:
    """The value that a deviate exceeds, in either direction, with probability ``p``; by bisection."""
    return _quantile(p, min(int(freedom) if math.isfinite(freedom) else _MANY, _MANY))


@cache
def _quantile(p: float, freedom: int) -> float:
    low, high = 0.0, 1e4
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, freedom) > p else (low, middle)
    return high


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted by Holm's method (1979), which bounds the probability of any false alarm among them; same order."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted, highest = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def least_ratio(before: Side, runs: RunSpread, counts: tuple[int, int], alpha: float, shared: float = 0.0) -> float:
    """The smallest increase, as a ratio, that would be distinguished from noise with p < ``alpha`` on a row like ``before``.

    ``counts``: runs on each side. ``shared``: variance of the shared change that the row is compared with.
    """
    sampling = before.variance * len(before.figures) / before.mean**2 if before.mean > 0 else 0.0
    shares = sum(1 / count for count in counts)
    of_runs, variance = runs.sigma**2 * shares, (runs.sigma**2 + sampling) * shares + shared
    whole = runs.freedom * (variance / of_runs) ** 2
    return max(_exp(quantile(alpha, whole) * math.sqrt(variance)), 1 + LEAST_EFFECT)
