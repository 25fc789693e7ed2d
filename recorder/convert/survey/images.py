"""Which images of a recording are those of one process, and whose child it was."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ....formats.spool.layout import constants
from ..keyed.by_key import Ints, index_of, last_by_key
from .lives import Lives

_C = constants()
Flags = npt.NDArray[np.bool_]
#: In place of the row of a process: the recorder, which has waited for the program.
RECORDER = -2


class Images:
    """The images of all processes, a row for each, by process id; ``life``: the row of the process's first image."""

    def __init__(self, lives: Lives) -> None:
        starts, ends = lives.starts.records, lives.process_ends
        self.process, self.thread = lives.starts.process, starts["thread"].astype(np.int64)
        self.pid, self._parent_pid = starts["pid"].astype(np.int64), starts["parent_pid"].astype(np.int64)
        self.t_ns = starts["t_ns"]
        before = index_of(self.process, starts["parent"].astype(np.int64))
        own = np.arange(len(starts))
        self.life = np.where((starts["cause"] == _C["CAUSE_EXEC"]) & (before >= 0) & (before < own), before, own)
        while (further := self.life[self.life] != self.life).any():
            self.life[further] = self.life[self.life][further]
        last = last_by_key(ends.process.astype(np.int64), np.arange(len(ends)))
        row = index_of(self.process, last.keys)
        self._end = np.zeros(len(starts), ends.records.dtype)
        self._end["how"] = _C["END_NONE"]
        self._end[row[row >= 0]] = ends.records[last.values[row >= 0]]

    def last(self) -> Ints:
        """The row of the last image of each process."""
        lives, rows = np.unique(self.life[::-1], return_index=True)
        return len(self.life) - 1 - rows if len(lives) else np.empty(0, np.int64)

    def life_of(self, process: Ints) -> Ints:
        """The life of each process, -1 = its start is not known."""
        row = index_of(self.process, process)
        return np.where(row >= 0, self.life[row], -1)

    def reaped(self, reaped: npt.NDArray[np.void], waiter: Ints) -> Ints:
        """The row of the image that ended, for each record; -1 = none that is recorded. It is the last image with the pid
        that began before, if the parent of its process is the one that waited."""
        count, total = len(self.process), len(self.process) + len(reaped)
        if not count:
            return np.full(len(reaped), -1, np.int64)
        pid = np.concatenate([self.pid, reaped["pid"]])
        order = np.lexsort((np.arange(total) >= count, np.concatenate([self.t_ns, reaped["t_ns"]]), pid))
        begun = np.maximum.accumulate(np.where(order < count, np.arange(total), -1))
        latest = np.empty(total, np.int64)
        latest[order] = np.where(begun >= 0, order[begun], -1)
        image = latest[count:]
        is_own = (waiter >= 0) & (self._parent_pid[self.life[image]] == self.pid[np.maximum(waiter, 0)])
        is_it = (image >= 0) & (self.pid[image] == reaped["pid"]) & ~self.has_end(image, "END_EXEC")
        return np.where(is_it & (is_own | (waiter == RECORDER)), image, -1)

    def has_end(self, rows: Ints, *names: str) -> Flags:
        """True for images with one of these ends."""
        if not len(self.process):
            return np.zeros(len(rows), bool)
        return np.isin(self._end["how"][rows], [_C[name] for name in names])

    def end_ns(self, rows: Ints) -> Ints:
        """User and kernel time in the end records of images (n, 2)."""
        return np.stack([self._end["user_ns"][rows], self._end["system_ns"][rows]], axis=1)

    def earlier_ns(self, rows: Ints) -> Ints:
        """User and kernel time of the earlier images of the same processes (n, 2)."""
        own = np.arange(len(self.process))
        times = np.where(self.has_end(own, "END_EXEC")[:, None], self.end_ns(own), 0)
        return sums(times, self.life, len(own))[self.life[rows]]


def sums(values: Ints, rows: Ints, count: int) -> Ints:
    """The sum of the values (n, k) of each row: (count, k). Negative rows are none."""
    sums = np.zeros((count, values.shape[1]), np.int64)
    np.add.at(sums, rows[rows >= 0], values[rows >= 0])
    return sums
