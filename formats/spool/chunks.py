"""Chunks of records: those in the spool file, and those that were moved from it into part files beside it.

A part file is a sequence of frames: a header (``_FRAME``), then the chunk's slots, transposed and deflated. The reader stops
at an invalid frame: the recorder died while it wrote the frame, and the chunk is still in the spool.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..dataclass import dataclass, field
from .layout import constants, ffi, record_kinds
from .regular import open_regular

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Slots = npt.NDArray[np.uint8]

_C = constants()
#: A record takes one slot or more. A chunk is a header of one slot and then records.
SLOT_BYTES = _C["SPOOL_SLOT_BYTES"]
CHUNK_SLOTS = _C["SPOOL_CHUNK_SLOTS"]
CHUNK_BYTES = _C["SPOOL_CHUNK_BYTES"]
CHUNKS_OFFSET = _C["SPOOL_CHUNKS_OFFSET"]

#: Magic, process, offer, number of slots, number of bytes that follow, CRC-32 of those bytes.
_FRAME = struct.Struct("<IIQIII")
_FRAME_MAGIC = 0x31747270  # "prt1"
#: Kinds of records that their process may still change.
_UNFINISHED = (0, _C["SPOOL_OPEN_EVENTS"])
#: The fastest level reduces the slots to a third, because transposing puts equal bytes of successive records together.
_LEVEL = 1


@dataclass(frozen=True)
class Chunk:
    """Records of one process. ``offer``: the chunk's number in the recording; ``slots``: uint8[n, 64], the slots after the
    chunk's header."""

    process: int
    offer: int
    slots: Slots


class Live(NamedTuple):
    """A chunk in the spool file. ``place``: its index there; ``slots``: how many it has given to records; ``is_closed``: it
    will give no more."""

    offer: int
    place: int
    slots: int
    is_closed: bool


@dataclass(frozen=True)
class View:
    """The chunks that the recording at ``spool`` had at one moment. ``parts``: part files in order, with their sizes in
    bytes then; ``live``: the chunks in the spool file, by offer; ``skipped``: how many slots at the beginning of chunks in the
    spool file do not belong to it, by offer. What is added later does not belong to it, but no chunk of ``live`` may be moved
    while it is read (recorder/spool/drain.py)."""

    spool: Path
    parts: list[tuple[Path, int]]
    live: list[Live]
    skipped: Mapping[int, int] = field(default_factory=dict)


