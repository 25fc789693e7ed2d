"""Unfolds records of events: the alloc, free and note records that their events stand for."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..errors import LibraryMissing
from ..libraries import WATCH_NAME, watch_library
from .layout import constants, struct_dtype

if TYPE_CHECKING:
    from .chunks import Chunk, Slots

_C = constants()
EVENTS_SLOTS = _C["EVENTS_SLOTS"]
KINDS = (_C["RECORD_EVENTS"], _C["SPOOL_OPEN_EVENTS"])
#: The heads of their records.
EVENTS_HEADS = tuple(kind | EVENTS_SLOTS << 16 for kind in KINDS)
#: Of records, in bytes.
_ALIGNMENT = 8
_UNFOLDED_KINDS = ("alloc", "free", "note")

Rows = npt.NDArray[np.int64]
#: Records and their processes, by kind.
Unfolded = dict[str, tuple[npt.NDArray[np.void], npt.NDArray[np.int32]]]


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


def unfolded(found: Sequence[tuple[Slots, int]], briefly: bool = False) -> tuple[Unfolded, int]:
    """The records by kind with their processes, and the number of events that are invalid, or lost behind a missing one of a
    finished record. ``found``: records of events, and the process that has written them. They are read twice, so they must
    be copies that no process changes. ``briefly``: instead, alloc records with all stacks, threads, times and counts of
    collections that occur, without anything else. Raises LibraryMissing, OSError."""
    aligned = [(_aligned(slots), process) for slots, process in found]
    counted, into, made = _Unfolding(), _Unfolding(), Unfolded()
    _unfold(aligned, briefly, counted)
    for kind in _UNFOLDED_KINDS:
        count = int(getattr(counted, kind).count)
        made[kind] = np.empty(count, struct_dtype(f"record_{kind}")), np.empty(count, np.int32)
        records, process = made[kind]
        setattr(into, kind, _Kind(records.ctypes.data, process.ctypes.data, 0))
    _unfold(aligned, briefly, into)
    return made, int(counted.invalid)


def _aligned(slots: Slots) -> Slots:
    """The same, as C reads it."""
    return np.ascontiguousarray(slots) if slots.ctypes.data % _ALIGNMENT == 0 else slots.copy()


class _Kind(ctypes.Structure):
    """``struct unfolded`` of shim/watch/unfold/unfold.c."""

    _fields_ = (("records", ctypes.c_void_p), ("process", ctypes.c_void_p), ("count", ctypes.c_int64))


class _Unfolding(ctypes.Structure):
    """``struct unfolding``."""

    _fields_ = (*((kind, _Kind) for kind in _UNFOLDED_KINDS), ("invalid", ctypes.c_int64))


def _unfold(found: Sequence[tuple[Slots, int]], briefly: bool, into: _Unfolding) -> None:
    try:
        unfold = watch_library().scalene_unfold
    except AttributeError as error:  # that of an older version
        raise LibraryMissing(WATCH_NAME) from error
    unfold.restype = None
    for slots, process in found:
        count, writer = ctypes.c_int64(len(slots)), ctypes.c_int32(process)
        unfold(ctypes.c_void_p(slots.ctypes.data), count, writer, ctypes.c_int(briefly), ctypes.byref(into))
