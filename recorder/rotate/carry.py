"""What a trace needs of those before it: records of the spool, and figures that are subtracted from later ones."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...formats.dataclass import dataclass, field, replace
from ...formats.spool.chunks import CHUNK_SLOTS, SLOT_BYTES, frame_of
from ...formats.spool.layout import constants, struct_dtype
from ...formats.spool.reader import Bulk, Records, Spool, WithPayload
from ...formats.spool.regular import read_regular
from ..convert.keyed.by_key import Ints, index_of
from ..convert.kinds.ends import seen_ends
from ..convert.kinds.processes import ended_threads
from ..convert.running import own_namespace
from ..convert.survey.images import Images
from ..convert.survey.lives import Lives
from ..convert.survey.survey import Survey
from ..folder.files import new_file
from .segments import number

_C = constants()
#: Offers of frames that no process has taken.
_FIRST_OFFER = 1 << 62
#: Records that belong to no process, or to any.
_ANYBODY = _C["PROCESS_WATCHER"]
_ENDS = ("END_EXIT", "END_QUICK", "END_EXEC", "END_FILTER")
#: Kinds of which the last record of a process, or thread, is carried over.
_LAST_OF_PROCESS = ("heap", "memory", "gc")

#: Slots of a record, with the process that has written it.
Slots = Iterator[tuple[int, bytes]]


@dataclass(frozen=True)
class Counted:
    """What earlier traces have counted of sums that are told at the end. ``threads``: CPU time, user time and kernel time
    (ns) by thread; ``processes``: user and kernel time by process; ``gone``: processes that were not there any more; ``marks``:
    lines of the file of marks."""

    threads: dict[int, list[int]] = field(default_factory=dict)
    processes: dict[int, list[int]] = field(default_factory=dict)
    gone: list[int] = field(default_factory=list)
    marks: list[dict[str, Any]] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Raises OSError."""
        with new_file(path) as file:
            file.write(json.dumps(vars(self)).encode())


def read_counted(path: Path) -> Counted:
    """What is in the file at ``path``; nothing where it is missing or damaged."""
    with suppress(ValueError, TypeError, KeyError, RecursionError, AttributeError):
        found: Any = json.loads(read_regular(path))
        threads, processes = (
            {
                number(int(key)): [number(each) for each in values]
                for key, values in found[name].items()
                if len(values) == count
            }
            for name, count in (("threads", 3), ("processes", 2))
        )
        lines = [line for line in found["marks"] if isinstance(line, dict)]
        return Counted(threads, processes, [number(each) for each in found["gone"]], lines)
    return Counted()


class Adjusted:
    """Records of a segment as its trace counts them. ``start_ns``: its beginning (CLOCK_MONOTONIC)."""

    def __init__(self, start_ns: int, counted: Counted) -> None:
        self._start_ns = start_ns
        self._threads = _table(counted.threads, 3)
        self._processes = _table(counted.processes, 2)

    def __call__(self, records: Records) -> Records:
        bulk = {kind: self._adjusted(kind, each) for kind, each in records.bulk.items()}
        return replace(records, bulk=bulk)

    def _adjusted(self, kind: str, bulk: Bulk) -> Bulk:
        names = bulk.records.dtype.names or ()
        if not len(bulk) or "t_ns" not in names:
            return bulk
        records = bulk.records.copy()
        if kind == "thread_end":
            self._subtract(records, self._threads, records["thread"], ("cpu_ns", "user_ns", "system_ns"))
        elif kind == "process_end":
            self._subtract(records, self._processes, bulk.process, ("user_ns", "system_ns"))
        early = records["t_ns"] < self._start_ns
        if kind == "heap":  # a state from before, which was told later
            return bulk.where(~early)
        if early.any():
            records["t_ns"][early] = self._start_ns
            if "end_ns" in names:  # a wait that was told later: all of it counts now
                lengths = np.maximum(bulk.records["end_ns"] - self._start_ns, 0)
                least = records["waited_ns"] if kind == "wait" else 0
                records["end_ns"][early] = self._start_ns + np.maximum(lengths, least)[early]
        return Bulk(records, bulk.process)

    def _subtract(
        self, records: npt.NDArray[np.void], table: tuple[Ints, Ints], keys: npt.NDArray[Any], names: tuple[str, ...]
    ) -> None:
        known, values = table
        row = index_of(known, keys.astype(np.int64))
        found = row >= 0
        for column, name in enumerate(names):
            records[name][found] = np.maximum(records[name][found] - values[row[found], column], 0)


