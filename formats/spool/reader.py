"""Reads a spool: the records that processes have published, even if those processes have crashed.

Nothing in a spool is trusted, because programs that crash write to it. Every length and offset is checked; invalid records
are left out and counted in :attr:`Records.damaged`. The protocol is described in ``spool.h``.
"""

from __future__ import annotations

import itertools
import os
import stat
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..dataclass import dataclass, field, replace
from ..errors import NotASpool, SpoolMissing, SpoolVersion
from .chunks import CHUNK_BYTES, CHUNK_SLOTS, SLOT_BYTES, Chunk, Offers, View, read_chunks, view_of
from .events import EVENTS_HEADS, EVENTS_SLOTS, KINDS, Watched, records_in, slots_of, unfolded
from .layout import concatenated, constants, record_kinds, rows_of, struct_dtype
from .memory import release_unused

if TYPE_CHECKING:
    from .chunks import Slots

_C = constants()
#: Slots that are read at a time, those of 64 full chunks, which limits the memory that a long recording takes; and chunks,
#: because those of processes that end at once have few slots, but each chunk takes memory of its own.
_BATCH_SLOTS = 64 * (CHUNK_SLOTS - 1)
_BATCH_CHUNKS = 1024
#: Of the batches of a short recording, which are kept in memory.
_SHORT_BYTES = 16 << 20
_PAYLOAD_BYTES = 400  # of a record with a payload, beside that
#: Of events, which are made into large arrays again and again: if libc gave these back after each batch, a quarter of the time
#: would go to page faults.
_BATCHES_BETWEEN_RELEASES = 64
_LAST_ID = 2**31 - 1

_BULK_KINDS = (
    *("process_end", "thread_start", "thread_end", "thread_name", "tick", "memory", "node", "native"),
    *("alloc", "free", "note", "copy", "gc", "heap", "wait", "task", "device_call", "device_block", "reaped"),
)
_PAYLOAD_KINDS = ("process_start", "code", "module", "type")


@dataclass(frozen=True)
class Bulk:
    """All records of a kind that takes one slot, by time if they have one. ``records``: structured array of the kind's
    dtype; ``process``: int32, the process id of each record."""

    records: npt.NDArray[np.void]
    process: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.records)

    @property
    def nbytes(self) -> int:
        """Their size in memory."""
        return self.records.nbytes + self.process.nbytes

    def where(self, chosen: npt.NDArray[np.bool_]) -> Bulk:
        """The records for which ``chosen`` is true."""
        rows = np.flatnonzero(chosen)
        return Bulk(rows_of(self.records, rows), self.process[rows])


def by_time(bulk: Bulk) -> Bulk:
    """The same records in time order; records of equal times keep their order."""
    times = bulk.records["t_ns"]
    if not (times[1:] < times[:-1]).any():
        return bulk
    order = np.argsort(times, kind="stable")
    return Bulk(rows_of(bulk.records, order), bulk.process[order])


def joined(*parts: Bulk) -> Bulk:
    """The records of all parts, one after the other."""
    if len(filled := [each for each in parts if len(each)]) == 1:
        return filled[0]
    return Bulk(concatenated([each.records for each in parts]), np.concatenate([each.process for each in parts]))


@dataclass(frozen=True)
class WithPayload:
    """A record and the bytes that follow it: whole slots, so ``payload`` may be longer than the lengths in the record."""

    process: int
    record: np.void
    payload: bytes


@dataclass(frozen=True)
class Records:
    """The records of one batch of chunks. ``last``: no batch follows; ``bulk``: by kind ("tick", "memory", …); ``codes``:
    parts of code objects; ``types``: names of Python types by hash; ``damaged``: number of records that were unfinished or
    invalid; ``chunks``: the process of each chunk."""

    last: bool
    bulk: dict[str, Bulk]
    process_starts: list[WithPayload]
    modules: list[WithPayload]
    codes: list[WithPayload]
    types: dict[int, str]
    damaged: int
    chunks: npt.NDArray[np.int32]

    @property
    def nbytes(self) -> int:
        """Their size in memory, about."""
        return sum(each.nbytes for each in self.bulk.values()) + self.payload_bytes

    @property
    def payload_bytes(self) -> int:
        """That of the records with a payload."""
        found = sum(_PAYLOAD_BYTES + len(name) for name in self.types.values())
        lists = (self.process_starts, self.modules, self.codes)
        return found + sum(_PAYLOAD_BYTES + len(each.payload) for records in lists for each in records)


