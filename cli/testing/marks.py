"""A user mark for each test: its name, begin and end, sent to the recorder a few at a time."""

from __future__ import annotations

from time import CLOCK_MONOTONIC, clock_gettime

from ...recorder.api import set_marks

#: Seconds and marks after which they are sent: what a test that kills its process takes along.
_LONGEST_S, _MOST = 1.0, 100


class Marks:
    """Collects marks. They are sent between two tests: a test may have taken sockets away."""

    def __init__(self) -> None:
        self._kept: list[tuple[object, int, int]] = []
        self._sent_s = clock_gettime(CLOCK_MONOTONIC)

    def add(self, name: str, begin_ns: int, end_ns: int) -> None:
        """A test that ran from ``begin_ns`` to ``end_ns`` (``time.monotonic_ns()``)."""
        self._kept.append((name, begin_ns, end_ns))

    def send_if_due(self) -> None:
        """Sends what there is, unless that was done a moment ago."""
        if len(self._kept) >= _MOST or clock_gettime(CLOCK_MONOTONIC) - self._sent_s > _LONGEST_S:
            self.send()

    def send(self) -> None:
        """Sends what there is."""
        set_marks(self._kept)
        self._kept.clear()
        self._sent_s = clock_gettime(CLOCK_MONOTONIC)
