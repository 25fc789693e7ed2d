"""What a recording says of the life of each process and thread: of a hundred thousand of each, perhaps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ....formats.dataclass import dataclass
from ....formats.spool.reader import Bulk
from ..keyed.by_key import ByKey, last_by_key
from .starts import Starts


@dataclass(frozen=True)
class Lives:
    """``starts``: start records of the processes; ``process_ends``, ``reaped``, ``thread_starts``, ``thread_ends``,
    ``thread_names``: other records, by time; ``processes_seen``, ``threads_seen``: earliest time of each process, and of
    each process << 32 | thread; ``first_clock``: CPU clock of each thread's earliest tick; ``last_clock``: its highest CPU
    clock. Times are those of the spool: CLOCK_MONOTONIC in nanoseconds."""

    starts: Starts
    process_ends: Bulk
    reaped: Bulk
    thread_starts: npt.NDArray[np.void]
    thread_ends: npt.NDArray[np.void]
    thread_names: npt.NDArray[np.void]
    processes_seen: ByKey
    threads_seen: ByKey
    first_clock: ByKey
    last_clock: ByKey

    def clocks(self) -> ByKey:
        """Each thread's CPU clock (ns) when its recording began; where the start record is missing, the clock of its first
        tick."""
        starts, first = self.thread_starts, self.first_clock
        threads = np.concatenate([first.keys, starts["thread"].astype(np.int64)])
        return last_by_key(threads, np.concatenate([first.values, starts["cpu_start_ns"]]))