class ReadBefore:
    """Records that were read before. ``offers``: those of their chunks; ``parts``: number of slots and records, for each time
    that some were read; ``surveyed``: the offers of chunks that need not be surveyed again, as all of ``parts`` then; None = there
    is no survey."""

    def __init__(self) -> None:
        self.offers = Offers()
        self.surveyed: Offers | None = None
        self.parts: list[tuple[int, Records]] = []


@dataclass()
class _Reading:
    """The records that were read so far."""

    bulk: dict[str, list[tuple[Slots, npt.NDArray[np.int32]]]] = field(default_factory=lambda: defaultdict(list))
    payload: dict[str, list[WithPayload]] = field(default_factory=lambda: defaultdict(list))
    events: list[tuple[Slots, int]] = field(default_factory=list)
    chunks: list[int] = field(default_factory=list)
    damaged: int = 0


def read_header(path: Path) -> np.void:
    """The header of the spool file at ``path``. Raises SpoolMissing, NotASpool or SpoolVersion."""
    dtype = struct_dtype("spool_header")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe in its place would block
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(dtype.itemsize) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    except OSError as error:
        raise SpoolMissing(path, (error.strerror or "unknown error").lower()) from error
    if len(data) < dtype.itemsize:
        raise NotASpool(path, "it is too short")
    header: np.void = np.frombuffer(data, dtype)[0]
    _check_header(path, header)
    return header


class Spool:
    """The spool file at ``path`` and the part files beside it, which can be read any number of times.

    ``batch_chunks``: chunks in a batch, None = by their slots; ``until_ns``: only events up to this moment of the recording,
    None = all; ``view``: the chunks that are read, None = all that the recording has now; ``before``: those that need not be
    read again; ``adjust``: called with the records of each batch of chunks, returns those that count instead. Raises SpoolMissing, NotASpool or SpoolVersion.
    """

    def __init__(
        self,
        path: Path,
        batch_chunks: int | None = None,
        until_ns: int | None = None,
        view: View | None = None,
        before: ReadBefore | None = None,
        adjust: Callable[[Records], Records] | None = None,
    ) -> None:
        self.path = path
        self._adjust = adjust or (lambda records: records)
        self._before = before or ReadBefore()
        self.header = read_header(path)
        self._view = view or _view(path, int(self.header["chunks_used"]))
        self._batch_chunks = batch_chunks
        self._last_ns = None if until_ns is None else int(self.header["start_mono_ns"]) + until_ns
        self._kept: list[Records] = []

    def batches(self, briefly: bool = False) -> Iterator[Records]:
        """Every published record, in batches; at least one.

        Records in a batch are ordered by time, and successive batches nearly so. A short recording is read once and kept for
        the next call. ``briefly``: for a survey, without what was surveyed before; events are unfolded to what it needs
        (:func:`.events.unfolded`).
        """
        if self._kept:
            yield from self._kept
            return
        surveyed = self._before.surveyed if briefly else None
        kept: list[Records] | None = [] if surveyed is None else None
        kept_bytes = 0
        chunks = read_chunks(self._view, self._before.offers | (surveyed or Offers()))
        following = next(chunks, None)
        groups = _groups(self._before.parts if surveyed is None else [])
        first, last, has_events, number = True, False, False, itertools.count(1)
        while not last:
            slots, parts = groups.popleft() if groups else (0, [])
            if not groups and following is not None:
                chosen = Watched(self._batch(itertools.chain([following], chunks), slots))
                parts = [*parts, self._adjust(read_records(chosen, briefly))]
                has_events = chosen.has_events
                kept = None if briefly and has_events else kept
                following = next(chunks, None)
            last = not groups and following is None
            batch = [replace(merged(parts), last=last)]
            del parts
            if self._last_ns is not None:
                batch = [_up_to(batch.pop(), self._last_ns)]
            kept_bytes += batch[0].nbytes
            if first and last and kept is not None:
                kept = batch[:]  # a single batch is in memory anyway
            elif kept is not None:
                kept = [*kept, *batch] if kept_bytes <= _SHORT_BYTES else None
            first = False
            yield batch.pop()  # hold no reference, so that only one batch of a long recording is in memory at a time
            if not has_events or next(number) % _BATCHES_BETWEEN_RELEASES == 0:
                release_unused()
        self._kept = kept or []

    def _batch(self, chunks: Iterator[Chunk], slots: int = 0) -> Iterator[Chunk]:
        """The chunks of one batch, which has ``slots`` already."""
        if self._batch_chunks is not None:
            yield from itertools.islice(chunks, self._batch_chunks)
            return
        for chunk in itertools.islice(chunks, _BATCH_CHUNKS):
            yield chunk
            slots += records_in(chunk.slots)
            if slots >= _BATCH_SLOTS:
                return


