"""How far each host is from its peers, so that a few odd hosts hide neither themselves nor others.

Hosts that are far from the median, in units of the median absolute deviation, are set aside; each host is then compared with the
mean of the others that remain, by Student's t (a reweighted estimate: Rousseeuw and Leroy 1987; an externally studentized
distance: Cook and Weisberg 1982). The median absolute deviation alone is as uncertain as a standard deviation of 40 % of the hosts.
"""

from __future__ import annotations

import numpy as np

from ...diff.significance import LEAST_SIGMA, quantile
from .judge import Effect
from .units import Flags, Numbers

#: The median of the absolute value of a standard normal variable.
_MEDIAN_OF_NORMAL = 0.67449
#: The distance of one of n hosts from their median, divided by their median absolute deviation, is about as Student's t with so
#: many degrees of freedom for each host (measured with 5 to 100 hosts at probabilities of 5 % to 0.1 %).
_FREEDOM = 0.4
#: A host is set aside if noise explains its distance with a smaller probability than this.
_SET_ASIDE = 0.01


def distances(logs: Numbers, sampling: Numbers) -> tuple[list[Effect], float]:
    """Distances from the peers (logarithms), and the standard deviation between those beyond ``sampling``, which is the variances
    of ``logs``."""
    kept = _ordinary(logs, sampling)
    between = _between(logs[kept], sampling[kept])
    weights = kept / (sampling + between)
    total, count = weights.sum(), kept.sum() - kept
    rest = total - weights
    away = logs - ((weights * logs).sum() - weights * logs) / rest
    # What the host itself adds to the sum of squares of its peers is taken off.
    squares = (weights * _squares(logs, weights)).sum() - weights * away**2 * rest / total
    scale = np.maximum(squares / (count - 1), 1e-6)
    variance = np.maximum(scale * (sampling + between + 1 / rest), sampling + 1 / rest)
    found = [Effect(*row) for row in zip(away.tolist(), variance.tolist(), (count - 1.0).tolist(), strict=True)]
    return found, float(np.sqrt(between))


def _squares(logs: Numbers, weights: Numbers) -> Numbers:
    squares: Numbers = (logs - (weights * logs).sum() / weights.sum()) ** 2
    return squares


def _ordinary(logs: Numbers, sampling: Numbers) -> Flags:
    """Which hosts are not set aside; at least half of them."""
    away = np.abs(logs - np.median(logs))
    low, high = LEAST_SIGMA**2, max(float(away.max()) ** 2 / _MEDIAN_OF_NORMAL**2, 2 * LEAST_SIGMA**2)
    for _ in range(40):  # the variance between hosts with which the median of the distances is that of normal ones
        middle = (low + high) / 2
        if float(np.median(away / np.sqrt(sampling + middle))) > _MEDIAN_OF_NORMAL:
            low = middle
        else:
            high = middle
    found: Flags = away <= quantile(_SET_ASIDE, max(_FREEDOM * len(logs), 1.0)) * np.sqrt(sampling + high)
    return found


def _between(logs: Numbers, sampling: Numbers) -> float:
    """The variance between hosts beyond sampling, by the method of moments; at least LEAST_SIGMA squared."""
    found = LEAST_SIGMA**2
    for _ in range(3):
        weights = 1 / (sampling + found)
        squares = _squares(logs, weights) * len(logs) / (len(logs) - 1)
        found = max(float((weights**2 * (squares - sampling)).sum() / (weights**2).sum()), LEAST_SIGMA**2)
    return found
