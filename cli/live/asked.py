"""What the command line asks for, and the readings that answer it, one after the other."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ...analyze.trace.selection import Selection
from ...formats.errors import TraceError
from .following import Following, Status
from .reading import Reading, read

#: A snapshot takes a processor from the program's machine: pauses are at least so many times as long.
_TIMES_AS_LONG = 4
#: A trace that is replaced while it is read is read again, so often.
_TRIES = 3


@dataclass(frozen=True)
class Asked:
    """``view``: a key of :data:`.tables.VIEWS`; ``window_s``: seconds before now that figures are of, None = all; ``limit``:
    the most rows; ``text``: what rows must have in their names."""

    view: str
    window_s: float | None
    refresh_s: float
    selection: Selection
    sort: str | None
    limit: int
    text: str


class Readings:
    """Takes readings of a recording. ``pause_s``: seconds until the next one should be taken."""

    def __init__(self, asked: Asked, following: Following) -> None:
        self.pause_s = asked.refresh_s
        self._asked, self._following = asked, following
        self._last: tuple[object, Reading] | None = None

    def take(self, window_s: float | None, view: str) -> Reading:
        """A reading of now. Raises ControlError and what opening a trace raises."""
        begun_s = time.monotonic()
        try:
            return self._of(self._following.take(), window_s, view)
        finally:
            self.pause_s = max(self._asked.refresh_s, _TIMES_AS_LONG * (time.monotonic() - begun_s))

    def again(self, window_s: float | None, view: str) -> Reading | None:
        """The last snapshot, read for another view or window, without a new one; None = there is none."""
        return self._of(self._last[1].status, window_s, view) if self._last else None

    def _of(self, status: Status, window_s: float | None, view: str) -> Reading:
        of = (status, window_s, view)
        if self._last is None or self._last[0] != of:
            self._last = of, self._read(status, window_s, view)
        return self._last[1]

    def _read(self, status: Status, window_s: float | None, view: str) -> Reading:
        for left in reversed(range(_TRIES)):
            try:
                return read(status, self._asked.selection, window_s, view)
            except TraceError:  # another snapshot may have replaced it
                if not left:
                    raise
                time.sleep(0.1)
        raise AssertionError
