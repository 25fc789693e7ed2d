"""The part of protobuf's wire format that a pprof profile needs. https://protobuf.dev/programming-guides/encoding/"""

from __future__ import annotations

from collections.abc import Iterable

_VARINT, _LENGTH = 0, 2


def varint(value: int) -> bytes:
    """``value`` in groups of seven bits, the lowest first; negative values as 64-bit two's complement."""
    rest = value & 0xFFFF_FFFF_FFFF_FFFF
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def number(field: int, value: int) -> bytes:
    """An integer field; empty for 0, which is the default of readers."""
    return varint(field << 3 | _VARINT) + varint(value) if value else b""


def packed(field: int, values: Iterable[int]) -> bytes:
    """A packed field of integers."""
    return chunk(field, b"".join(map(varint, values)))


def chunk(field: int, contents: bytes) -> bytes:
    """A length-delimited field: a message, a string or bytes."""
    return varint(field << 3 | _LENGTH) + varint(len(contents)) + contents