def frame_of(process: int, offer: int, data: bytes, compress: bool = True) -> bytes:
    """The frame of a chunk. ``data``: the bytes of its slots, without the header; ``compress``: False when there is no time
    for it."""
    # Without numpy, which another thread may be importing: that would block this one.
    transposed = b"".join([data[at::SLOT_BYTES] for at in range(SLOT_BYTES)])
    packed = zlib.compress(transposed, _LEVEL if compress else 0)
    return _FRAME.pack(_FRAME_MAGIC, process, offer, len(data) // SLOT_BYTES, len(packed), zlib.crc32(packed)) + packed


def part_path(spool: Path, number: int) -> Path:
    """The part file ``number`` (from 1) of the spool at ``spool``."""
    return spool.with_name(f"{spool.name}.part{number:05}")


def view_of(spool: Path, descriptor: int, count: int) -> View:
    """The chunks that the recording has now. ``descriptor``: that of the open spool file; ``count``: chunks that were ever
    offered. Raises OSError."""
    parts = []
    for path in sorted(spool.parent.glob(f"{spool.name}.part*")):
        with suppress(OSError):
            parts.append((path, path.lstat().st_size))
    return View(spool, parts, sorted(_taken(descriptor, count)))


class Offers:
    """A set of offers. They are numbered without gaps, so that 64 of them share one number."""

    def __init__(self) -> None:
        self._bits: dict[int, int] = {}

    def copy(self) -> Offers:
        """The same offers, as a set of their own."""
        made = Offers()
        made._bits = dict(self._bits)
        return made

    def add(self, offer: int) -> bool:
        """Adds an offer. False = it was there."""
        if offer in self:
            return False
        self._bits[offer >> 6] = self._bits.get(offer >> 6, 0) | 1 << (offer & 63)
        return True

    def __contains__(self, offer: int) -> bool:
        return bool(self._bits.get(offer >> 6, 0) >> (offer & 63) & 1)

    def __or__(self, other: Offers) -> Offers:
        """The offers of both, as a set of their own."""
        made = self.copy()
        for part, bits in other._bits.items():
            made._bits[part] = made._bits.get(part, 0) | bits
        return made


def read_chunks(view: View, known: Offers | None = None) -> Iterator[Chunk]:
    """Every chunk of ``view`` that is not in ``known``, each once: first those in part files, then those in the spool file,
    in the order of their offers. Raises OSError when the spool cannot be read."""
    found = known.copy() if known else Offers()
    for path, size in view.parts:
        yield from (chunk for chunk, _ in part_chunks(path, 0, size, found))
    with view.spool.open("rb", buffering=0) as file:
        for each in view.live:
            if each.offer in found:
                continue
            first = view.skipped.get(each.offer, 0)
            # What will not change need not be read twice.
            chunk = finished_chunk(file.fileno(), each.place) if each.is_closed and not first else None
            chunk = chunk or live_chunk(file.fileno(), each.place, first)
            # If the offers differ, it was moved, and this is another one in its place.
            if chunk is not None and chunk.offer == each.offer:
                yield chunk


def part_chunks(path: Path, first: int, end: int, found: Offers) -> Iterator[tuple[Chunk, int]]:
    """The chunks of a part file from the byte ``first`` to the byte ``end`` whose offers are not in ``found``, to which they
    are added, and where each one's frame ends. (A chunk is stored twice if its place in the spool could not be emptied at
    once.)"""
    import numpy as np  # here, because the recorder imports this module before it starts the program

    file = open_regular(path)
    if file is None:
        return
    with file:
        at = file.seek(first)
        while len(head := file.read(_FRAME.size)) == _FRAME.size:
            magic, process, offer, count, packed_bytes, crc = _FRAME.unpack(head)
            at += _FRAME.size + packed_bytes
            if at > end or magic != _FRAME_MAGIC or not 0 < count < CHUNK_SLOTS or packed_bytes > 2 * CHUNK_BYTES:
                return
            if offer in found:
                file.seek(at)
                continue
            packed = file.read(packed_bytes)
            if len(packed) != packed_bytes or zlib.crc32(packed) != crc:
                return
            plain = _inflated(packed, count * SLOT_BYTES)
            if plain is None:
                return
            found.add(offer)
            slots = np.frombuffer(plain, np.uint8).reshape(SLOT_BYTES, count).T.copy()
            yield Chunk(process, offer, slots), at


def _inflated(packed: bytes, size: int) -> bytes | None:
    """The inflated bytes if there are exactly ``size``, else None: a malicious frame may inflate to gigabytes."""
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(packed, size + 1)
    except zlib.error:
        return None
    return plain if len(plain) == size else None


def _taken(descriptor: int, count: int) -> Iterator[Live]:
    """Each chunk that belongs to a process."""
    existing = max(0, os.fstat(descriptor).st_size - CHUNKS_OFFSET) // SLOT_BYTES
    for index in range(min(count, _C["SPOOL_RING"], existing // CHUNK_SLOTS + 1)):
        data = os.pread(descriptor, SLOT_BYTES, CHUNKS_OFFSET + index * CHUNK_BYTES)
        if len(data) == SLOT_BYTES and any(data[:4]):
            header = ffi().from_buffer("struct chunk_header *", data)
            yield Live(int(header.offer), index, min(int(header.cursor), CHUNK_SLOTS) - 1, bool(header.closed))


def is_finished(data: bytes, used: int) -> bool:
    """Does each of the first ``used`` slots of a closed chunk belong to a published record? ``data``: the chunk with its
    header."""
    end = used * SLOT_BYTES
    lengths = data[SLOT_BYTES + 2 : end : SLOT_BYTES], data[SLOT_BYTES + 3 : end : SLOT_BYTES]
    if lengths == (b"\1" * (used - 1), bytes(used - 1)) and 0 not in data[SLOT_BYTES:end:SLOT_BYTES]:
        return True  # records of one slot each, as most chunks have them: ten times as fast as the loop
    heads = memoryview(data).cast("I")[:: SLOT_BYTES // 4].tolist()
    slot = 1
    while slot < used and heads[slot] & 0xFFFF not in _UNFINISHED and heads[slot] >> 16:
        slot += heads[slot] >> 16
    return slot >= used


def finished_chunk(descriptor: int, index: int) -> Chunk | None:
    """The chunk at ``index`` of the spool file ``descriptor``; None = it may still be changed."""
    import numpy as np  # as in part_chunks

    data = os.pread(descriptor, CHUNK_BYTES, CHUNKS_OFFSET + index * CHUNK_BYTES)
    header = ffi().from_buffer("struct chunk_header *", data) if len(data) == CHUNK_BYTES else None
    if header is None or not header.process or not header.closed:
        return None
    used = min(max(1, int(header.cursor)), CHUNK_SLOTS)
    if not is_finished(data, used):
        return None
    slots = np.frombuffer(data, np.uint8, used * SLOT_BYTES).reshape(-1, SLOT_BYTES)
    return Chunk(int(header.process), int(header.offer), slots[1:])


def live_chunk(descriptor: int, index: int, first: int = 0) -> Chunk | None:
    """The chunk at ``index`` of the spool file ``descriptor``, without its first ``first`` slots; None = it is no process's,
    or has no more."""
    import numpy as np  # as in part_chunks

    data = os.pread(descriptor, CHUNK_BYTES, CHUNKS_OFFSET + index * CHUNK_BYTES)
    again = os.pread(descriptor, len(data), CHUNKS_OFFSET + index * CHUNK_BYTES)
    count = min(len(data), len(again)) // SLOT_BYTES
    slots, later = (np.frombuffer(each, np.uint8, count * SLOT_BYTES).reshape(-1, SLOT_BYTES) for each in (data, again))
    # An alloc record that a process has changed to a brief one while it was read may be half of each. Its head changes
    # before the rest, and once only. (An unfinished record is left out.) Of records of several slots, only those of events
    # grow, which are read up to the first event that is not there yet.
    is_single = (slots[:, 2] == 1) & (slots[:, 3] == 0)
    changed = is_single & (slots[:, :4] != later[:, :4]).any(axis=1)
    slots = np.where(changed[:, None], later, slots) if changed.any() else slots
    if len(slots) <= 1 + first or not slots[0, :4].any():
        return None
    head = ffi().from_buffer("struct chunk_header *", data)
    return Chunk(int(head.process), int(head.offer), slots[1 + first :])


def slots_until(slots: Slots, until_ns: int, is_over: bool = False) -> int:
    """How many of ``slots`` belong to the records up to the first one that is younger than ``until_ns`` (CLOCK_MONOTONIC), or
    unpublished. ``is_over``: unpublished ones belong to them too, because their process has ended."""
    heads = slots[:, :4].copy().view("<u4").ravel().tolist()
    times = slots[:, 8:16].copy().view("<i8").ravel().tolist()
    at = 0
    while at < len(heads):
        kind, count = heads[at] & 0xFFFF, heads[at] >> 16
        if (
            (kind in _UNFINISHED and not is_over)
            or at + count > len(heads)
            or (kind in _timed() and times[at] > until_ns)
        ):
            break
        at += max(count, 1)
    return at


def definitions_in(slots: Slots) -> bytes:
    """The records among ``slots``, up to the first one that is unpublished, that say what hashes stand for: code, nodes of
    stacks, functions, names. What was recorded before them may refer to them."""
    heads = slots[:, :4].copy().view("<u4").ravel().tolist()
    found, at = [], 0
    while at < len(heads):
        kind, count = heads[at] & 0xFFFF, heads[at] >> 16
        if not kind or at + count > len(heads):
            break
        if kind in _definitions():
            found.append(slots[at : at + count].tobytes())
        at += max(count, 1)
    return b"".join(found)


@cache
def _definitions() -> frozenset[int]:
    names = ("record_node", "record_code", "record_native", "record_type")
    return frozenset(number for number, name in record_kinds().items() if name in names)


@cache
def _timed() -> frozenset[int]:
    """The kinds of records with a time, which is their third field."""
    structs = {number: ffi().typeof(f"struct {name}") for number, name in record_kinds().items()}
    return frozenset(number for number, struct in structs.items() if dict(struct.fields).get("t_ns"))
