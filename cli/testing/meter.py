"""What a test uses while its own function runs, by the clocks and counters of its process."""

from __future__ import annotations

import gc
import resource
import time
from types import TracebackType
from typing import NamedTuple

from ...recorder import memory


class Used(NamedTuple):
    """What a test used. Fixtures are not part of it.

    ``cpu_s``: seconds of CPU time of all threads of the process, and of children that it waited for; ``wall_s``: seconds;
    ``peak_bytes``: how much more was allocated at most than at its begin; ``kept_bytes``: how much more at its end; None
    where memory is not recorded. Memory is that of the test's process, without children.
    """

    cpu_s: float
    wall_s: float
    peak_bytes: int | None
    kept_bytes: int | None


class Meter:
    """Measures its ``with`` block, also one that raises. ``collects``: garbage is collected before and after it, outside
    of its time."""

    def __init__(self, collects: bool) -> None:
        self._collects = collects
        self._used: Used | None = None
        self.moments_ns = (0, 0)

    def __enter__(self) -> Meter:
        if self._collects:
            gc.collect()
        self._memory = memory()
        self._cpu_s, self._begin_ns = _cpu_s(), time.monotonic_ns()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        end_ns, cpu_s = time.monotonic_ns(), _cpu_s() - self._cpu_s
        self.moments_ns = self._begin_ns, end_ns
        before, after = self._memory, memory()
        peak = kept = None
        if before and after:
            peak, kept = max(after[1] - before[0], 0), after[0] - before[0]
            if self._collects:
                gc.collect()
                kept = (memory() or after)[0] - before[0]
        self._used = Used(cpu_s, (end_ns - self._begin_ns) / 1e9, peak, kept)

    def used(self) -> Used:
        """The figures, once the block has ended."""
        assert self._used
        return self._used


def _cpu_s() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
