"""Writes Thrift's compact protocol, in which Parquet keeps its footer and the heads of its pages."""

from __future__ import annotations

from collections.abc import Sequence

from .thrift import BINARY, LIST, STRUCT

#: Elements of a list whose number fits into its head.
_FEW_ELEMENTS = 14


def varint(value: int) -> bytes:
    """An unsigned integer of variable length."""
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def integer(value: int) -> bytes:
    """A signed integer of at most 64 bits."""
    return varint((value << 1) ^ (value >> 63))


class Struct:
    """A struct, or the rest of one behind the field ``last``. Its fields are added in the order of their ids, which are at most
    15 apart."""

    def __init__(self, last: int = 0) -> None:
        self._bytes = bytearray()
        self._last = last

    def value(self, field: int, kind: int, value: bytes) -> Struct:
        """A field with a value as it is written."""
        self._bytes.append(field - self._last << 4 | kind)
        self._bytes += value
        self._last = field
        return self

    def integer(self, field: int, kind: int, value: int) -> Struct:
        """A field with a signed integer of type ``kind``."""
        return self.value(field, kind, integer(value))

    def binary(self, field: int, value: bytes) -> Struct:
        """A field with bytes, or a text."""
        return self.value(field, BINARY, varint(len(value)) + value)

    def struct(self, field: int, value: Struct) -> Struct:
        """A field with a struct."""
        return self.value(field, STRUCT, value.end())

    def list(self, field: int, kind: int, values: Sequence[bytes]) -> Struct:
        """A field with a list of values of type ``kind``, each as it is written."""
        return self.value(field, LIST, list_of(kind, values))

    @property
    def fields(self) -> bytes:
        """The fields as they are written, without the end."""
        return bytes(self._bytes)

    def end(self) -> bytes:
        """The struct as it is written."""
        return bytes(self._bytes) + b"\0"


def list_of(kind: int, values: Sequence[bytes]) -> bytes:
    """A list as it is written; each of ``values`` is as it is written."""
    count = len(values)
    head = bytes((count << 4 | kind,)) if count <= _FEW_ELEMENTS else bytes((0xF0 | kind,)) + varint(count)
    return head + b"".join(values)
