"""How uncertain a sum over samples is: bytes of allocations, and seconds of CPU ticks likewise.

The variance that the samples give is 0 where there are none, so it says nothing about what no sample fell on. With the
sampling interval i, the chance that none falls on 3 i bytes is exp(-3) = 5 %. Half of that is added to the standard error:
so two errors of a line without samples reach 3 i, and two errors hold the truth in 95 % of the cases however few samples
there are (docs/design/memory.md).
"""

from __future__ import annotations

import math


def unseen_bytes(interval_bytes: float) -> int:
    """What may have been allocated without any sample (95 %), if blocks were sampled at this interval; 0 if all were."""
    return round(3 * interval_bytes) if interval_bytes > 1 else 0


def standard_error(variance: float, unseen: float) -> float:
    """The error of a sum with the variance that its samples give, and ``unseen`` bytes that they may lack."""
    return math.sqrt(variance + (unseen / 2) ** 2)
