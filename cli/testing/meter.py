"""What a test uses while its own function runs, by the clocks and counters of its process."""

from __future__ import annotations

from gc import collect
from resource import RUSAGE_CHILDREN, getrusage
from time import CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, clock_gettime_ns
from types import TracebackType
from typing import NamedTuple

from ...recorder.api import memory, peaks


class Used(NamedTuple):
    """What a test used. Fixtures are not part of it, but setUp and tearDown of unittest are: pytest runs them with the test.

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
    of its time. Tests replace clocks: these were bound before any test, and what replaces clocks everywhere passes them over."""

    def __init__(self, collects: bool) -> None:
        self._collects = collects
        self._used: Used | None = None
        self.moments_ns = (0, 0)

    def __enter__(self) -> Meter:
        if self._collects:
            collect()
        self._memory, self._peak = memory(), [0]
        peaks.append(self._peak)
        self._cpu_s, self._begin_ns = _cpu_s(), clock_gettime_ns(CLOCK_MONOTONIC)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        end_ns, cpu_s = clock_gettime_ns(CLOCK_MONOTONIC), _cpu_s() - self._cpu_s
        self.moments_ns = self._begin_ns, end_ns
        before, after = self._memory, memory()
        peaks[:] = [each for each in peaks if each is not self._peak]
        peak = kept = None
        if before and after:
            peak, kept = max(self._peak[0] - before[0], 0), after[0] - before[0]
            if self._collects:
                collect()
                kept = (memory() or after)[0] - before[0]
        self._used = Used(cpu_s, (end_ns - self._begin_ns) / 1e9, peak, kept)

    def used(self) -> Used:
        """The figures, once the block has ended."""
        assert self._used
        return self._used


def _cpu_s() -> float:
    children = getrusage(RUSAGE_CHILDREN)
    return clock_gettime_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9 + children.ru_utime + children.ru_stime
