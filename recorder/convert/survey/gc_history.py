"""How many garbage collections a process had made when another one was forked from it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ....formats.spool.reader import Bulk
from .columns import Ints
from .starts import Lineage

#: With more rows than this, the history is thinned. A row takes 56 bytes, and a piece as much as so many rows beside its own.
_MOST_ROWS, _ROWS_OF_PIECE, _ROW_BYTES = 200_000, 3, 56
_FIRST_INTERVAL_NS = 1_000_000_000
_COUNTERS = 5


def counters_of(records: npt.NDArray[np.void]) -> Ints:
    """The five counters of each record: collections of the three generations, objects that were collected and that could
    not be."""
    columns = [records["collections"], records["collected"], records["uncollectable"]]
    counters: Ints = np.minimum(np.column_stack(columns), np.iinfo(np.int64).max).astype(np.int64)
    return counters


class GcHistory:
    """The counters of each process over time. In a long recording only the last record of each interval is kept, of a
    second at first and then of twice as much again and again: a fork then inherits the counters of a little earlier."""

    def __init__(self) -> None:
        self._rows = np.empty((0, 2 + _COUNTERS), np.int64)
        self._waiting: list[Ints] = []
        self._count = 0
        self._most = _MOST_ROWS
        self._interval_ns = _FIRST_INTERVAL_NS

    def add(self, bulk: Bulk) -> None:
        """Adds the records of a batch."""
        if not len(bulk):
            return
        self._waiting.append(np.column_stack([bulk.process, bulk.records["t_ns"], counters_of(bulk.records)]))
        self._count += len(bulk) + _ROWS_OF_PIECE
        if self._count > self._most:
            self._thin()

    @property
    def nbytes(self) -> int:
        """Its size in memory, about."""
        return self._count * _ROW_BYTES

    def inherited(self, process: int, lineage: Lineage) -> Ints:
        """The counters that the process had when it was forked; zeros if it was not."""
        parents, started_ns, seen = lineage.forked_from, lineage.started_ns, set[int]()
        self._merge()
        while (parent := parents.one(process)) and process not in seen:
            seen.add(process)
            rows = self._of(parent)
            before = rows[rows[:, 1] <= started_ns.one(process)]
            if len(before):
                counters: Ints = before[:, 2:].max(axis=0)
                return counters
            process = parent
        return np.zeros(_COUNTERS, np.int64)

    def _of(self, process: int) -> Ints:
        first, end = np.searchsorted(self._rows[:, 0], [process, process + 1])
        rows: Ints = self._rows[first:end]
        return rows

    def _merge(self) -> None:
        """Sorts all rows by process, then time."""
        if self._waiting:
            rows = np.concatenate([self._rows, *self._waiting])
            self._waiting.clear()
            self._rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]

    def _thin(self) -> None:
        self._merge()
        for _ in range(20):
            if len(self._rows) <= _MOST_ROWS // 2:
                break
            slot = self._rows[:, 1] // self._interval_ns
            is_last = (np.diff(self._rows[:, 0], append=-1) != 0) | (np.diff(slot, append=-1) != 0)
            self._rows = self._rows[is_last]
            self._interval_ns *= 2
        self._count = len(self._rows)
        self._most = max(_MOST_ROWS, 2 * self._count)  # each process keeps a row
