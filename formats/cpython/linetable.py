"""From an instruction of a code object to its line, for CPython 3.10 and for the location table of 3.11 and later.

Both formats describe runs of code units (two bytes each) in order, so a table becomes two arrays: where each run begins
and which line it has. A run covers whole instructions with their inline caches, so that an instruction pointer inside
the caches still finds the line.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

#: ``line`` of an instruction that has none.
NO_LINE = 0

_NO_LINE_310 = -128
_LAST_LINE = 2**31 - 1  # what a trace can hold; only a damaged table goes beyond
_KIND_NONE = 15
_KIND_LONG = 14
_KIND_NO_COLUMNS = 13
_KIND_ONE_LINE = 10  # and 11, 12: the line delta is kind - 10
_VARINT_MORE = 0x40
_VARINT_BYTES = 6  # of six bits: a line and its sign. Only a damaged table has longer ones


@dataclass(frozen=True)
class LineTable:
    """``starts[i]``: first code unit of run i; ``lines[i]``: its line (NO_LINE = none). ``first_line``: the function's."""

    first_line: int
    starts: list[int]
    lines: list[int]

    def line_of(self, instruction: int) -> int:
        """Line of the code unit ``instruction``; the function's first line before the first run."""
        run = bisect_right(self.starts, instruction) - 1
        return self.first_line if run < 0 else self.lines[run]


def supported(python_version: int) -> bool:
    """Is the line table format of this PY_VERSION_HEX known?"""
    return 0x030A0000 <= python_version < 0x030F0000


def line_table(python_version: int, first_line: int, table: bytes) -> LineTable:
    """Decodes ``co_linetable``; a damaged or unknown table yields as many runs as can be read."""
    if not supported(python_version) or not table:
        return LineTable(first_line, [], [])
    runs = _runs_310(first_line, table) if python_version < 0x030B0000 else _runs_311(first_line, table)
    pairs = list(runs)
    lines = [line if 0 <= line <= _LAST_LINE else NO_LINE for _, line in pairs]
    return LineTable(first_line, [start for start, _ in pairs], lines)


def _runs_310(first_line: int, table: bytes) -> Iterator[tuple[int, int]]:
    """(code unit, line) of each run: pairs of bytes, bytecode length and signed line delta (-128 = no line)."""
    line, at_bytes = first_line, 0
    for length, delta in zip(table[::2], table[1::2], strict=False):
        delta -= 256 * (delta > 127)
        if delta != _NO_LINE_310:
            line += delta
        if length:
            yield at_bytes // 2, NO_LINE if delta == _NO_LINE_310 else line
        at_bytes += length


def _runs_311(first_line: int, table: bytes) -> Iterator[tuple[int, int]]:
    """(code unit, line) of each run: entries that begin with a byte 1kkkklll (kind, length - 1 in code units)."""
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
    """Six bits a byte, least significant first, bit 6 = more follow; bit 0 of the result is the sign."""
    value = 0
    for number, byte in enumerate(table[at : at + _VARINT_BYTES]):
        value |= (byte & 0x3F) << 6 * number
        if not byte & _VARINT_MORE:
            break
    return -(value >> 1) if value & 1 else value >> 1
