"""What the first pass over a recording gathers, batch by batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ....formats.spool.codes import CodeObject, CodeObjects
from ....formats.spool.layout import struct_dtype
from ....formats.spool.reader import Bulk, Records, by_time, joined
from ..keyed.pieces import Counts, Distinct, Extremes
from ..native.addresses import ModuleCollector
from .columns import Ints, rows_by_key
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
_PIECE_BYTES = 400  # of the arrays of a piece beside their contents
_MAY_LACK_THREAD = frozenset({"alloc", "free", "copy", "gc", "device_call", "device_block"})

Hashes = npt.NDArray[np.uint64]


class Collector:
    """``start_ns``: that of the recording; ``known_codes``: code objects that were read before, by hash.

    The others are those of :class:`.survey.Survey`, so far; ``stacks`` has 0 too; ``last_start_ns``: the latest start of a
    process.
    """

    def __init__(self, start_ns: int, known_codes: Mapping[int, CodeObject] | None = None) -> None:
        self.types: dict[int, str] = {}
        self.nodes, self.natives = (Distinct(struct_dtype(f"record_{kind}")) for kind in ("node", "native"))
        self.stacks, self.tick_stacks, self.native_stacks = (Distinct(np.uint64) for _ in range(3))
        self.gc_history = GcHistory()
        self.last_ns, self.last_start_ns, self.damaged = start_ns, start_ns, 0
        self._starts, self.modules = StartCollector(), ModuleCollector()
        self.codes = CodeObjects(COMMAND_FILE, known_codes)
        self._processes, self._threads, self._first_clock = Extremes(), Extremes(), Extremes()
        self._last_clock, self.collections = Extremes(highest=True), Extremes(highest=True)
        self.chunks = Counts()
        self._kept: dict[str, list[Bulk]] = defaultdict(list)
        self._kept_bytes = 0

    @property
    def nbytes(self) -> int:
        """The size in memory of what was gathered, about."""
        stacks = self.nodes, self.natives, self.stacks, self.tick_stacks, self.native_stacks
        others = self._processes, self._threads, self._first_clock, self._last_clock, self.collections, self.chunks
        return self._kept_bytes + self.gc_history.nbytes + sum(each.nbytes for each in (*stacks, *others))

    def lives(self) -> Lives:
        """What is known of each process and thread. Call it once."""
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

    def add(self, batch: Records) -> None:
        """Adds the records of a batch. Its events may have been unfolded briefly (:func:`formats.spool.events.unfolded`)."""
        self._kept_bytes += batch.payload_bytes
        self._starts.add(batch.process_starts)
        for each in batch.process_starts:
            self.last_start_ns = max(self.last_start_ns, int(each.record["t_ns"]))
        self.modules.add(batch.modules)
        self.types |= batch.types
        self.damaged += batch.damaged
        self.codes.add(batch.codes)
        for kind in _KEPT:
            if len(batch.bulk[kind]) or not self._kept[kind]:
                self._kept[kind].append(batch.bulk[kind])
                self._kept_bytes += batch.bulk[kind].nbytes + _PIECE_BYTES
        self._add_stacks(batch)
        self._add_threads(batch)
        self._add_clocks(batch.bulk["tick"].records)
        self._add_collections(batch)
        self.gc_history.add(batch.bulk["gc"])
        self.chunks.add(batch.chunks)

    def _add_stacks(self, batch: Records) -> None:
        self.nodes.add(batch.bulk["node"].records)
        self.natives.add(batch.bulk["native"].records)
        self.tick_stacks.add(np.unique(batch.bulk["tick"].records["stack"]))
        for kind in ("tick", "note", "wait"):
            self.native_stacks.add(np.unique(batch.bulk[kind].records["native"]))
        for kind in _WITH_STACK:
            self.stacks.add(np.unique(batch.bulk[kind].records["stack"]))

    def _add_threads(self, batch: Records) -> None:
        for kind in _SEEN_IN:
            if not len(batch.bulk[kind]):
                continue
            names, t_ns = _first_seen(batch.bulk[kind])
            self._processes.add(names >> 32, t_ns)
            if kind in _MAY_LACK_THREAD:
                named = (names & 0xFFFFFFFF) != 0
                names, t_ns = names[named], t_ns[named]
            self._threads.add(names, t_ns)
        timed = (each.records for each in batch.bulk.values() if "t_ns" in (each.records.dtype.names or ()))
        self.last_ns = max(self.last_ns, *(int(each["t_ns"].max(initial=0)) for each in timed))

    def _add_clocks(self, ticks: npt.NDArray[np.void]) -> None:
        if not len(ticks):
            return
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
            found = [(process, int(counts[rows].max())) for process, rows in rows_by_key(bulk.process)]
            if found:
                self.collections.add(*np.array(found, np.int64).T)


def _first_seen(bulk: Bulk) -> tuple[Ints, Ints]:
    """Process << 32 | thread, and the earliest time of each, in records that are sorted by time."""
    names = bulk.process.astype(np.int64) << 32 | bulk.records["thread"].astype(np.int64)
    runs = np.flatnonzero(np.diff(names, prepend=-1))
    distinct, first = np.unique(names[runs], return_index=True)
    return distinct, bulk.records["t_ns"][runs[first]]
