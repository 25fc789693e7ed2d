"""Is a difference between two sides more than noise? (docs/design/diff.md)

A side is one run or several. A figure of a run is a sum of weights (ticks, sampled bytes) and comes with the variance
that the sampling gives it: the sum of the squares of the weights. To that comes what differs from run to run, as one
relative variance for all rows of a measure. Both together: an over-dispersed (quasi-Poisson) log-ratio.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: Chance that a comparison of a program with itself has a false alarm in it, and effects that are never called one.
ALPHA, LEAST_EFFECT = 0.01, 0.05
#: Relative standard deviation from run to run: assumed where no side has two runs, and never taken to be less than.
PRIOR_SIGMA, LEAST_SIGMA = 0.03, 0.01
#: As much as that assumption counts where runs tell something.
PRIOR_FREEDOM = 4.0
#: The same of wall time and waiting, which depend on what else the machine does.
PRIOR_SIGMA_OF_WAITING = 0.35
#: Where the normal distribution is as good as Student's, and its 97.5 % quantile.
_MANY, _Z_95 = 300, 1.959964


@dataclass(frozen=True)
class Figure:
    """A figure of one run, the variance that sampling gives it, and the one that other programs on the machine do."""

    value: float
    variance: float = 0.0
    by_others: float = 0.0

    def scaled(self, divisor: float) -> Figure:
        """The figure over ``divisor``."""
        return Figure(self.value / divisor, self.variance / divisor**2, self.by_others / divisor**2)


def sum_of(figures: Sequence[Figure]) -> Figure:
    """Figures of one run added up. What others do, they do to all of them at once."""
    by_others = math.fsum(math.sqrt(each.by_others) for each in figures) ** 2
    return Figure(math.fsum(each.value for each in figures), math.fsum(each.variance for each in figures), by_others)


@dataclass(frozen=True)
class Side:
    """The figures of the runs of a side."""

    figures: tuple[Figure, ...]

    @property
    def mean(self) -> float:
        return math.fsum(figure.value for figure in self.figures) / len(self.figures)

    @property
    def variance(self) -> float:
        """Variance of the mean but for what differs from run to run."""
        return math.fsum(each.variance + each.by_others for each in self.figures) / len(self.figures) ** 2

    @property
    def spread(self) -> float:
        """Variance of the runs as they are; two runs or more."""
        mean = self.mean
        return math.fsum((figure.value - mean) ** 2 for figure in self.figures) / (len(self.figures) - 1)


@dataclass(frozen=True)
class Tested:
    """A difference: what there is of it, in which interval it lies (95 %), how likely noise alone does as much.

    Of a ratio (after / before), or where figures may be negative of a difference; ``p`` is of this test alone.
    """

    estimate: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class RunSpread:
    """Relative standard deviation from run to run, and the degrees of freedom that it is known with (inf: assumed)."""

    sigma: float
    freedom: float = math.inf


def spread_of(rows: Iterable[tuple[Side, Side]], prior: float = PRIOR_SIGMA) -> RunSpread:
    """The spread from run to run, pooled over rows: that of the runs less what sampling explains.

    Rows with many samples count for more. The assumed ``prior`` counts like PRIOR_FREEDOM degrees of freedom beside it,
    and is all there is where no side has two runs. Never below LEAST_SIGMA.
    """
    sides = [side for row in rows for side in row if len(side.figures) > 1 and side.mean > 0]
    if not sides:
        return RunSpread(prior)
    sampling = [side.variance * len(side.figures) / side.mean**2 for side in sides]
    excess = [side.spread / side.mean**2 - own for side, own in zip(sides, sampling, strict=True)]
    variance = found = prior**2
    weights: list[float] = []
    for _ in range(3):  # the weights depend on what is looked for
        weights = [(len(side.figures) - 1) / (own + variance) ** 2 for side, own in zip(sides, sampling, strict=True)]
        found = math.fsum(w * each for w, each in zip(weights, excess, strict=True)) / math.fsum(weights)
        variance = max(found, prior**2)
    freedom = variance**2 * math.fsum(weights)
    blended = (PRIOR_FREEDOM * prior**2 + freedom * max(found, 0.0)) / (PRIOR_FREEDOM + freedom)
    return RunSpread(max(math.sqrt(blended), LEAST_SIGMA), PRIOR_FREEDOM + freedom)


def ratio_test(before: Side, after: Side, runs: RunSpread, grain: float) -> Tested:
    """The ratio after / before of figures that are never negative.

    z = ln(B / A) / sqrt(V_A / A² + V_B / B² + sigma² (1 / n_A + 1 / n_B)), V being the variance of a mean by sampling;
    Student's t, with the degrees of freedom of the whole after Satterthwaite. Where a side is zero, half a sample (of
    ``grain``) is added to both.
    """
    sides = (before, after)
    half = grain / 2 if min(side.mean for side in sides) <= 0 else 0.0
    means = [side.mean + half / len(side.figures) for side in sides]
    if min(means) <= 0:
        return Tested(1.0, 0.0, math.inf, 1.0)
    of_runs = runs.sigma**2 * sum(1 / len(side.figures) for side in sides)
    of_samples = sum(
        (side.variance + half * grain / len(side.figures) ** 2) / mean**2
        for side, mean in zip(sides, means, strict=True)
    )
    log_ratio = math.log(means[1] / means[0])
    error, p = _error_and_p(log_ratio, of_samples, of_runs, runs.freedom)
    return Tested(means[1] / means[0], _exp(log_ratio - error), _exp(log_ratio + error), p)


def difference_test(before: Side, after: Side, runs: RunSpread) -> Tested:
    """The difference after - before of figures that may be negative, with the same variances."""
    of_samples = before.variance + after.variance
    of_runs = sum(runs.sigma**2 * side.mean**2 / len(side.figures) for side in (before, after))
    difference = after.mean - before.mean
    error, p = _error_and_p(difference, of_samples, of_runs, runs.freedom)
    return Tested(difference, difference - error, difference + error, p)


def _error_and_p(effect: float, of_samples: float, of_runs: float, freedom: float) -> tuple[float, float]:
    """Half the width of the 95 % interval, and the chance of an effect that large, from the two variances."""
    variance = of_samples + of_runs
    if not variance:
        return 0.0, float(effect == 0)
    whole = freedom * (variance / of_runs) ** 2 if of_runs else math.inf
    error = math.sqrt(variance)
    return _quantile_95(whole) * error, two_sided(effect / error, whole)


def spread_test(before: Side, after: Side) -> Tested:
    """The ratio of figures without a sampling error, two runs or more on each side: Student's t on their logarithms.

    Their spread is taken to be no less than what others may have done to them.
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
    """Chance that a deviate is at least that far from 0: of Student's t, from many degrees of freedom on of the normal."""
    return math.erfc(abs(t) / math.sqrt(2)) if freedom >= _MANY else student(t, max(int(freedom), 1))


