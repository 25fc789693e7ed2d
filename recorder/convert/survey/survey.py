"""The first pass over a recording: everything that is small, or needed before the first sample can be converted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ....formats.spool.codes import CodeObject, CodeObjects
from ....formats.spool.layout import struct_dtype
from ....formats.spool.memory import release_unused
from ....formats.spool.reader import Bulk, Records, Spool, by_time, joined
from ..keyed.by_key import Extremes
from ..native.addresses import ModuleCollector
from .columns import Ints
from .gc_history import GcHistory
from .given_programs import COMMAND_FILE
from .lives import Lives
from .starts import StartCollector

#: Kinds with a record for each process or thread, which are kept as a whole.
_KEPT = ("process_end", "reaped", "thread_start", "thread_end", "thread_name")
#: Kinds whose records have a stack.
_WITH_STACK = (
    *("thread_start", "tick", "wait", "task", "memory", "alloc", "free", "copy", "device_call", "device_block"),
)
#: Kinds whose records show that a thread existed at a time, and those of them that may belong to no thread (0).
_SEEN_IN = (
    *("thread_start", "thread_end", "tick", "memory", "alloc", "free", "copy", "gc"),
    *("device_call", "device_block"),
)
#: Kinds whose records are joined with others of their process, from other batches.
_JOINED = ("alloc", "free", "note", "device_block", "gc")
_MAY_LACK_THREAD = frozenset({"alloc", "free", "copy", "gc", "device_call", "device_block"})

Hashes = npt.NDArray[np.uint64]


class Survey:
    """The survey of the recording in ``spool``. ``known_codes``: code objects that were read before, by hash.

    ``lives``: what is known of each process and thread; ``nodes``, ``natives``: distinct node and native records, by hash;
    ``command_writers``: the processes that have written each code object of ``-c``, by hash;
    ``stacks``, ``tick_stacks``, ``native_stacks``: distinct hashes of the stacks of all samples, of ticks, and of native
    stacks; ``lineage``: where processes come from;
    ``modules``: images that they have loaded; ``clocks``: each thread's CPU clock when its recording began;
    ``collections``: last count of garbage collections of each process; ``last_batch``: number of the last batch with
    allocations or collections of a process, from 0; ``gc_history``: counters of collections over time; ``types``: names
    by hash; ``last_ns``: time of the last record; ``damaged``: records that were unfinished or invalid. Times are those
    of the spool: CLOCK_MONOTONIC in nanoseconds.
    """

    def __init__(self, spool: Spool, known_codes: Mapping[int, CodeObject] | None = None) -> None:
        self.header = spool.header
        self.types: dict[int, str] = {}
        self.stacks: Hashes = np.empty(0, np.uint64)
        self.tick_stacks: Hashes = np.empty(0, np.uint64)
        self.native_stacks: Hashes = np.empty(0, np.uint64)
        self.nodes = np.empty(0, struct_dtype("record_node"))
        self.natives = np.empty(0, struct_dtype("record_native"))
        self.last_ns = int(self.header["start_mono_ns"])
        self.damaged = 0
        self._starts, self._modules, self._codes = (
            StartCollector(),
            ModuleCollector(),
            CodeObjects(COMMAND_FILE, known_codes),
        )
        self._processes, self._threads, self._first_clock = Extremes(), Extremes(), Extremes()
        self._last_clock, self._collections = Extremes(highest=True), Extremes(highest=True)
        self._last_batch = Extremes(highest=True)
        self.gc_history = GcHistory()
        self._kept: dict[str, list[Bulk]] = defaultdict(list)
        for number, batch in enumerate(spool.batches(briefly=True)):
            self._add(batch, number)
            del batch  # before the next one is read
        self.codes: dict[int, CodeObject]
        self.codes, incomplete = self._codes.all()
        self.damaged += incomplete
        self.command_writers = self._codes.writers
        self.lives = self._all_lives()
        self.lineage, self.clocks = self.lives.starts.lineage(), self.lives.clocks()
        self.modules = self._modules.all(self.lineage.forked_from)
        self.collections, self.last_batch = self._collections.all(), self._last_batch.all()
        # These hold everything a second time.
        del self._starts, self._modules, self._codes, self._processes, self._threads
        del self._first_clock, self._last_clock, self._collections, self._last_batch
        release_unused()

    @property
    def start_ns(self) -> int:
        """CLOCK_MONOTONIC at the start of the recording, in nanoseconds."""
        return int(self.header["start_mono_ns"])

    def _all_lives(self) -> Lives:
        kept = {kind: by_time(joined(*self._kept.pop(kind))) for kind in _KEPT}
        return Lives(
            starts=self._starts.all(),
            process_ends=kept["process_end"],
            reaped=kept["reaped"],
            thread_starts=kept["thread_start"].records,
            thread_ends=kept["thread_end"].records,
            thread_names=kept["thread_name"].records,
            processes_seen=self._processes.all(),
            threads_seen=self._threads.all(),
            first_clock=self._first_clock.more(),
            last_clock=self._last_clock.all(),
        )

    def _add(self, batch: Records, number: int) -> None:
        self._starts.add(batch.process_starts)
        self._modules.add(batch.modules)
        self.types |= batch.types
        self.damaged += batch.damaged
        self._codes.add(batch.codes)
        for kind in _KEPT:
            if len(batch.bulk[kind]) or not self._kept[kind]:
                self._kept[kind].append(batch.bulk[kind])
        self._add_stacks(batch)
        self._add_threads(batch)
        self._add_clocks(batch.bulk["tick"].records)
        self._add_collections(batch)
        self.gc_history.add(batch.bulk["gc"])
        for kind in _JOINED:
            processes = np.unique(batch.bulk[kind].process).astype(np.int64)
            self._last_batch.add(processes, np.full(len(processes), number))

    def _add_stacks(self, batch: Records) -> None:
        self.nodes = _distinct(self.nodes, batch.bulk["node"])
        self.natives = _distinct(self.natives, batch.bulk["native"])
        self.tick_stacks = np.union1d(self.tick_stacks, batch.bulk["tick"].records["stack"])
        natives = [batch.bulk[kind].records["native"] for kind in ("tick", "note", "wait")]
        self.native_stacks = np.unique(np.concatenate([self.native_stacks, *map(np.unique, natives)]))
        found = [np.unique(batch.bulk[kind].records["stack"]) for kind in _WITH_STACK]
        stacks = np.unique(np.concatenate([self.stacks, *found]))
        self.stacks = stacks[stacks != 0]

    def _add_threads(self, batch: Records) -> None:
        for kind in _SEEN_IN:
            names, t_ns = _first_seen(batch.bulk[kind])
            self._processes.add(names >> 32, t_ns)
            if kind in _MAY_LACK_THREAD:
                named = (names & 0xFFFFFFFF) != 0
                names, t_ns = names[named], t_ns[named]
            self._threads.add(names, t_ns)
        timed = (each.records for each in batch.bulk.values() if "t_ns" in (each.records.dtype.names or ()))
        self.last_ns = max(self.last_ns, *(int(each["t_ns"].max(initial=0)) for each in timed))

    def _add_clocks(self, ticks: npt.NDArray[np.void]) -> None:
        threads, first, of_tick = np.unique(ticks["thread"], return_index=True, return_inverse=True)
        highest = np.full(len(threads), np.iinfo(np.int64).min)
        np.maximum.at(highest, of_tick, ticks["cpu_ns"])
        threads = threads.astype(np.int64)
        self._first_clock.add(threads, ticks["t_ns"][first], ticks["cpu_ns"][first])
        self._last_clock.add(threads, highest)

    def _add_collections(self, batch: Records) -> None:
        for kind in ("alloc", "free", "gc"):
            bulk = batch.bulk[kind]
            counts = bulk.records["collections"]
            counts = counts.sum(axis=1).astype(np.uint32) if kind == "gc" else counts
            processes, of_row = np.unique(bulk.process, return_inverse=True)
            highest = np.zeros(len(processes), np.int64)
            np.maximum.at(highest, of_row, counts.astype(np.int64))
            self._collections.add(processes.astype(np.int64), highest)


def _distinct(known: npt.NDArray[np.void], more: Bulk) -> npt.NDArray[np.void]:
    """The records of both, one for each hash, sorted by it."""
    records = np.concatenate([known, more.records])
    return records[np.unique(records["hash"], return_index=True)[1]]


def _first_seen(bulk: Bulk) -> tuple[Ints, Ints]:
    """Process << 32 | thread, and the earliest time of each, in records that are sorted by time."""
    names = bulk.process.astype(np.int64) << 32 | bulk.records["thread"].astype(np.int64)
    runs = np.flatnonzero(np.diff(names, prepend=-1))
    distinct, first = np.unique(names[runs], return_index=True)
    return distinct, bulk.records["t_ns"][runs[first]]
