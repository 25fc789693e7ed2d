"""The little of protobuf's wire format that a pprof profile needs. https://protobuf.dev/programming-guides/encoding/"""

from __future__ import annotations

from collections.abc import Iterable

_VARINT, _LENGTH = 0, 2


def varint(value: int) -> bytes:
    """``value`` in groups of seven bits, the lowest first; negative ones as 64-bit two's complement."""
    rest = value & 0xFFFF_FFFF_FFFF_FFFF
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def number(field: int, value: int) -> bytes:
    """A whole number; nothing at all for 0, which is what readers take for a missing one."""
    return varint(field << 3 | _VARINT) + varint(value) if value else b""


def packed(field: int, values: Iterable[int]) -> bytes:
    """A list of whole numbers."""
    return chunk(field, b"".join(map(varint, values)))


def chunk(field: int, contents: bytes) -> bytes:
    """A message, a text or bytes."""
    return varint(field << 3 | _LENGTH) + varint(len(contents)) + contents
