"""Which images of a recording are those of one process, and whose child it was."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ....formats.spool.layout import constants
from ..keyed.by_key import Ints, index_of, last_by_key
from .lives import Lives

_C = constants()
Flags = npt.NDArray[np.bool_]


class Images:
    """The images of all processes, a row for each, by process id; ``life``: the row of the process's first image."""

    def __init__(self, lives: Lives) -> None:
        starts, ends = lives.starts.records, lives.process_ends
        self.process, self.thread = lives.starts.process, starts["thread"].astype(np.int64)
        self.pid, self._parent_pid = starts["pid"].astype(np.int64), starts["parent_pid"].astype(np.int64)
        self.t_ns, self._cause = starts["t_ns"], starts["cause"]
        self._parent, self.namespace = starts["parent"].astype(np.int64), starts["pid_namespace"].astype(np.int64)
        before = index_of(self.process, self._parent)
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

    def row_of(self, process: Ints) -> Ints:
        """The row of each image, -1 = its start is not known."""
        return index_of(self.process, process)

    def life_of(self, process: Ints) -> Ints:
        """The life of each image, -1 = its start is not known."""
        row = self.row_of(process)
        return np.where(row >= 0, self.life[row], -1)

    def reaped(self, reaped: npt.NDArray[np.void], waiter: Ints) -> Ints:
        """The row of the image that ended, for each record; -1 = none that is recorded. ``waiter``: the row of the image that
        has waited; negative = unknown. It is the last image with the pid that began before, in the pid namespace of
        the waiter, if the waiter is its parent."""
        count, total = len(self.process), len(self.process) + len(reaped)
        if not count:
            return np.full(len(reaped), -1, np.int64)
        known = np.maximum(waiter, 0)
        pid = np.concatenate([self.pid, reaped["pid"]])
        namespace = np.concatenate([self.namespace, self.namespace[known]])
        is_wait = np.arange(total) >= count
        order = np.lexsort((is_wait, np.concatenate([self.t_ns, reaped["t_ns"]]), pid, namespace))
        begun = np.maximum.accumulate(np.where(is_wait[order], -1, np.arange(total)))
        latest = np.empty(total, np.int64)
        latest[order] = np.where(begun >= 0, order[begun], -1)
        image = latest[count:]
        first = self.life[image]
        is_forked = (self._cause[first] == _C["CAUSE_FORK"]) & (self.life_of(self._parent[first]) == self.life[known])
        is_child = is_forked | (self._parent_pid[first] == self.pid[known])
        is_it = (image >= 0) & (self.pid[image] == reaped["pid"]) & (self.namespace[image] == self.namespace[known])
        return np.where(is_it & is_child & (waiter >= 0) & ~self.has_end(image, "END_EXEC"), image, -1)

    def root(self, pid: int) -> int:
        """The row of the program's last image, if it has the pid; -1 = it has another one, or is not recorded."""
        rows = self.last()
        first = self.life[rows]
        found = rows[
            (self._cause[first] == _C["CAUSE_ROOT"]) & (self.pid[rows] == pid) & ~self.has_end(rows, "END_EXEC")
        ]
        return int(found[0]) if len(found) else -1

    def has_end(self, rows: Ints, *names: str) -> Flags:
        """True for images with one of these ends."""
        if not len(self.process):
            return np.zeros(len(rows), bool)
        return np.isin(self._end["how"][rows], [_C[name] for name in names])

    def ended_at(self, rows: Ints) -> Ints:
        """The time of the end records of images (CLOCK_MONOTONIC)."""
        found: Ints = self._end["t_ns"][rows]
        return found

    def end_ns(self, rows: Ints) -> Ints:
        """User and kernel time in the end records of images (n, 2)."""
        return np.stack([self._end["user_ns"][rows], self._end["system_ns"][rows]], axis=1)
