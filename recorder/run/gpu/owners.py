"""Which recorded process a GPU sample belongs to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

#: A row of the GPU file, as GPU_STRUCT packs it. Until its owner is known, a row of one process has a pid in place of the
#: process id.
Row = tuple[int, int, int, int, int, int, bool, bool]

#: How long rows are kept of a process that is not known to be recorded.
_UNKNOWN_NS = 10_000_000_000
_MOST_UNKNOWN = 20_000


class Owners:
    """Assigns rows to recorded processes. ``ids``: process id of each pid of the recording.

    A row of an unknown process is kept for some seconds: the start of a process may be noticed after its first work.
    """

    def __init__(self, pids: Callable[[], dict[int, int]]) -> None:
        self.ids: dict[int, int] = {}
        self._pids = pids
        self._waiting: deque[tuple[int, Row]] = deque(maxlen=_MOST_UNKNOWN)
        self._strangers: set[int] = set()

    def learn(self) -> None:
        """Adds the processes that have started since the last call."""
        self.ids |= self._pids()
        while len(self.ids) > _MOST_UNKNOWN:
            del self.ids[next(iter(self.ids))]

    def owned(self, rows: list[Row], now_ns: int) -> list[Row]:
        """Those of ``rows``, and of earlier ones, whose process is known, with its id in place of its pid."""
        found, later = [], deque[tuple[int, Row]](maxlen=_MOST_UNKNOWN)
        for until_ns, row in (*self._waiting, *((now_ns + _UNKNOWN_NS, row) for row in rows)):
            pid, is_whole = row[4], row[6]
            if is_whole:
                found.append(row)
            elif pid in self.ids:
                found.append((*row[:4], self.ids[pid], *row[5:]))
            elif now_ns < until_ns and pid not in self._strangers:
                later.append((until_ns, row))
            else:
                self._strangers.add(pid)
        self._waiting = later
        return found