def _groups(parts: list[tuple[int, Records]]) -> deque[tuple[int, list[Records]]]:
    """``parts`` (number of slots, records) for batches, with the slots that each of these has then."""
    groups: deque[tuple[int, list[Records]]] = deque()
    for slots, records in parts:
        if groups and groups[-1][0] + slots <= _BATCH_SLOTS:
            before, group = groups.pop()
            groups.append((before + slots, [*group, records]))
        else:
            groups.append((slots, [records]))
    return groups


def merged(parts: list[Records]) -> Records:
    """All records of ``parts``, those of each kind by time."""
    if len(parts) <= 1:
        return parts[0] if parts else read_records([])
    bulk: dict[str, Bulk] = {}
    for kind in _BULK_KINDS:
        found = joined(*(each.bulk[kind] for each in parts))
        bulk[kind] = by_time(found) if "t_ns" in (found.records.dtype.names or ()) else found
    starts, modules, codes = (
        list(itertools.chain.from_iterable(found))
        for found in zip(*((each.process_starts, each.modules, each.codes) for each in parts), strict=True)
    )
    types = {key: name for each in parts for key, name in each.types.items()}
    chunks = np.concatenate([each.chunks for each in parts])
    return Records(False, bulk, starts, modules, codes, types, sum(each.damaged for each in parts), chunks)


def _view(path: Path, count: int) -> View:
    try:
        with path.open("rb", buffering=0) as file:
            return view_of(path, file.fileno(), count)
    except OSError as error:
        raise SpoolMissing(path, (error.strerror or "unknown error").lower()) from error


def _up_to(records: Records, last_ns: int) -> Records:
    """The records up to the moment ``last_ns``: processes keep writing while the spool is read."""
    bulk = {
        kind: each.where(each.records["t_ns"] <= last_ns) if "t_ns" in (each.records.dtype.names or ()) else each
        for kind, each in records.bulk.items()
    }
    starts = [each for each in records.process_starts if int(each.record["t_ns"]) <= last_ns]
    return replace(records, bulk=bulk, process_starts=starts)


def _check_header(path: Path, header: np.void) -> None:
    if header["magic"] != _C["SPOOL_MAGIC"]:
        raise NotASpool(path, "it does not begin with a spool's magic number")
    if header["version"] != _C["SPOOL_VERSION"]:
        raise SpoolVersion(path, f"{header['version']}, and this program reads version {_C['SPOOL_VERSION']}")
    if header["chunk_bytes"] != CHUNK_BYTES or header["ring_entries"] != _C["SPOOL_RING"]:
        raise NotASpool(path, "its chunk size or ring size is wrong")


