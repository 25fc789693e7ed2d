"""Measures what a recording costs while it runs: CPU time of the recorder and of the program, and records."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from ...formats.spool.chunks import CHUNK_BYTES, SLOT_BYTES
from ...formats.spool.layout import constants, ffi
from ..control.budget import Spent
from ..option_values import SHORTEST_INTERVAL_NS
from ..spool.spool_file import SpoolFile

_C = constants()
_SLOTS = CHUNK_BYTES // SLOT_BYTES


class Spending:
    """``pids``: gives those of processes that were started, each with the id of its last image."""

    def __init__(self, space: SpoolFile, pids: Callable[[], Mapping[int, int]]) -> None:
        self._space, self._pids = space, pids
        self._program_s = 0.0
        self._clocks: dict[int, float] = {}
        self._ended: dict[int, int] = {}  # as ``pids`` gives them: another program's process may get the pid
        self._records = 0
        self._cursors: dict[int, tuple[int, int, int, bool]] = {}  # chunk → offer, process, cursor, is it closed?

    def look(self) -> Spent:
        """The sums until now."""
        self._add_processes()
        self.count_records()
        interval_s = max(int(self._space.header.cpu_interval_ns), SHORTEST_INTERVAL_NS) / 1e9
        return Spent(time.monotonic(), self._program_s, time.process_time(), self._records, interval_s)

    def _add_processes(self) -> None:
        pids = self._pids()
        for pid, process in pids.items():
            if self._ended.get(pid) == process:
                continue
            try:
                used_s = time.clock_gettime(~pid << 3 | 2)  # the CPU clock of a process, clock_getcpuclockid(3)
            except OSError:
                self._clocks.pop(pid, None)
                self._ended[pid] = process
                continue
            # Another process may have the pid now. One that is new has used its time since it was started.
            self._program_s += max(used_s - self._clocks.get(pid, 0.0), 0.0)
            self._clocks[pid] = used_s
        if len(self._ended) > len(pids):
            self._ended = {pid: process for pid, process in self._ended.items() if pid in pids}

    def count_records(self) -> None:
        """Counts slots that were filled since the last time. Call it whenever chunks were taken, before they are drained. A
        chunk that was drained in the meantime was full if its process has another one; else the process has ended."""
        found: dict[int, tuple[int, int, int, bool]] = {}
        for chunk, offer in list(self._space.in_use.items()):
            header = ffi().from_buffer("struct chunk_header *", self._space.first_bytes(chunk, SLOT_BYTES))
            if int(header.process) not in (0, _C["PROCESS_WATCHER"]):
                # To close a chunk, its process moves the cursor on by all slots.
                filled = int(header.cursor) - (_SLOTS if header.closed else 0)
                found[chunk] = offer, int(header.process), min(filled, _SLOTS), bool(header.closed)
        live = {process for _, process, *_ in found.values()}
        for chunk, (offer, process, cursor, is_closed) in self._cursors.items():
            if found.get(chunk, (-1,))[0] != offer and process in live and not is_closed:
                self._records += _SLOTS - cursor
        for chunk, (offer, _, cursor, _) in found.items():
            known = self._cursors.get(chunk)
            self._records += cursor - (known[2] if known and known[0] == offer else 0)
        self._cursors = found
