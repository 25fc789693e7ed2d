"""When a recording that is on for a part of the time is on: one window in each period, at a random place."""

from __future__ import annotations

import os
from collections.abc import Callable


def _draw() -> float:
    """A number from 0 to 1, of the system: the module ``random`` takes 5 ms to load."""
    return int.from_bytes(os.urandom(6), "little") / (1 << 48)


class Cycle:
    """Periods that follow one another from ``start_s`` on. In each, the recording is on for one window. ``next_period`` is called
    at the beginning of each period, and gives its length and that of its window; ``name``: the cause of the pauses.

    A window begins anywhere in its period with the same probability. What reaches over the end is at the beginning of the
    period instead, so that every moment has the same chance to be recorded: nothing that happens at a certain minute, or
    a certain time after the start, is seen always or never, and the hosts of a fleet are not in step. Times are seconds
    of one clock.
    """

    def __init__(
        self,
        name: str,
        next_period: Callable[[], tuple[float, float]],
        start_s: float,
        draw: Callable[[], float] = _draw,
    ) -> None:
        self.name = name
        self._next_period, self._draw = next_period, draw
        self._end_s = start_s
        self._windows: list[tuple[float, float]] = []
        self._begin_period()

    def is_on(self, now_s: float) -> bool:
        """Is the recording on? Call it with times that do not decrease."""
        while now_s >= self._end_s:
            self._begin_period()
        return any(from_s <= now_s < to_s for from_s, to_s in self._windows)

    def left_s(self, now_s: float) -> float:
        """Seconds until that may change."""
        edges = [*(each for window in self._windows for each in window), self._end_s]
        return min(each for each in edges if each > now_s) - now_s if now_s < self._end_s else 0.0

    def _begin_period(self) -> None:
        begin_s, (period_s, window_s) = self._end_s, self._next_period()
        self._end_s = begin_s + period_s
        from_s = begin_s + self._draw() * period_s
        over_s = from_s + window_s - self._end_s
        if over_s <= 0:
            self._windows = [(from_s, from_s + window_s)]
        else:
            self._windows = [(begin_s, begin_s + over_s), (from_s, self._end_s)]