def read_records(chunks: Iterable[Chunk], briefly: bool = False) -> Records:
    """The records of ``chunks``, with ``last`` = False. ``briefly``: see :meth:`Spool.batches`."""
    reading = _Reading()
    for chunk in chunks:
        _read_records(chunk, reading)
    if reading.events:
        found, invalid = unfolded(reading.events, briefly)
        reading.damaged += invalid
        for short, (records, process) in found.items():
            reading.bulk[short].append((records.view(np.uint8).reshape(-1, SLOT_BYTES), process))
    bulk = {name: _bulk(name, reading.bulk.pop(name, [])) for name in _BULK_KINDS}
    types, cut = _types(reading.payload["type"])
    payload, damaged, of_chunk = reading.payload, reading.damaged + cut, np.array(reading.chunks, np.int32)
    return Records(False, bulk, payload["process_start"], payload["module"], payload["code"], types, damaged, of_chunk)


def whole_slots(slots: Slots) -> int:
    """How many slots the records take that begin in the first of ``slots``, up to the first slot that is not claimed."""
    counts = slots[:, 2:4].copy().view("<u2").ravel().tolist()
    at = 0
    while at < len(counts) and counts[at] and at + counts[at] <= len(counts):
        at += counts[at]
    return at


def _read_records(chunk: Chunk, reading: _Reading) -> None:
    slots, process = chunk.slots, chunk.process
    if process > _LAST_ID:
        reading.damaged += 1
        return
    reading.chunks.append(process)
    heads = slots[:, :4].copy().view("<u4").ravel()
    if len(events := _events_alone(heads)):
        reading.events.append((slots_of(slots, events), process))
        return
    starts, long_starts, damaged = _record_starts(heads)
    reading.damaged += damaged
    kinds = heads & 0xFFFF
    of_kind = kinds[long_starts]
    is_events = (of_kind == KINDS[0]) | (of_kind == KINDS[1])
    events = long_starts[is_events & (heads[long_starts] >> 16 == EVENTS_SLOTS)]
    if len(events):
        reading.events.append((slots_of(slots, events), process))
    brief = np.flatnonzero(starts & (kinds == _C["RECORD_BRIEF"]))
    if len(brief):
        writer = np.full(len(brief), process, np.int32)
        for short, rows in zip(("alloc", "free"), _unfolded(slots[brief]), strict=True):
            reading.bulk[short].append((rows, writer))
    for number in np.flatnonzero(np.bincount(kinds[starts])).tolist():
        short = record_kinds().get(number, "").removeprefix("record_")
        if short in _BULK_KINDS:
            found = np.flatnonzero(starts & (kinds == number))
            reading.bulk[short].append((slots[found], np.full(len(found), process, np.int32)))
    present = set(of_kind.tolist())
    for name in _PAYLOAD_KINDS:
        if _numbers()[name] not in present:
            continue
        found = long_starts[of_kind == _numbers()[name]]
        records = slots[found].view(struct_dtype(f"record_{name}")).ravel()
        ends = found + (heads[found] >> 16)
        for record, at, end in zip(records, found.tolist(), ends.tolist(), strict=True):
            reading.payload[name].append(WithPayload(process, record, slots[at + 1 : end].tobytes()))


