"""How much of the processors that this process may use is idle."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_IDLE, _IOWAIT = 4, 5  # columns of /proc/stat


class IdleProcessors:
    """Measures from one call to the next."""

    def __init__(self) -> None:
        self._before = self._now()

    def since_last(self) -> float:
        """How many processors were idle on average since the last call, or since this object was made; 0 if that is not
        known."""
        (before_s, idle_before_s), self._before = self._before, self._now()
        now_s, idle_s = self._before
        return max(0.0, (idle_s - idle_before_s) / (now_s - before_s)) if now_s > before_s else 0.0

    def _now(self) -> tuple[float, float]:
        """The time, and the idle time of all allowed processors, in seconds."""
        ours, ticks = {f"cpu{number}" for number in os.sched_getaffinity(0)}, 0
        with suppress(OSError, ValueError, IndexError):
            for row in Path("/proc/stat").read_text().splitlines():
                fields = row.split()
                if fields[0] in ours:
                    ticks += int(fields[_IDLE]) + int(fields[_IOWAIT])
        return time.monotonic(), ticks / _TICKS_PER_S