def student(t: float, freedom: int) -> float:
    """Chance that Student's t is at least that far from 0, with a whole number of degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
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
    """How far from 0 a deviate is with a chance of 5 %."""
    return _Z_95 if freedom >= _MANY else _quantile(0.05, freedom)


def _quantile(p: float, freedom: float) -> float:
    """How far from 0 a deviate is with the chance ``p``, by bisection."""
    low, high = 0.0, 1e4
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, freedom) > p else (low, middle)
    return high


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted by Holm's method: the chance of one false alarm among all of them stays below any of them."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted, highest = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def least_ratio(before: Side, runs: RunSpread, counts: tuple[int, int], alpha: float, shared: float = 0.0) -> float:
    """The smallest increase, as a ratio, that would be told from noise with p < ``alpha`` on a row like ``before``.

    ``shared``: variance of what it is held against.
    """
    sampling = before.variance * len(before.figures) / before.mean**2 if before.mean > 0 else 0.0
    shares = sum(1 / count for count in counts)
    of_runs, variance = runs.sigma**2 * shares, (runs.sigma**2 + sampling) * shares + shared
    whole = runs.freedom * (variance / of_runs) ** 2
    return max(_exp(_quantile(alpha, whole) * math.sqrt(variance)), 1 + LEAST_EFFECT)
