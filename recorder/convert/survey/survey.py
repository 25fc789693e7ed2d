"""The first pass over a recording: everything that is small, or needed before the first sample can be converted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ....formats.spool.layout import constants, struct_dtype
from ....formats.spool.reader import Bulk, CodeObject, CodeObjects, Records, Spool, WithPayload, by_time, joined
from .columns import rows_by_process

_C = constants()
#: Kinds with few records, which are kept as a whole.
_KEPT = ("process_end", "thread_start", "thread_end", "gc")
#: Kinds whose records have a stack.
_WITH_STACK = ("tick", "wait", "task", "memory", "alloc", "free", "copy", "device_call", "device_block")
#: Kinds whose records show that a thread existed at a time, and those of them that may belong to no thread (0).
_SEEN_IN = (
    *("thread_start", "thread_end", "tick", "memory", "alloc", "free", "copy", "gc"),
    *("device_call", "device_block"),
)
_MAY_LACK_THREAD = frozenset({"alloc", "free", "copy", "gc", "device_call", "device_block"})

Hashes = npt.NDArray[np.uint64]


class Survey:
    """The survey of the recording in ``spool``.

    ``kept``: records of the kinds that are kept as a whole, by time; ``nodes``: distinct nodes, by hash; ``stacks``,
    ``tick_stacks``: distinct hashes of the stacks of all samples, and of ticks; ``processes_seen``, ``threads_seen``:
    earliest time of each process, and of each (process, thread); ``first_clock``: time and CPU clock of each thread's
    earliest tick; ``last_clock``: its highest CPU clock; ``collections``: last count of garbage collections of each process;
    ``types``: names by hash; ``last_ns``: time of the last record; ``damaged``: records that were unfinished or invalid.
    Times are those of the spool: CLOCK_MONOTONIC in nanoseconds.
    """

    def __init__(self, spool: Spool) -> None:
        self.header = spool.header
        self.process_starts: list[WithPayload] = []
        self.modules: list[WithPayload] = []
        self.types: dict[int, str] = {}
        self.stacks: Hashes = np.empty(0, np.uint64)
        self.tick_stacks: Hashes = np.empty(0, np.uint64)
        self.nodes = np.empty(0, struct_dtype("record_node"))
        self.processes_seen: dict[int, int] = {}
        self.threads_seen: dict[tuple[int, int], int] = {}
        self.first_clock: dict[int, tuple[int, int]] = {}
        self.last_clock: dict[int, int] = {}
        self.collections: dict[int, int] = defaultdict(int)
        self.last_ns = int(self.header["start_mono_ns"])
        self.damaged = 0
        self._codes = CodeObjects()
        self._kept: dict[str, list[Bulk]] = defaultdict(list)
        for batch in spool.batches():
            self._add(batch)
        self.kept = {kind: by_time(joined(*self._kept.pop(kind))) for kind in _KEPT}
        self.codes: dict[int, CodeObject]
        self.codes, incomplete = self._codes.all()
        self.damaged += incomplete

    @property
    def start_ns(self) -> int:
        """CLOCK_MONOTONIC at the start of the recording, in nanoseconds."""
        return int(self.header["start_mono_ns"])

    def forked_from(self) -> dict[int, int]:
        """Process id → id of the process that it was forked from."""
        forks = (each for each in self.process_starts if each.record["cause"] == _C["CAUSE_FORK"])
        return {each.process: int(each.record["parent"]) for each in forks}

    def _add(self, batch: Records) -> None:
        self.process_starts += batch.process_starts
        self.modules += batch.modules
        self.types |= batch.types
        self.damaged += batch.damaged
        self._codes.add(batch.codes)
        for kind in _KEPT:
            self._kept[kind].append(batch.bulk[kind])
        self._add_stacks(batch)
        self._add_threads(batch)
        self._add_clocks(batch.bulk["tick"].records)
        self._add_collections(batch)

    def _add_stacks(self, batch: Records) -> None:
        nodes = np.concatenate([self.nodes, batch.bulk["node"].records])
        self.nodes = nodes[np.unique(nodes["hash"], return_index=True)[1]]
        self.tick_stacks = np.union1d(self.tick_stacks, batch.bulk["tick"].records["stack"])
        found = [np.unique(batch.bulk[kind].records["stack"]) for kind in _WITH_STACK]
        stacks = np.unique(np.concatenate([self.stacks, *found]))
        self.stacks = stacks[stacks != 0]

    def _add_threads(self, batch: Records) -> None:
        for kind in _SEEN_IN:
            for process, thread, t_ns in _first_seen(batch.bulk[kind]):
                self.processes_seen[process] = min(t_ns, self.processes_seen.get(process, t_ns))
                if thread or kind not in _MAY_LACK_THREAD:
                    name = (process, thread)
                    self.threads_seen[name] = min(t_ns, self.threads_seen.get(name, t_ns))
        timed = (each.records for each in batch.bulk.values() if "t_ns" in (each.records.dtype.names or ()))
        self.last_ns = max(self.last_ns, *(int(each["t_ns"].max(initial=0)) for each in timed))

    def _add_clocks(self, ticks: npt.NDArray[np.void]) -> None:
        threads, first, of_tick = np.unique(ticks["thread"], return_index=True, return_inverse=True)
        last = np.full(len(threads), np.iinfo(np.int64).min)
        np.maximum.at(last, of_tick, ticks["cpu_ns"])
        for thread, tick, highest in zip(threads.tolist(), ticks[first], last.tolist(), strict=True):
            earliest = (int(tick["t_ns"]), int(tick["cpu_ns"]))
            self.first_clock[thread] = min(earliest, self.first_clock.get(thread, earliest))
            self.last_clock[thread] = max(highest, self.last_clock.get(thread, highest))

    def _add_collections(self, batch: Records) -> None:
        for kind in ("alloc", "free", "gc"):
            bulk = batch.bulk[kind]
            counts = bulk.records["collections"]
            counts = counts.sum(axis=1).astype(np.uint32) if kind == "gc" else counts
            for process, rows in rows_by_process(bulk.process):
                self.collections[process] = max(self.collections[process], int(counts[rows].max()))


def _first_seen(bulk: Bulk) -> Iterator[tuple[int, int, int]]:
    """Process, thread and earliest time of each thread in records that are sorted by time."""
    key = bulk.process.astype(np.int64) << 32 | bulk.records["thread"].astype(np.int64)
    runs = np.flatnonzero(np.diff(key, prepend=-1))
    keys, first = np.unique(key[runs], return_index=True)
    for number, t_ns in zip(keys.tolist(), bulk.records["t_ns"][runs[first]].tolist(), strict=True):
        yield number >> 32, number & 0xFFFFFFFF, t_ns
