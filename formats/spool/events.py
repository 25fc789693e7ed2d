"""Unfolds records of events: the alloc, free and note records that their events stand for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .layout import constants, rows_of, struct_dtype

if TYPE_CHECKING:
    from .chunks import Chunk, Slots

_C = constants()
EVENTS_SLOTS = _C["EVENTS_SLOTS"]
KINDS = (_C["RECORD_EVENTS"], _C["SPOOL_OPEN_EVENTS"])
#: The heads of their records.
EVENTS_HEADS = tuple(kind | EVENTS_SLOTS << 16 for kind in KINDS)
_NUMBERS = 256

#: For each kind whether it has a time of its own.
_IS_TIMED = np.zeros(256, np.bool_)
_IS_TIMED[[_C[f"EVENT_{name}"] for name in ("ALLOC", "ALLOC_LARGE", "FREE", "TYPED")]] = True

Rows = npt.NDArray[np.int64]
#: Records and their processes, by kind.
Unfolded = dict[str, tuple[npt.NDArray[np.void], npt.NDArray[np.int32]]]


@cache
def _event() -> np.dtype[np.void]:
    return struct_dtype("spool_event")


class Watched:
    """The chunks, and whether any of them ``has_events``."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self.has_events = False
        self._chunks = chunks

    def __iter__(self) -> Iterator[Chunk]:
        for chunk in self._chunks:
            self.has_events = self.has_events or bool(_events_in(chunk.slots))
            yield chunk


def _events_in(slots: Slots) -> int:
    """About how many records of events there are."""
    return _count(slots[:, :4].copy().view("<u4"), EVENTS_HEADS)


def _count(heads: npt.NDArray[np.unsignedinteger], wanted: Iterable[int]) -> int:
    return sum(int(np.count_nonzero(heads == head)) for head in wanted)


def records_in(slots: Slots) -> int:
    """About how many slots the records take that are in these slots, or that these stand for."""
    heads = slots[:, :4].copy().view("<u4")
    brief = _count(heads.view(np.uint8)[:, 0], [_C["RECORD_BRIEF"]])
    return len(slots) + brief + _count(heads, EVENTS_HEADS) * EVENTS_SLOTS * 3


def slots_of(slots: Slots, found: Rows) -> Slots:
    """The records of events that begin in the slots ``found`` of a chunk: uint8[n, EVENTS_SLOTS, 64]."""
    first, count = int(found[0]), len(found) * EVENTS_SLOTS
    if int(found[-1]) + EVENTS_SLOTS == first + count:  # one after the other: nothing to copy
        return slots[first : first + count].reshape(-1, EVENTS_SLOTS, slots.shape[1])
    rows: Slots = slots[found[:, None] + np.arange(EVENTS_SLOTS)]
    return rows


def unfolded(rows: Slots, process: npt.NDArray[np.int32], briefly: bool = False) -> tuple[Unfolded, int]:
    """The records by kind with their processes, and the number of events that are invalid, or lost behind a missing one of a
    finished record. ``rows``: records of events; ``process``: of each; ``briefly``: instead, alloc records with all stacks,
    threads, times and counts of collections that occur, without anything else."""
    heads = rows[:, 0].copy().view(struct_dtype("record_events")).ravel()
    # as bytes: numpy copies events field by field
    all_events = np.ascontiguousarray(rows[:, 1:]).reshape(len(rows), -1).view(_event())
    events, filled = all_events.ravel(), (all_events["kind"] != 0) & (all_events["value"] != 0)
    counts, lost = np.count_nonzero(filled, axis=1), 0
    record = np.repeat(np.arange(len(rows)), counts)
    if len(record) < len(events):
        partial = np.flatnonzero(counts < all_events.shape[1])
        written = np.logical_and.accumulate(filled[partial], axis=1)
        is_finished = heads["head"][partial] & 0xFFFF == _C["RECORD_EVENTS"]
        lost = int(np.count_nonzero((filled[partial] & ~written)[is_finished]))
        filled[partial] = written
        record = np.repeat(np.arange(len(rows)), np.count_nonzero(filled, axis=1))
        events = rows_of(events, np.flatnonzero(filled))
    kinds = events["kind"]
    is_large = kinds == _C["EVENT_ALLOC_LARGE"]
    large_count = np.count_nonzero(is_large)
    is_large[1:] &= (kinds[:-1] == _C["EVENT_BYTES"]) & (record[1:] == record[:-1])
    is_large[:1] = False
    invalid = lost + int(np.count_nonzero(kinds > _C["EVENT_BYTES"]) + large_count - np.count_nonzero(is_large))
    unfold = _briefly if briefly else _whole
    made = unfold(heads, events, record, is_large)
    return {kind: (records, process[record[row]]) for kind, (records, row) in made.items()}, invalid