def _table(values: Mapping[int, list[int]], columns: int) -> tuple[Ints, Ints]:
    keys = sorted(values)
    found = np.array([values[key] for key in keys], np.int64).reshape(-1, columns)
    return np.array(keys, np.int64), found


def carry_over(
    spool: Spool, counted: Counted, end_ns: int, path: Path, still_there: Callable[[int, int], bool]
) -> Counted:
    """Writes the records that the segment after that of ``spool`` needs to the file ``path``, and returns what its trace must
    subtract. ``counted``: the same of the segment itself; ``end_ns``: its end (CLOCK_MONOTONIC); ``still_there``: tells of a pid,
    and the time (CLOCK_MONOTONIC) at which its record began, whether that process still has its entry in /proc.

    Marks are not in the result. Raises OSError.
    """
    survey = Survey(spool)
    lives = survey.lives
    kept = _Kept(lives, end_ns, set(counted.gone), still_there)
    found = _Found(kept)
    for batch in spool.batches():
        found.add(batch)
    with new_file(path) as file:
        file.writelines(_frames(itertools.chain(kept.slots(survey), found.slots(survey, end_ns))))
    clocks = lives.last_clock
    threads = {thread: counted.threads.get(thread, [0, 0, 0]) for thread in kept.threads.tolist()}
    known = dict(zip(clocks.keys.tolist(), (clocks.values - survey.clocks.of(clocks.keys)).tolist(), strict=True))
    for thread, before in threads.items():
        more = [max(known.get(thread, 0), 0), *found.of_threads.get(thread, (0, 0))]
        threads[thread] = [a + b for a, b in zip(before, more, strict=True)]
    processes = {
        process: [
            a + b
            for a, b in zip(
                counted.processes.get(process, [0, 0]), found.of_processes.get(process, (0, 0)), strict=True
            )
        ]
        for process in kept.living.tolist()
    }
    return Counted(
        {thread: values for thread, values in threads.items() if any(values)},
        {process: values for process, values in processes.items() if any(values)},
        kept.gone,
    )


class _Found:
    """What the batches of a segment hold that is carried over for what is ``kept``: of a segment with ten thousand processes
    that have ended, hardly more than of one. ``of_threads``, ``of_processes``: user and kernel time (ns) of their ticks."""

    def __init__(self, kept: _Kept) -> None:
        self.of_threads: dict[int, tuple[int, int]] = {}
        self.of_processes: dict[int, tuple[int, int]] = {}
        self._kept = kept
        self._processes = set(kept.processes.tolist())
        self._modules: dict[tuple[int, int, int], WithPayload] = {}
        self._images: dict[int, WithPayload] = {}  # that no process has which is kept: native frames name them
        self._codes: dict[int, dict[int, dict[int, WithPayload]]] = {}
        self._whole: set[int] = set()  # code objects of which a process that is kept has written all parts
        self._types: dict[int, str] = {}
        self._last: dict[tuple[str, int], npt.NDArray[np.void]] = {}

    def add(self, batch: Records) -> None:
        for module in batch.modules:
            image = int(module.record["image"])
            if module.process in self._processes:
                self._modules.setdefault((module.process, int(module.record["start"]), image), module)
            else:
                self._images.setdefault(image, module)
        for code in batch.codes:
            self._add_code(code)
        self._types |= batch.types
        for kind in _LAST_OF_PROCESS:
            bulk = batch.bulk[kind]
            bulk = bulk.where(np.isin(bulk.process, self._kept.processes))
            processes, last = np.unique(bulk.process[::-1], return_index=True)
            rows = bulk.records[::-1][last]
            for process, row in zip(processes.tolist(), rows, strict=True):
                before = self._last.get((kind, process))
                if before is None or before["t_ns"] <= row["t_ns"]:
                    self._last[kind, process] = row.copy()
        ticks = batch.bulk["tick"]
        _add_sums(self.of_threads, ticks.where(np.isin(ticks.records["thread"], self._kept.threads)), by_thread=True)
        _add_sums(self.of_processes, ticks.where(np.isin(ticks.process, self._kept.living)), by_thread=False)

    def _add_code(self, part: WithPayload) -> None:
        """Keeps the parts of one process, if possible of one that is kept: it may have to be asked for the text of ``-c``."""
        code, is_kept = int(part.record["code"]), part.process in self._processes
        if code in self._whole or (not is_kept and _is_whole(self._codes.get(code, {}))):
            return
        parts = self._codes.setdefault(code, {}).setdefault(part.process, {})
        parts.setdefault(int(part.record["part_offset"]), part)
        if is_kept and _is_whole({part.process: parts}):
            self._codes[code] = {part.process: parts}
            self._whole.add(code)

    def slots(self, survey: Survey, end_ns: int) -> Slots:
        kept, images = self._processes, {image for _, _, image in self._modules}
        others = (module for image, module in self._images.items() if image not in images)
        for module in itertools.chain(self._modules.values(), others):
            yield module.process, module.record.tobytes() + module.payload
        for by_process in self._codes.values():
            process, parts = max(by_process.items(), key=lambda each: _bytes_of(each[1]))
            yield from ((process, each.record.tobytes() + each.payload) for each in parts.values())
        yield from ((_ANYBODY, _type_record(key, name)) for key, name in self._types.items())
        for (kind, process), row in self._last.items():
            yield from ((process, each.tobytes()) for each in self._rows(kind, process, row, end_ns))
        for process in kept - {process for kind, process in self._last if kind == "gc"}:
            # A forked process has its parent's counts, which may have risen since.
            counters = survey.gc_history.inherited(process, survey.lineage)
            if counters.any():
                yield process, _gc_record(min(survey.lineage.started_ns.one(process), end_ns - 1), counters)

    def _rows(self, kind: str, process: int, row: npt.NDArray[np.void], end_ns: int) -> Iterator[npt.NDArray[np.void]]:
        if kind == "gc":  # as it was: rows before the beginning of a trace only say what had been before
            yield row
            return
        heap = self._last.get(("heap", process))
        if kind == "memory" and heap is not None and heap["t_ns"] >= row["t_ns"]:
            return
        row = row.copy()
        if kind == "memory":
            for name in ("stack", "net_bytes", "allocated_bytes", "python_allocated_bytes"):
                row[name] = 0
        row["t_ns"] = end_ns
        yield row


