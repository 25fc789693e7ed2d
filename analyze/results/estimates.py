"""How uncertain a sum over samples is: bytes of allocations, and seconds of CPU ticks likewise.

The variance that the samples give is 0 where there are none, so it says nothing about what no sample fell on. With the
sampling interval i, the chance that none falls on 3 i bytes is exp(-3) = 5 %. Half of that is added to the standard error:
so two errors of a line without samples reach 3 i, and two errors hold the truth in 95 % of the cases however few samples
there are (docs/design/memory.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable


def unseen_bytes(interval_bytes: float) -> int:
    """What may have been allocated without any sample (95 %), if blocks were sampled at this interval; 0 if all were."""
    return round(3 * interval_bytes) if interval_bytes > 1 else 0


def at_most(size_bytes: float, most_bytes: int | None) -> int:
    """An estimate of what was alive, in whole bytes: at most the footprint, which is counted. None = it is unknown."""
    return round(size_bytes) if most_bytes is None else min(round(size_bytes), most_bytes)


def most_at_end(peaks_bytes: int | None, processes: Iterable[int]) -> int | None:
    """The most that can be alive at the end of the processes of traces with these peaks (together) and numbers of processes.
    It is unknown if a trace has several processes: what was alive at the end of one of them was not there any more at the
    end of another."""
    return peaks_bytes if all(count == 1 for count in processes) else None


def standard_error(variance: float, unseen: float) -> float:
    """The error of a sum with the variance that its samples give, and ``unseen`` bytes that they may lack."""
    return math.sqrt(variance + (unseen / 2) ** 2)