def _briefly(
    heads: npt.NDArray[np.void], events: npt.NDArray[np.void], record: Rows, is_large: npt.NDArray[np.bool_]
) -> dict[str, tuple[npt.NDArray[np.void], Rows]]:
    context = _contexts(heads, events, record)
    rows = np.flatnonzero(_IS_TIMED[events["kind"]])
    before, after = rows[:-1], rows[1:]
    differs = (record[before] != record[after]) | (context[before] != context[after])
    ends = np.append(differs, True)[: len(rows)] | np.insert(differs, 0, True)[: len(rows)]
    stacks, rows = np.flatnonzero(events["kind"] == _C["EVENT_STACK"]), rows[ends]
    chosen = np.concatenate([stacks, rows])
    records = np.zeros(len(chosen), struct_dtype("record_alloc"))
    records["stack"][: len(stacks)] = events["value"][stacks]
    records["t_ns"] = heads["t_ns"][record[chosen]]
    timed = records[len(stacks) :]
    timed["t_ns"] += events["after_ns"][rows]
    timed["thread"], timed["collections"] = context[rows] & 0xFFFFFFFF, context[rows] >> np.uint64(32)
    return {"alloc": (records, chosen)}


def _whole(
    heads: npt.NDArray[np.void], events: npt.NDArray[np.void], record: Rows, is_large: npt.NDArray[np.bool_]
) -> dict[str, tuple[npt.NDArray[np.void], Rows]]:
    kinds, values = events["kind"], events["value"]
    stacks = _numbered(events, record, len(heads), _C["EVENT_STACK"], events["stack"])
    types = _numbered(events, record, len(heads), _C["EVENT_TYPE_NAME"], events["more"] & 0xFF)
    context = _contexts(heads, events, record)
    t_ns = heads["t_ns"][record] + events["after_ns"]

    def made(kind: str, rows: Rows) -> npt.NDArray[np.void]:
        records = np.zeros(len(rows), struct_dtype(f"record_{kind}"))
        records["thread"], records["id"] = context[rows] & 0xFFFFFFFF, values[rows]
        if kind != "note":
            records["t_ns"], records["collections"] = t_ns[rows], context[rows] >> np.uint64(32)
            records["stack"] = stacks[record[rows], events["stack"][rows]]
        return records

    rows = of_alloc = np.flatnonzero((kinds == _C["EVENT_ALLOC"]) | is_large)
    alloc, more = made("alloc", rows), events["more"][rows]
    alloc["size_bytes"], alloc["usable_bytes"] = more & 1023, (more >> 10).astype(np.uint64) * 16
    alloc["interval_bytes"], alloc["source"] = 1, _C["ALLOC_PYMALLOC"]
    alloc["flags"] = heads["flags"][record[rows]]
    large = np.flatnonzero(is_large[rows])
    before = rows[large] - 1
    alloc["size_bytes"][large] = values[before]
    alloc["usable_bytes"][large] = values[before] + events["more"][before]
    alloc["source"][large] = events["stack"][before] & 127
    not_python = large[events["stack"][before] < 128]
    alloc["flags"][not_python] &= 0xFFFF ^ _C["ALLOC_PYTHON"]

    of_free = np.flatnonzero(kinds == _C["EVENT_FREE"])
    free, more = made("free", of_free), events["more"][of_free]
    free["type"], free["flags"] = types[record[of_free], more & 0xFF], more >> 8

    typed = np.flatnonzero(kinds == _C["EVENT_TYPED"])
    note = made("note", typed)
    note["type"], note["flags"] = types[record[typed], events["more"][typed] & 0xFF], _C["NOTE_TYPE"]
    return {"alloc": (alloc, of_alloc), "free": (free, of_free), "note": (note, typed)}


def _numbered(
    events: npt.NDArray[np.void], record: Rows, count: int, kind: int, number: npt.NDArray[np.integer]
) -> npt.NDArray[np.uint64]:
    """The hash of each number in each record, 0 where there is none."""
    hashes = np.zeros((count, _NUMBERS), np.uint64)
    rows = np.flatnonzero(events["kind"] == kind)
    hashes[record[rows], number[rows]] = events["value"][rows]
    hashes[:, 0] = 0
    return hashes


def _contexts(heads: npt.NDArray[np.void], events: npt.NDArray[np.void], record: Rows) -> npt.NDArray[np.uint64]:
    """Thread | collections << 32 of each event: those of the last event before it in its record that says so, or of the
    record."""
    first = heads["thread"].astype(np.uint64) | heads["collections"].astype(np.uint64) << np.uint64(32)
    changes = np.flatnonzero(events["kind"] == _C["EVENT_THREAD"])
    if not len(changes):
        return first[record]
    last = np.zeros(len(events), np.int64)
    last[changes] = changes + 1
    last = np.maximum.accumulate(last) - 1
    is_changed = (last >= 0) & (record[np.maximum(last, 0)] == record)
    return np.where(is_changed, events["value"][np.maximum(last, 0)], first[record])