def _add_sums(sums: dict[int, tuple[int, int]], ticks: Bulk, by_thread: bool) -> None:
    """Adds user and kernel time (ns) of ``ticks``, by thread or by process."""
    distinct, of_tick = np.unique(ticks.records["thread"] if by_thread else ticks.process, return_inverse=True)
    added = np.zeros((len(distinct), 2), np.int64)
    for column, name in enumerate(("user_ns", "system_ns")):
        np.add.at(added[:, column], of_tick, ticks.records[name].astype(np.int64))
    for key, (user_ns, system_ns) in zip(distinct.tolist(), added.tolist(), strict=True):
        user, system = sums.get(key, (0, 0))
        sums[key] = user + user_ns, system + system_ns


def _bytes_of(parts: Mapping[int, WithPayload]) -> int:
    return sum(int(each.record["part_bytes"]) for each in parts.values())


def _is_whole(by_process: Mapping[int, Mapping[int, WithPayload]]) -> bool:
    """Has one of these processes written all parts of the code object?"""
    found = (parts for parts in by_process.values() if parts)
    return any(_bytes_of(parts) >= int(next(iter(parts.values())).record["total_bytes"]) for parts in found)


class _Kept:
    """Which processes and threads of a segment are carried over. ``processes``: those with a start record; ``living``: those of
    them that may write further records; ``threads``: those that have not ended; ``gone``: processes that had no entry in
    /proc: if they write nothing in the next segment, they are dropped then."""

    def __init__(
        self, lives: Lives, end_ns: int, gone_before: set[int], still_there: Callable[[int, int], bool]
    ) -> None:
        self._lives = lives
        images = Images(lives)
        process, starts = images.process, lives.starts.records
        rows = np.arange(len(process))
        ended = images.has_end(rows, *_ENDS)
        waited_for = np.isin(process, seen_ends(images, lives, None, end_ns, True).process)
        left = np.isin(process, np.array([*gone_before], np.int64))
        self.living = process[~ended & ~waited_for & ~left]
        # Its parent will know what its end has cost.
        ghosts = process[images.has_end(rows, "END_EXIT", "END_QUICK") & ~waited_for & ~left]
        self._ghosts = ghosts
        wanted = np.union1d(self.living, ghosts)
        while True:
            parents = starts["parent"][np.isin(process, wanted)].astype(np.int64)
            more = np.union1d(wanted, parents[np.isin(parents, process)])
            if len(more) == len(wanted):
                break
            wanted = more
        self.processes: Ints = wanted
        maybe = np.isin(process, np.union1d(self.living, ghosts))
        maybe &= (images.namespace == 0) | (images.namespace == own_namespace())
        self.gone = [
            int(process[row])
            for row in np.flatnonzero(maybe).tolist()
            if not still_there(int(images.pid[row]), int(images.t_ns[row]))
        ]
        self.threads = self._living_threads()

    def _living_threads(self) -> Ints:
        seen = self._lives.threads_seen.keys
        thread, process = seen & 0xFFFFFFFF, seen >> 32
        ended = ended_threads(self._lives)["thread"].astype(np.int64)
        return np.unique(thread[np.isin(process, self.living) & ~np.isin(thread, ended)])

    def slots(self, survey: Survey) -> Slots:
        lives, starts = self._lives, self._lives.starts
        for row in np.flatnonzero(np.isin(starts.process, self.processes)).tolist():
            yield int(starts.process[row]), starts.records[row].tobytes() + starts.payloads[row]
        main = starts.records["thread"][np.isin(starts.process, self._ghosts)].astype(np.int64)
        owner = {int(key) & 0xFFFFFFFF: int(key) >> 32 for key in lives.threads_seen.keys.tolist()}
        begun = lives.thread_starts[np.isin(lives.thread_starts["thread"], np.union1d(self.threads, main))].copy()
        clocks = lives.last_clock.of(begun["thread"].astype(np.int64), -1)
        begun["cpu_start_ns"] = np.where(clocks >= 0, clocks, begun["cpu_start_ns"])
        yield from ((owner.get(int(each["thread"]), _ANYBODY), each.tobytes()) for each in begun)
        names = lives.thread_names[np.isin(lives.thread_names["thread"], self.threads)]
        last = {int(each["thread"]): each for each in names}
        yield from ((_ANYBODY, each.tobytes()) for each in last.values())
        yield from self._ends(main, owner)
        yield from ((_ANYBODY, each.tobytes()) for records in (survey.nodes, survey.natives) for each in records)

    def _ends(self, main: Ints, owner: Mapping[int, int]) -> Slots:
        """The ends of processes that are kept though they have ended, and of their main threads: nothing of their time counts
        again."""
        lives = self._lives
        ends = lives.process_ends
        for row in np.flatnonzero(np.isin(ends.process, self.processes)).tolist():
            record = ends.records[row].copy()
            record["user_ns"] = record["system_ns"] = 0
            yield int(ends.process[row]), record.tobytes()
        for record in lives.thread_ends[np.isin(lives.thread_ends["thread"], main)].copy():
            for name in ("cpu_ns", "user_ns", "system_ns"):
                record[name] = 0
            yield owner.get(int(record["thread"]), _ANYBODY), record.tobytes()
        own = lives.reaped
        for row in np.flatnonzero((own.records["pid"] == 0) & np.isin(own.process, self.processes)).tolist():
            yield int(own.process[row]), own.records[row].tobytes()