def _events_alone(heads: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """Where the records of events begin in a chunk that is full of them and has nothing else, as most chunks of exact mode;
    nothing for other chunks."""
    end = len(heads) // EVENTS_SLOTS * EVENTS_SLOTS
    firsts, rest = heads[:end:EVENTS_SLOTS], heads[end:]
    is_events = (firsts == EVENTS_HEADS[0]) | (firsts == EVENTS_HEADS[1])  # a tenth of the time of np.isin
    is_alone = is_events.all() and (not len(rest) or rest[0] == _C["SPOOL_PAD"] | len(rest) << 16)
    return np.arange(0, end if is_alone else 0, EVENTS_SLOTS)


def _unfolded(slots: Slots) -> tuple[Slots, Slots]:
    """The alloc and the free records that brief records stand for."""
    brief = slots.copy().view(struct_dtype("record_brief")).ravel()
    alloc, free = (np.zeros(len(brief), struct_dtype(f"record_{kind}")) for kind in ("alloc", "free"))
    for name in ("thread", "t_ns", "stack", "id", "size_bytes", "usable_bytes", "collections", "source", "flags"):
        alloc[name] = brief[name]
    alloc["interval_bytes"] = 1
    for name in ("thread", "id", "type", "collections"):
        free[name] = brief[name]
    free["t_ns"] = brief["t_ns"] + brief["lifetime_ns"]
    free["stack"], free["bytes"], free["flags"] = brief["free_stack"], brief["usable_bytes"], brief["free_flags"]
    return alloc.view(np.uint8).reshape(slots.shape), free.view(np.uint8).reshape(slots.shape)


@cache
def _numbers() -> dict[str, int]:
    """The number of each kind of record."""
    return {name.removeprefix("record_"): number for number, name in record_kinds().items()}


@cache
def _known() -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """For each number of a kind: is it known, and has it a payload?"""
    known, has_payload = np.zeros(1 << 16, np.bool_), np.zeros(1 << 16, np.bool_)
    known[[*record_kinds(), _C["SPOOL_PAD"], _C["SPOOL_OPEN_EVENTS"]]] = True
    has_payload[[_numbers()[name] for name in _PAYLOAD_KINDS]] = True
    return known, has_payload


def _record_starts(heads: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64], int]:
    """For each slot whether a record begins there, the slots of records that may have a payload, and the number of damaged
    records."""
    kinds, counts = heads & 0xFFFF, heads >> 16
    starts, end, cut = counts > 0, 0, 0
    known, has_payload = _known()
    candidates = np.flatnonzero(starts & ((counts > 1) | has_payload[kinds])).tolist()
    sizes, found, place = counts.tolist(), list[int](), 0
    while place < len(candidates):  # what is inside a record may look like the head of one
        found.append(at := candidates[place])
        end = at + sizes[at]
        place = bisect_left(candidates, end, place + 1)
    long_starts = np.array(found, np.int64)
    # +1 where the inside of a record begins, -1 behind it
    edges = np.zeros(max(len(heads), end) + 2, np.int8)
    edges[long_starts + 1] += 1
    edges[long_starts + counts[long_starts]] -= 1
    inside = np.cumsum(edges, dtype=np.int8)[: len(heads)].view(np.bool_)
    if end > len(heads):
        starts[found.pop()] = False
        cut = 1
    long_starts = long_starts[: len(found)]
    starts &= ~inside
    damaged = cut + int(np.count_nonzero((counts == 0) & (kinds != 0) & ~inside))
    unknown = starts & ~known[kinds]
    return starts & ~unknown, long_starts[kinds[long_starts] != 0], damaged + int(np.count_nonzero(unknown))


def _bulk(name: str, parts: list[tuple[Slots, npt.NDArray[np.int32]]]) -> Bulk:
    dtype = struct_dtype(f"record_{name}")
    if not parts:
        return Bulk(np.empty(0, dtype), np.empty(0, np.int32))
    slots, process = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
    records = np.ascontiguousarray(slots).view(dtype).ravel()
    parts.clear()  # exact mode has millions of allocation samples: do not keep them in memory twice
    found = Bulk(records, process)
    return by_time(found) if "t_ns" in (dtype.names or ()) else found


def _types(found: list[WithPayload]) -> tuple[dict[int, str], int]:
    """Names of types by hash (bytes that are not UTF-8 as escapes), and the number of records without their whole name."""
    whole = [each for each in found if int(each.record["name_bytes"]) <= len(each.payload)]
    names = {int(each.record["type"]): each.payload[: int(each.record["name_bytes"])] for each in whole}
    return {key: name.decode("utf-8", "backslashreplace") for key, name in names.items()}, len(found) - len(whole)
