"""The part of protobuf's wire format that profiles need. https://protobuf.dev/programming-guides/encoding/"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

_VARINT, _FIXED64, _LENGTH = 0, 1, 2


@dataclass
class Strings:
    """The string table; its first entry is the empty string."""

    texts: dict[str, int] = field(default_factory=lambda: {"": 0})

    def index(self, text: str) -> int:
        """The index of ``text``, which is added if it is new."""
        return self.texts.setdefault(text, len(self.texts))

    def message(self, number: int) -> bytes:
        """The table as a repeated field."""
        return b"".join(string(number, text) for text in self.texts)


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
    return chosen(field, value) if value else b""


def chosen(field: int, value: int) -> bytes:
    """An integer field that is written if it is 0 too, because it is one of several (``oneof``)."""
    return varint(field << 3 | _VARINT) + varint(value)


def fixed64(field: int, value: int) -> bytes:
    """A field of eight bytes; empty for 0."""
    return varint(field << 3 | _FIXED64) + struct.pack("<Q", value & 0xFFFF_FFFF_FFFF_FFFF) if value else b""


def packed(field: int, values: Iterable[int]) -> bytes:
    """A packed field of integers."""
    return chunk(field, b"".join(map(varint, values)))


def chunk(field: int, contents: bytes) -> bytes:
    """A length-delimited field: a message, a string or bytes."""
    return varint(field << 3 | _LENGTH) + varint(len(contents)) + contents


def string(field: int, text: str) -> bytes:
    """A text field; what cannot be UTF-8 (lone surrogates) is written as escapes."""
    return chunk(field, text.encode("utf-8", "backslashreplace"))


def fields_of(message: int | bytes) -> dict[int, int | bytes]:
    """The fields of a message, of each the last one: integers, and the bytes of those with a length. Raises ValueError."""
    found: dict[int, int | bytes] = {}
    rest = message if isinstance(message, bytes) else b""
    while rest:
        tag, rest = _read_varint(rest)
        if tag & 7 == _VARINT:
            found[tag >> 3], rest = _read_varint(rest)
            continue
        length, rest = (8, rest) if tag & 7 == _FIXED64 else _read_varint(rest)
        if tag & 7 not in (_FIXED64, _LENGTH) or length > len(rest):
            raise ValueError(tag)
        found[tag >> 3], rest = rest[:length], rest[length:]
    return found


def _read_varint(data: bytes) -> tuple[int, bytes]:
    value = 0
    for at, byte in enumerate(data[:10]):
        value |= (byte & 0x7F) << 7 * at
        if not byte & 0x80:
            return value, data[at + 1 :]
    raise ValueError(data[:10])
