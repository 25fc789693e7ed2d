"""Chunks of records: those in a spool file, and those that were drained from it into part files beside it.

A part file is a sequence of frames: ``_FRAME`` (see there), then the chunk's lines, transposed and deflated. A frame that
does not hold what it says ends its file: the recorder died while it wrote it, and the chunk is still in the spool.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .layout import constants, ffi
from .regular import open_regular

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Lines = npt.NDArray[np.uint8]

_C = constants()
SLOT_BYTES = _C["SPOOL_LINE_BYTES"]
CHUNK_SLOTS = _C["SPOOL_CHUNK_LINES"]
CHUNK_BYTES = _C["SPOOL_CHUNK_BYTES"]
CHUNKS_OFFSET = _C["SPOOL_CHUNKS_OFFSET"]

#: Magic, process, offer, lines of records, bytes that follow, CRC-32 of those.
_FRAME = struct.Struct("<IIQIII")
_FRAME_MAGIC = 0x31747270  # "prt1"
#: Fast, and three times smaller than the lines: transposed, equal bytes of successive records meet.
_LEVEL = 1


@dataclass(frozen=True)
class Chunk:
    """Records of one process. ``offer``: the chunk's number in the recording; ``lines``: uint8[n, 64], the lines behind
    the chunk's header."""

    process: int
    offer: int
    lines: Lines


def frame_of(process: int, offer: int, data: bytes, compress: bool = True) -> bytes:
    """The frame of a chunk. ``data``: its lines; ``compress``: False when there is no time for it."""
    transposed = b"".join([data[at::SLOT_BYTES] for at in range(SLOT_BYTES)])  # without numpy: it may be being imported
    packed = zlib.compress(transposed, _LEVEL if compress else 0)
    return _FRAME.pack(_FRAME_MAGIC, process, offer, len(data) // SLOT_BYTES, len(packed), zlib.crc32(packed)) + packed


def part_path(spool: Path, number: int) -> Path:
    """The part file ``number`` (from 1) of the spool at ``spool``."""
    return spool.with_name(f"{spool.name}.part{number:05}")


def read_chunks(spool: Path, slots: int) -> Iterator[Chunk]:
    """Every chunk of a recording that a process has taken, each once: drained ones first, then the ``slots`` first slots
    of the spool file in the order of their offers. Raises OSError when the spool cannot be read."""
    drained = set()
    for part in sorted(spool.parent.glob(f"{spool.name}.part*")):
        for chunk in _part_chunks(part):
            if chunk.offer not in drained:  # it is there twice where its slot could not be emptied at once
                drained.add(chunk.offer)
                yield chunk
    with spool.open("rb", buffering=0) as file:
        for offer, slot in sorted(_taken(file.fileno(), slots)):
            if offer not in drained:
                yield from _live_chunk(file.fileno(), slot)


def _part_chunks(path: Path) -> Iterator[Chunk]:
    import numpy as np

    file = open_regular(path)
    if file is None:
        return
    with file:
        while len(head := file.read(_FRAME.size)) == _FRAME.size:
            magic, process, offer, count, size, crc = _FRAME.unpack(head)
            if magic != _FRAME_MAGIC or not 0 < count < CHUNK_SLOTS or size > 2 * CHUNK_BYTES:
                return
            packed = file.read(size)
            if len(packed) != size or zlib.crc32(packed) != crc:
                return
            plain = _inflated(packed, count * SLOT_BYTES)
            if plain is None:
                return
            yield Chunk(process, offer, np.frombuffer(plain, np.uint8).reshape(SLOT_BYTES, count).T.copy())


def _inflated(packed: bytes, size: int) -> bytes | None:
    """The plain bytes if they are exactly ``size`` many (a hostile frame may claim to hold gigabytes)."""
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(packed, size + 1)
    except zlib.error:
        return None
    return plain if len(plain) == size else None


def _taken(descriptor: int, slots: int) -> Iterator[tuple[int, int]]:
    """Offer and slot of each chunk that belongs to a process."""
    existing = max(0, os.fstat(descriptor).st_size - CHUNKS_OFFSET) // SLOT_BYTES
    for slot in range(min(slots, _C["SPOOL_RING"], existing // CHUNK_SLOTS + 1)):
        data = os.pread(descriptor, SLOT_BYTES, CHUNKS_OFFSET + slot * CHUNK_BYTES)
        if len(data) == SLOT_BYTES and any(data[:4]):
            yield int(ffi().from_buffer("struct chunk_header *", data).offer), slot


def _live_chunk(descriptor: int, slot: int) -> Iterator[Chunk]:
    import numpy as np

    data = os.pread(descriptor, CHUNK_BYTES, CHUNKS_OFFSET + slot * CHUNK_BYTES)
    lines = np.frombuffer(data[: len(data) // SLOT_BYTES * SLOT_BYTES], np.uint8).reshape(-1, SLOT_BYTES)
    if len(lines) > 1 and lines[0, :4].any():
        head = ffi().from_buffer("struct chunk_header *", data)
        yield Chunk(int(head.process), int(head.offer), lines[1:])
