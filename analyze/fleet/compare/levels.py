"""The level of a cost on each day (or in each version), with hosts as units (docs/design/fleet.md).

The logarithm of a host's cost on a day is level(day) + host + e, where hosts are random and e has a variance by sampling, which
is known, and one of hosts from day to day. The levels are estimated by generalized least squares (Henderson 1975), so that hosts
which come and go change them as little as possible. Variances are estimated by the method of moments.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...diff.significance import LEAST_SIGMA
from .units import Flags, Numbers, Units

_ROUNDS = 4


@dataclass(frozen=True)
class Levels:
    """Logarithms of the levels of the sides, and their covariances. ``freedom``: degrees of freedom of these. ``hosts``,
    ``hosts_spread``: number of hosts of each side; relative standard deviation between hosts."""

    logs: Numbers
    covariance: Numbers
    freedom: float
    hosts: Numbers
    hosts_spread: float


def levels_of(units: Units, line: int) -> Levels | None:
    """The levels of a line on all sides; None if a side has no host that runs it."""
    shape = int(units.hosts.max()) + 1, len(units.sides)
    cells = units.hosts, units.side_numbers
    use = np.zeros(shape, dtype=np.bool_)
    use[cells] = units.runs()[line]
    if not use.any(axis=0).all():
        return None
    grain = float(units.grains[line])
    exposure = np.ones(shape)
    exposure[cells] = units.exposure
    values = np.zeros(shape)
    values[cells] = units.values[line]
    # Half a sample keeps the logarithm without bias where samples are few (Haldane 1956), and finite where there are none.
    logs = np.where(use, np.log(np.maximum(values + grain / 2, 1e-300) / exposure), 0.0)
    return _fitted(logs, exposure, grain, use)


def _fitted(logs: Numbers, exposure: Numbers, grain: float, use: Flags) -> Levels:
    of_hosts, of_cells = 0.01, LEAST_SIGMA**2
    freedom = float(use.sum() - use.any(axis=1).sum() - use.shape[1] + 1)
    level, host = (logs * use).sum(axis=0) / use.sum(axis=0), np.zeros(len(use))
    covariance = np.eye(use.shape[1])
    for _ in range(_ROUNDS):
        expected = exposure * np.exp(np.clip(level[None, :] + host[:, None], -700, 700))
        sampling = np.where(use, grain / expected, 0.0)
        if freedom >= use.shape[1]:
            of_cells = max(_of_cells(logs, sampling, use, of_cells, freedom), LEAST_SIGMA**2)
            of_hosts = _of_hosts(logs, sampling, use, of_cells)
        else:  # hosts have a day each: what they differ by cannot be told from what days differ by
            of_hosts = 0.0
            within = np.where(use, (logs - level) ** 2, 0.0).sum() / max(use.sum() - use.shape[1], 1)
            of_cells = max(float(within - sampling[use].mean()), LEAST_SIGMA**2)
        weights = use / (sampling + of_cells)
        shrink = of_hosts / (1 + of_hosts * weights.sum(axis=1))
        normal = np.diag(weights.sum(axis=0)) - (weights * shrink[:, None]).T @ weights
        right = (weights * logs).sum(axis=0) - weights.T @ (shrink * (weights * logs).sum(axis=1))
        covariance = np.linalg.inv(normal)
        level = covariance @ right
        host = shrink * (weights * (logs - level)).sum(axis=1)
    if freedom < use.shape[1]:
        freedom = max(float(use.sum() - use.shape[1]), 1.0)
    return Levels(level, covariance, freedom, use.sum(axis=0).astype(np.float64), float(np.sqrt(of_hosts)))


def _two_way(logs: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
    """Residuals and effects of hosts of a fit with fixed effects of hosts and days."""
    day, host = np.zeros(logs.shape[1]), np.zeros(len(logs))
    by_day, by_host = np.maximum(weights.sum(axis=0), 1e-300), np.maximum(weights.sum(axis=1), 1e-300)
    for _ in range(20):
        day = (weights * (logs - host[:, None])).sum(axis=0) / by_day
        host = (weights * (logs - day)).sum(axis=1) / by_host
    return logs - day - host[:, None], host


def _of_cells(logs: Numbers, sampling: Numbers, use: Flags, guess: float, freedom: float) -> float:
    """Variance of a host from day to day beyond sampling."""
    weights = use / (sampling + guess)
    residuals, _ = _two_way(logs, weights)
    squares = residuals**2 * use.sum() / freedom
    precise = weights**2
    return float((precise * (squares - sampling)).sum() / precise.sum())


def _of_hosts(logs: Numbers, sampling: Numbers, use: Flags, of_cells: float) -> float:
    """Variance between hosts beyond what days and sampling explain."""
    weights = use / (sampling + of_cells)
    _, hosts = _two_way(logs, weights)
    seen = use.any(axis=1)
    noise = 1 / weights.sum(axis=1)[seen]
    return max(float(hosts[seen].var(ddof=1) - noise.mean()), 0.0) if seen.sum() > 1 else 0.0
