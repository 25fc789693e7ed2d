"""Decodes the line tables of code objects: the format of CPython 3.10, and the location table of 3.11 and later.

Both formats describe runs of code units (two bytes each) in order, so a decoded table is two arrays: where each run begins,
and which line it has. A run covers whole instructions with their inline caches, so an instruction pointer inside of the
caches finds the right line too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

#: ``line`` of an instruction that has none.
NO_LINE = 0

_NO_LINE_310 = -128
_LAST_LINE = 2**31 - 1  # the largest one that a trace can hold; only a damaged table has larger ones
_KIND_NONE = 15
_KIND_LONG = 14
_KIND_NO_COLUMNS = 13
_KIND_ONE_LINE = 10  # and 11, 12: the line delta is kind - 10
_VARINT_MORE = 0x40
_VARINT_BYTES = 6  # of six bits each, enough for a line and its sign; only a damaged table has longer ones


@dataclass(frozen=True)
class LineTable:
    """``starts[i]``: first code unit of run i; ``lines[i]``: its line (NO_LINE = none); ``first_line``: of the function, for
    instructions before the first run."""

    first_line: int
    starts: list[int]
    lines: list[int]

    def lines_of(self, units: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The line of each code unit."""
        known = np.array([self.first_line, *self.lines], np.int64)
        return known[np.searchsorted(np.array(self.starts, np.int64), units, "right")]


def supported(python_version: int) -> bool:
    """Is the line table format of this version (PY_VERSION_HEX) known?"""
    return 0x030A0000 <= python_version < 0x030F0000


def line_table(python_version: int, first_line: int, table: bytes) -> LineTable:
    """Decodes ``table``, the bytes of ``co_linetable``. ``python_version``: PY_VERSION_HEX. A damaged table gives the runs
    that can be decoded, an unknown format none."""
    if not supported(python_version) or not table:
        return LineTable(first_line, [], [])
    runs = _runs_310(first_line, table) if python_version < 0x030B0000 else _runs_311(first_line, table)
    pairs = list(runs)
    lines = [line if 0 <= line <= _LAST_LINE else NO_LINE for _, line in pairs]
    return LineTable(first_line, [start for start, _ in pairs], lines)


def _runs_310(first_line: int, table: bytes) -> Iterator[tuple[int, int]]:
    """(code unit, line) of each run. The table is pairs of bytes: length in bytes, and signed line delta (-128 = no
    line)."""
    line, at_bytes = first_line, 0
    for length, delta in zip(table[::2], table[1::2], strict=False):
        delta -= 256 * (delta > 127)
        if delta != _NO_LINE_310:
            line += delta
        if length:
            yield at_bytes // 2, NO_LINE if delta == _NO_LINE_310 else line
        at_bytes += length


def _runs_311(first_line: int, table: bytes) -> Iterator[tuple[int, int]]:
    """(code unit, line) of each run. The table is entries that begin with a byte 1kkkklll: kind, and length - 1 in code
    units."""
    line, unit, at = first_line, 0, 0
    while at < len(table):
        kind, length = table[at] >> 3 & 15, (table[at] & 7) + 1
        at += 1
        if kind in (_KIND_LONG, _KIND_NO_COLUMNS):
            line += _signed_varint(table, at)
        elif _KIND_ONE_LINE <= kind < _KIND_NO_COLUMNS:
            line += kind - _KIND_ONE_LINE
        yield unit, NO_LINE if kind == _KIND_NONE else line
        unit += length
        while at < len(table) and not table[at] & 0x80:  # only the first byte of an entry has the top bit
            at += 1


def _signed_varint(table: bytes, at: int) -> int:
    """Decodes a signed varint: six bits in each byte, least significant first, bit 6 = another byte follows; bit 0 of the
    result is the sign."""
    value = 0
    for number, byte in enumerate(table[at : at + _VARINT_BYTES]):
        value |= (byte & 0x3F) << 6 * number
        if not byte & _VARINT_MORE:
            break
    return -(value >> 1) if value & 1 else value >> 1
