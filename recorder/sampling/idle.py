"""How much of the processors that this process may use is idle."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from ...formats import cgroups

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_IDLE, _IOWAIT = 4, 5  # columns of /proc/stat


class IdleProcessors:
    """Measures from one call to the next."""

    def __init__(self) -> None:
        self._group_files = set(cgroups.files("cpu", "cpu.stat", "cpu.stat"))
        self._before = self._now()

    def since_last(self) -> float:
        """How many processors were idle on average since the last call, or since this object was made; 0 if that is not
        known, or if a quota of a control group has stopped processes."""
        (before_s, idle_before_s, stops_before), self._before = self._before, self._now()
        now_s, idle_s, stops = self._before
        if now_s <= before_s or stops != stops_before:
            return 0.0
        return max(0.0, (idle_s - idle_before_s) / (now_s - before_s))

    def _now(self) -> tuple[float, float, int]:
        """The time, the idle time of all allowed processors (both in seconds), and how often quotas were used up."""
        ours, ticks = {f"cpu{number}" for number in os.sched_getaffinity(0)}, 0
        with suppress(OSError, ValueError, IndexError):
            for row in Path("/proc/stat").read_text().splitlines():
                fields = row.split()
                if fields[0] in ours:
                    ticks += int(fields[_IDLE]) + int(fields[_IOWAIT])
        return time.monotonic(), ticks / _TICKS_PER_S, self._stops()

    def _stops(self) -> int:
        """How often the quotas of the control groups have stopped processes."""
        stops = 0
        for path in self._group_files:
            with suppress(OSError, ValueError, IndexError):
                rows = [row.split() for row in path.read_text().splitlines()]
                stops += sum(int(count) for name, count in rows if name == "nr_throttled")
        return stops
