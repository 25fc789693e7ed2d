"""The time bins of the page. A window of the page is a range of bins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..report.timeline import Event

#: The most bins of a page. Because widths are rounded up, a page has at least two fifths as many.
MAX_BINS = 2_000
#: Widths are these, times a power of ten, so that the edges of a window are short numbers that can be typed.
_STEPS = (1, 2, 5)
#: The least width in ns: half a tick at the shortest usual sampling interval.
_LEAST_NS = 10_000


@dataclass(frozen=True)
class Bins:
    """``count`` bins of ``width_ns`` each, beginning at ``origin_ns`` (ns from the start of the recording)."""

    origin_ns: int
    width_ns: int
    count: int

    @property
    def parameters(self) -> dict[str, int]:
        """The parameters of the queries binned_*.sql."""
        return {"origin_ns": self.origin_ns, "bin_ns": self.width_ns, "bins": self.count}

    def edge_ns(self, index: int) -> int:
        """The time at which bin ``index`` begins, in ns."""
        return self.origin_ns + index * self.width_ns


def bins_for(from_ns: int, to_ns: int, most: int = MAX_BINS) -> Bins:
    """One to ``most`` bins that cover the time from ``from_ns`` to ``to_ns``."""
    length_ns = max(to_ns - from_ns, 1)
    width_ns = next(width for width in _widths() if width * most >= length_ns)
    return Bins(from_ns, width_ns, -(-length_ns // width_ns))


def _widths() -> Iterator[int]:
    power = _LEAST_NS
    while True:
        yield from (step * power for step in _STEPS)
        power *= 10


def highest(events: Sequence[Event], bins: Bins) -> list[Event]:
    """The highest value during each bin, and the time at which it is first reached: (ns, bytes) by bin.

    ``events`` are values that hold until the next one, in order of time; the value before the first is 0.
    """
    found: list[Event] = []
    held, at = 0, 0
    while at < len(events) and events[at][0] < bins.origin_ns:
        held, at = events[at][1], at + 1
    for index in range(bins.count):
        is_last = index == bins.count - 1
        best: Event = (bins.edge_ns(index), held)
        while at < len(events) and (is_last or events[at][0] < bins.edge_ns(index + 1)):
            held = events[at][1]
            best = events[at] if held > best[1] else best
            at += 1
        found.append(best)
    return found
