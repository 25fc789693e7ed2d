"""Decodes the line tables of code objects: the format of CPython 3.10, and the location table of 3.11 and later.

Both formats describe runs of code units (two bytes each) in order, so a decoded table is two arrays: where each run begins,
and which line it has. A run covers whole instructions with their inline caches, so an instruction pointer inside of the
caches finds the right line too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..dataclass import dataclass

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
_MOST_BYTES = 1 << 18  # of what is decoded together: the arrays take some thirty times as much

Ints = npt.NDArray[np.int64]


class Encoded(NamedTuple):
    """``version``: PY_VERSION_HEX; ``first_line``: of the function; ``table``: the bytes of ``co_linetable``."""

    version: int
    first_line: int
    table: bytes


@dataclass(frozen=True)
class LineTable:
    """``starts[i]``: first code unit of run i; ``lines[i]``: its line (NO_LINE = none); ``first_line``: of the function, for
    instructions before the first run."""

    first_line: int
    starts: Ints
    lines: Ints

    def lines_of(self, units: Ints) -> Ints:
        """The line of each code unit."""
        if not len(self.starts):
            return np.full(len(units), self.first_line, np.int64)
        run = np.searchsorted(self.starts, units, "right") - 1
        return np.where(run < 0, self.first_line, self.lines[run])


def supported(python_version: int) -> bool:
    """Is the line table format of this version (PY_VERSION_HEX) known?"""
    return 0x030A0000 <= python_version < 0x03100000


def line_table(python_version: int, first_line: int, table: bytes) -> LineTable:
    """The decoded table, as :func:`line_tables` gives it."""
    return next(line_tables([Encoded(python_version, first_line, table)]))


def line_tables(encoded: Sequence[Encoded]) -> Iterator[LineTable]:
    """The decoded tables, in order. A damaged table gives the runs that can be decoded, an unknown format none."""
    newer = _joined(_decoded_in_batches(_pieces(each for each in encoded if _is_311(each))))
    for each in encoded:
        if _is_311(each):
            runs = next(newer)
            lines = np.where(runs.has_line, _valid(runs.lines + each.first_line), NO_LINE)
            yield LineTable(each.first_line, runs.starts, lines)
        else:
            pairs = list(_runs_310(each)) if supported(each.version) else []
            starts, lines = np.array(pairs, np.int64).reshape(-1, 2).T
            yield LineTable(each.first_line, starts, _valid(lines))


class _Piece(NamedTuple):
    """Whole entries of a table; ``is_last``: those at its end."""

    table: bytes
    is_last: bool


class _Runs(NamedTuple):
    """The runs of a piece, as if the code began there on line 0; ``units``, ``delta``: where the next piece begins, and by how
    much the line has changed then."""

    starts: Ints
    lines: Ints
    has_line: npt.NDArray[np.bool_]
    units: int
    delta: int
    is_last: bool


def _pieces(encoded: Iterable[Encoded]) -> Iterator[_Piece]:
    """The tables; one that is longer than a batch in several pieces."""
    for each in encoded:
        left = each.table
        while len(left) > _MOST_BYTES and (cut := _next_entry(left, _MOST_BYTES // 2)):
            yield _Piece(left[:cut], False)
            left = left[cut:]
        yield _Piece(left, True)


def _next_entry(table: bytes, at: int) -> int:
    """Where the first entry from ``at`` on begins; 0 = there is none nearby."""
    found = np.flatnonzero(np.frombuffer(table[at:_MOST_BYTES], np.uint8) & 0x80)
    return at + int(found[0]) if len(found) else 0


def _decoded_in_batches(pieces: Iterable[_Piece]) -> Iterator[_Runs]:
    batch: list[_Piece] = []
    size = 0
    for each in pieces:
        batch.append(each)
        size += len(each.table)
        if size > _MOST_BYTES // 2:
            yield from _decoded_311(batch)
            batch, size = [], 0
    if batch:
        yield from _decoded_311(batch)


def _joined(pieces: Iterable[_Runs]) -> Iterator[_Runs]:
    """The runs of each table, from those of its pieces."""
    parts: list[_Runs] = []
    units = delta = 0
    for each in pieces:
        parts.append(each._replace(starts=each.starts + units, lines=each.lines + delta) if parts else each)
        units, delta = units + each.units, delta + each.delta
        if each.is_last:
            starts, lines, has_line = (
                column[0] if len(parts) == 1 else np.concatenate(column)
                for column in zip(*(part[:3] for part in parts), strict=True)
            )
            yield _Runs(starts, lines, has_line, units, delta, True)
            parts, units, delta = [], 0, 0


def _is_311(each: Encoded) -> bool:
    return supported(each.version) and each.version >= 0x030B0000


def _valid(lines: Ints) -> Ints:
    return np.where((lines >= 0) & (lines <= _LAST_LINE), lines, NO_LINE)


def _runs_310(each: Encoded) -> Iterator[tuple[int, int]]:
    """(code unit, line) of each run. The table is pairs of bytes: length in bytes, and signed line delta (-128 = no
    line)."""
    line, at_bytes = each.first_line, 0
    for length, delta in zip(each.table[::2], each.table[1::2], strict=False):
        delta -= 256 * (delta > 127)
        if delta != _NO_LINE_310:
            line += delta
        if length:
            yield at_bytes // 2, NO_LINE if delta == _NO_LINE_310 else line
        at_bytes += length


def _decoded_311(batch: list[_Piece]) -> Iterator[_Runs]:
    """A table is entries that begin with a byte 1kkkklll: kind, and length - 1 in code units. Those of many tables are
    decoded together: a Python loop over entries would take most of a conversion's time."""
    data = np.frombuffer(b"".join(each.table for each in batch) + bytes(_VARINT_BYTES), np.uint8)
    ends = np.cumsum([len(each.table) for each in batch], dtype=np.int64)
    begins = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    is_entry = data[: len(data) - _VARINT_BYTES] & 0x80 != 0  # only the first byte of an entry has the top bit
    is_entry[begins[begins < ends]] = True
    at = np.flatnonzero(is_entry)
    kind, length = data[at] >> 3 & 15, (data[at] & 7).astype(np.int64) + 1
    delta = np.where((kind >= _KIND_ONE_LINE) & (kind < _KIND_NO_COLUMNS), kind.astype(np.int64) - _KIND_ONE_LINE, 0)
    changing = np.flatnonzero((kind == _KIND_LONG) | (kind == _KIND_NO_COLUMNS))
    delta[changing] = _signed_varints(data, at[changing] + 1, ends[np.searchsorted(ends, at[changing], "right")])
    bounds = np.searchsorted(at, np.append(begins, ends[-1])).tolist()
    unit, line = np.append(0, np.cumsum(length)), np.append(0, np.cumsum(delta))
    for each, first, last in zip(batch, bounds[:-1], bounds[1:], strict=True):
        starts, lines = unit[first : last + 1] - unit[first], line[first : last + 1] - line[first]
        has_line = kind[first:last] != _KIND_NONE
        yield _Runs(starts[:-1], lines[1:], has_line, int(starts[-1]), int(lines[-1]), each.is_last)


def _signed_varints(data: npt.NDArray[np.uint8], at: Ints, end: Ints) -> Ints:
    """Decodes signed varints: six bits in each byte, least significant first, bit 6 = another byte follows; bit 0 of the
    result is the sign. ``end``: where the table of each ends."""
    value = np.zeros(len(at), np.int64)
    goes_on = at < end
    for number in range(_VARINT_BYTES):
        byte = data[np.minimum(at + number, len(data) - 1)].astype(np.int64)
        value |= np.where(goes_on, (byte & 0x3F) << 6 * number, 0)
        goes_on = goes_on & (byte & _VARINT_MORE != 0) & (at + number + 1 < end)
    return np.where(value & 1, -(value >> 1), value >> 1)
