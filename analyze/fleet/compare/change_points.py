"""Finds the days at which a level changed (docs/design/fleet.md).

Binary segmentation (Scott and Knott 1974; Vostrikova 1981) over all data at once: the step that explains most is added, as long as
it is significant among all places where it could be, and steps that a later one explains are removed. Levels of days may be
correlated, because they share hosts, so that steps are estimated by generalized least squares. Days differ by more than hosts show
(the load of all of them): that is measured by the mean square successive difference (von Neumann 1941), which a few steps hardly
change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...diff.significance import ALPHA, two_sided
from .judge import Effect
from .levels import Levels
from .units import Numbers

#: From so many days on, it is estimated by how much days differ beyond their hosts.
LEAST_DAYS = 8


@dataclass(frozen=True)
class Step:
    """The level is another one from the side ``index`` on. ``p``: adjusted for the number of places where a step could be."""

    index: int
    effect: Effect
    p: float


@dataclass(frozen=True)
class Noise:
    """Covariance of the levels with what days differ by, and its degrees of freedom. ``spread``: relative standard deviation
    that all hosts of a day share."""

    covariance: Numbers
    freedom: float
    spread: float


def noise_of(levels: Levels) -> Noise:
    """The noise of the levels; of few days, only that of the hosts."""
    count = len(levels.logs)
    if count < LEAST_DAYS:
        return Noise(levels.covariance, levels.freedom, 0.0)
    steps = np.diff(levels.logs)
    cov = levels.covariance
    by_hosts = np.diag(cov)[1:] + np.diag(cov)[:-1] - 2 * np.diag(cov, 1)
    shared = float((steps**2).mean() - by_hosts.mean()) / 2
    if shared <= 0:
        return Noise(cov, levels.freedom, 0.0)
    freedom = 2 * (count - 1) ** 2 / (3 * count - 4)
    return Noise(cov + shared * np.eye(count), min(freedom, levels.freedom), math.sqrt(shared))


def steps_of(levels: Levels, least: int = 2, tests: int = 1) -> list[Step]:
    """The steps, in order. ``least``: the fewest days between two of them; ``tests``: number of series that are searched, for all
    of which together the probability of a false alarm is ALPHA."""
    noise = noise_of(levels)
    count = len(levels.logs)
    candidates = list(range(least, count - least + 1))
    if not candidates:
        return []
    whiten = np.linalg.inv(np.linalg.cholesky(noise.covariance))
    series = whiten @ levels.logs
    shapes = {index: whiten @ (np.arange(count) >= index) for index in candidates}
    base = whiten @ np.ones(count)
    tries = len(candidates) * tests
    chosen: list[int] = []
    while True:
        free = [each for each in candidates if all(abs(each - other) >= least for other in chosen)]
        found = _most_explaining(series, base, shapes, chosen, free)
        if found is None or tries * two_sided(found[1], noise.freedom) >= ALPHA:
            break
        chosen = sorted([*chosen, found[0]])
        chosen = [step.index for step in _steps(series, base, shapes, chosen, noise.freedom, tries) if step.p < ALPHA]
        if found[0] not in chosen:
            break
    return [step for step in _steps(series, base, shapes, chosen, noise.freedom, tries) if step.effect.matters]


def _most_explaining(
    series: Numbers, base: Numbers, shapes: dict[int, Numbers], chosen: list[int], free: list[int]
) -> tuple[int, float] | None:
    """The step whose addition explains most, and its size in standard errors."""
    if not free:
        return None
    basis, _ = np.linalg.qr(np.column_stack([base, *(shapes[each] for each in chosen)]))
    rest = series - basis @ (basis.T @ series)
    steps = np.column_stack([shapes[each] for each in free])
    steps = steps - basis @ (basis.T @ steps)
    lengths = np.sqrt((steps**2).sum(axis=0))
    sizes = np.abs(steps.T @ rest) / np.maximum(lengths, 1e-12)
    best = int(np.argmax(sizes))
    return free[best], float(sizes[best])


def _steps(
    series: Numbers, base: Numbers, shapes: dict[int, Numbers], chosen: list[int], freedom: float, tries: int
) -> list[Step]:
    """The steps with their sizes when all are fitted together."""
    design = np.column_stack([base, *(shapes[each] for each in chosen)])
    inverse = np.linalg.inv(design.T @ design)
    sizes = inverse @ (design.T @ series)
    found = []
    for number, index in enumerate(chosen, start=1):
        effect = Effect(float(sizes[number]), float(inverse[number, number]), freedom)
        found.append(Step(index, effect, min(tries * effect.p, 1.0)))
    return found
