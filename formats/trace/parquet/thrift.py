"""Reads Thrift's compact protocol, in which Parquet writes its footer and the heads of its pages.

No number of elements is trusted: each element takes at least a byte, so a list that claims more than there are bytes is
refused, and what is not asked for is skipped and never built. Time and memory are bounded by the size of the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(3, 13)
_FLAGS = (1, 2)  # true and false: the type is the value
_INTEGERS = (I16, I32, I64)
#: Most structures within structures. A footer has six levels.
_DEEPEST = 16
_MOST_BITS = 70
#: Most elements of a list that is skipped. The longest one of a footer is a histogram of levels.
_MOST_ELEMENTS = 10_000


class NotThrift(ValueError):  # noqa: N818 (says what is wrong)
    """The bytes are not what a Thrift writer writes."""


class ThriftReader:
    """Reads values one after the other; ``at`` is the offset of the next one.

    All methods may raise NotThrift, and IndexError where the bytes end: to catch it at each byte would double the time.
    """

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self.at = at

    def varint(self) -> int:
        """An unsigned integer of variable length."""
        value = self._data[self.at]
        self.at += 1
        return value if value < 0x80 else self._longer(value & 0x7F)

    def _longer(self, value: int) -> int:
        """An unsigned integer whose first seven bits have been read."""
        data, at, shift = self._data, self.at, 7
        while (byte := data[at]) >= 0x80:
            value |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if shift > _MOST_BITS:
                raise NotThrift("a number is too long")
        self.at = at + 1
        return value | byte << shift

    def integer(self) -> int:
        """A signed integer of 16, 32 or 64 bits."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def binary(self) -> bytes:
        """Bytes, or a text."""
        length = self.varint()
        start = self.at
        self._pass(length)
        return self._data[start : self.at]

    def elements(self) -> tuple[int, int]:
        """The head of a list: the number of its elements, which follow, and their type."""
        head = self._data[self.at]
        self.at += 1
        size = head >> 4
        if size == 0xF:
            size = self.varint()
        if size > len(self._data) - self.at:
            raise NotThrift("a list claims more elements than there are bytes")
        return size, head & 0xF

    def fields(self) -> Iterator[tuple[int, int]]:
        """The fields of a struct: id and type. Read or skip the value before the next one."""
        data, field = self._data, 0
        while head := data[self.at]:
            self.at += 1
            field = field + (head >> 4) if head >> 4 else self.integer()
            yield field, head & 0xF
        self.at += 1

    def skip(self, kind: int, depth: int = 0) -> None:
        """Passes over the value of a field of this type."""
        if kind in _INTEGERS:
            self.varint()
        elif kind == BINARY:
            self._pass(self.varint())
        elif kind == STRUCT:
            self._skip_struct(depth + 1)
        elif kind in (LIST, SET):
            size, inner = self.elements()
            self._skip_elements(size, inner, depth + 1)
        elif kind in (BYTE, DOUBLE):
            self._pass(8 if kind == DOUBLE else 1)
        elif kind not in _FLAGS:  # maps are not part of Parquet
            raise NotThrift(f"type {kind} is unknown")

    def _skip_struct(self, depth: int) -> None:
        if depth > _DEEPEST:
            raise NotThrift("structures are nested too deeply")
        data, at = self._data, self.at
        while head := data[at]:
            self.at = at + 1
            if not head >> 4:
                self.varint()
            if head & 0xF in _INTEGERS:
                self.varint()
            else:
                self.skip(head & 0xF, depth)
            at = self.at
        self.at = at + 1

    def _skip_elements(self, size: int, kind: int, depth: int) -> None:
        if depth > _DEEPEST:
            raise NotThrift("structures are nested too deeply")
        if size > _MOST_ELEMENTS:
            raise NotThrift(f"a list has {size:,} elements")
        if kind in _FLAGS:
            self._pass(size)
        elif kind in _INTEGERS:
            for _ in range(size):
                self.varint()
        else:
            for _ in range(size):
                self.skip(kind, depth)

    def _pass(self, count: int) -> None:
        self.at += count
        if self.at > len(self._data):
            raise NotThrift("a value is longer than the bytes")