def _gc_record(t_ns: int, counters: Ints) -> bytes:
    record = np.zeros(1, struct_dtype("record_gc"))
    record["head"], record["t_ns"] = _C["RECORD_GC"] | 1 << 16, t_ns
    record["collections"][0], record["collected"], record["uncollectable"] = counters[:3], counters[3], counters[4]
    return record.tobytes()


def _type_record(key: int, name: str) -> bytes:
    text = name.encode("utf-8", "replace")
    payload = text.ljust(-(-len(text) // SLOT_BYTES) * SLOT_BYTES, b"\0")
    record = np.zeros(1, struct_dtype("record_type"))
    record["head"] = _C["RECORD_TYPE"] | (1 + len(payload) // SLOT_BYTES) << 16
    record["type"], record["name_bytes"] = key, len(text)
    return record.tobytes() + payload


def _frames(slots: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    """Frames of a part file, each of one process."""
    offers = itertools.count(_FIRST_OFFER)
    waiting: dict[int, list[bytes]] = {}
    sizes: dict[int, int] = {}
    most = (CHUNK_SLOTS - 1) * SLOT_BYTES
    for process, data in slots:
        if sizes.get(process, 0) + len(data) > most:
            yield frame_of(process, next(offers), b"".join(waiting.pop(process)))
            sizes[process] = 0
        waiting.setdefault(process, []).append(data)
        sizes[process] = sizes.get(process, 0) + len(data)
    yield from (frame_of(process, next(offers), b"".join(parts)) for process, parts in waiting.items())
