"""One Parquet file with many columns, of row groups that were each written as a file with some of them.

A trace has 155 columns, and a row group fills some 20 of them. A writer of Parquet goes through the rows of every column,
1.6 ns for each, which was a quarter of the CPU time of a conversion. Here, a column without values is a page that says "so
many nulls", and nothing goes through its rows. The pages with values are those that the library has written; only the places
that the metadata names are moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

from ...dataclass import dataclass
from .thrift import BINARY, I16, I32, I64, STRUCT, NotThrift, ThriftReader
from .thrift_writer import Struct, integer, list_of, varint

#: Types of columns, encodings, codecs and pages, as Parquet numbers them (parquet.thrift of its format).
PHYSICAL_TYPES = {"bool": 0, "int32": 1, "int64": 2, "string": 6, "binary": 6}
_PLAIN, _RLE = 0, 3
#: The number of a row group, which it need not have, is one of 16 bits.
_LAST_ORDINAL = 32_767
_UNCOMPRESSED, _DATA_PAGE = 0, 0

#: Fields of the footer, of a row group, and of a column in it.
_ROWS, _GROUPS, _KEY_VALUES = 3, 4, 5
_COLUMNS, _ROWS_OF_GROUP = 1, 3
_OWN_PLACE, _METADATA = 2, 3
#: Fields of the metadata of a column in a row group; and those that are places in the file: its first data page, its index
#: page and its dictionary page.
_PATH, _CODEC, _UNFOLDED_BYTES, _STORED_BYTES, _DATA = 3, 4, 6, 7, 9
_PLACES = frozenset({_DATA, 10, 11})

MAGIC = b"PAR1"
_TAIL_BYTES = 8


@dataclass(frozen=True)
class Leaf:
    """A column that holds values. ``path``: its name, with those of the structs and lists around it; ``type``: of
    ``PHYSICAL_TYPES``; ``is_list``: a row may have any number of values. Every column can be null."""

    path: tuple[str, ...]
    type: int
    is_list: bool


@dataclass(frozen=True)
class _Column:
    """A column of a row group: its metadata as it is written, and the bytes of its pages, unfolded and in the file."""

    metadata: bytes
    unfolded_bytes: int
    stored_bytes: int


class Composed:
    """Writes the file. ``leaves``: all columns, in their order. Errors of ``file`` pass through."""

    def __init__(self, file: BinaryIO, leaves: Sequence[Leaf]) -> None:
        self._file, self._leaves = file, leaves
        self._without_values = [_without_values(leaf) for leaf in leaves]
        self._at = self._rows = 0
        self._groups: list[bytes] = []
        self._write(MAGIC)

    def add(self, written: memoryview) -> None:
        """Adds the row group of a Parquet file that has one, with some of the columns. Raises NotThrift."""
        footer, footer_at = _footer(written)
        rows, columns = _row_group(footer, self._at - len(MAGIC))
        group_at = self._at
        self._write(written[len(MAGIC) : footer_at])
        if unknown := columns.keys() - {leaf.path for leaf in self._leaves}:
            raise NotThrift(f"the file has no column {'.'.join(unknown.pop())}")
        nulls = {is_list: _Nulls(rows, is_list) for is_list in (False, True)}
        found, pages = list[_Column](), bytearray()
        for leaf, without_values in zip(self._leaves, self._without_values, strict=True):
            column = columns.get(leaf.path)
            if column is None:
                column = nulls[leaf.is_list].column(without_values, self._at + len(pages))
                pages += nulls[leaf.is_list].page
            found.append(column)
        self._write(bytes(pages))
        group = Struct().list(1, STRUCT, [column.metadata for column in found])
        group.integer(2, I64, sum(column.unfolded_bytes for column in found)).integer(3, I64, rows)
        group.integer(5, I64, group_at).integer(6, I64, sum(column.stored_bytes for column in found))
        if len(self._groups) <= _LAST_ORDINAL:
            group.integer(7, I16, len(self._groups))
        self._groups.append(group.end())
        self._rows += rows

    def close(self, empty: memoryview, key_values: Mapping[str, str]) -> None:
        """Writes the footer. ``empty``: a Parquet file without rows that has all columns."""
        replaced = {_ROWS: integer(self._rows), _GROUPS: list_of(STRUCT, self._groups)}
        footer, _ = _footer(empty)
        pairs = [Struct().binary(1, key.encode()).binary(2, value.encode()).end() for key, value in key_values.items()]
        made, has_pairs = Struct(), False
        for field, kind, value in _fields(footer):
            if field >= _KEY_VALUES and not has_pairs:
                made.list(_KEY_VALUES, STRUCT, pairs)
                has_pairs = True
            if field != _KEY_VALUES:
                made.value(field, kind, replaced.get(field, value))
        whole = made.end()
        self._write(whole + len(whole).to_bytes(4, "little") + MAGIC)

    def _write(self, data: bytes | memoryview) -> None:
        self._file.write(data)
        self._at += len(data)


class _Nulls:
    """Columns without values: ``page`` is their only one, in which the level of every row says that nothing is there."""

    def __init__(self, rows: int, is_list: bool) -> None:
        levels = varint(rows << 1) + b"\0"  # a run of so many zeros
        body = (len(levels).to_bytes(4, "little") + levels) * (2 if is_list else 1)
        kind = Struct().integer(1, I32, rows).integer(2, I32, _PLAIN).integer(3, I32, _RLE).integer(4, I32, _RLE)
        head = Struct().integer(1, I32, _DATA_PAGE).integer(2, I32, len(body)).integer(3, I32, len(body))
        self.page = head.struct(5, kind).end() + body
        sizes = Struct(_CODEC).integer(5, I64, rows).integer(_UNFOLDED_BYTES, I64, len(self.page))
        self._sizes = sizes.integer(_STORED_BYTES, I64, len(self.page)).fields

    def column(self, without_values: bytes, at: int) -> _Column:
        """The column whose page is at the offset ``at``; ``without_values``: of :func:`_without_values`."""
        place = Struct(_STORED_BYTES).integer(_DATA, I64, at).end()
        return _Column(_chunk(without_values + self._sizes + place), len(self.page), len(self.page))


def _without_values(leaf: Leaf) -> bytes:
    """The beginning of the metadata of a column without values: what does not depend on the row group."""
    path = [varint(len(name)) + name for name in (each.encode() for each in leaf.path)]
    metadata = Struct().integer(1, I32, leaf.type).list(2, I32, [integer(_RLE), integer(_PLAIN)])
    return metadata.list(_PATH, BINARY, path).integer(_CODEC, I32, _UNCOMPRESSED).fields


def _chunk(metadata: bytes) -> bytes:
    """A column of a row group. Its own place was never used, and Parquet says that it be 0."""
    return Struct().integer(_OWN_PLACE, I64, 0).value(_METADATA, STRUCT, metadata).end()


def _footer(file: memoryview) -> tuple[bytes, int]:
    """The footer of a Parquet file, and where it begins."""
    end = len(file) - _TAIL_BYTES
    start = end - int.from_bytes(file[end : end + 4], "little")
    return bytes(file[start:end]), start


def _fields(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The fields of the struct: id, type, and the value as it is written."""
    reader = ThriftReader(data)
    for field, kind in reader.fields():
        start = reader.at
        reader.skip(kind)
        yield field, kind, data[start : reader.at]


def _row_group(footer: bytes, moved_by: int) -> tuple[int, dict[tuple[str, ...], _Column]]:
    """The rows of the only row group of a file, and its columns by their path; what is in the file will be so many bytes
    further on. Goes through the footer once: a small trace has little else to do."""
    reader, rows, columns = ThriftReader(footer), 0, dict[tuple[str, ...], _Column]()
    for number, kind in reader.fields():
        if number != _GROUPS:
            reader.skip(kind)
            continue
        if reader.elements() != (1, STRUCT):
            raise NotThrift("a file has not exactly one row group")
        for field, kind in reader.fields():
            if field == _COLUMNS:
                columns = dict(_moved(reader, footer, moved_by) for _ in range(reader.elements()[0]))
            elif field == _ROWS_OF_GROUP:
                rows = reader.integer()
            else:
                reader.skip(kind)
    return rows, columns


def _moved(reader: ThriftReader, footer: bytes, by: int) -> tuple[tuple[str, ...], _Column]:
    """The next column of a row group, and its path."""
    path, sizes, made = tuple[str, ...](), dict[int, int](), bytearray()
    for number, kind in reader.fields():
        if number != _METADATA:
            reader.skip(kind)
            continue
        start = reader.at
        for field, kind in reader.fields():
            if field == _PATH:
                path = tuple(reader.binary().decode() for _ in range(reader.elements()[0]))
            elif field in _PLACES:
                made += footer[start : reader.at]
                made += integer(reader.integer() + by)
                start = reader.at
            elif field in (_UNFOLDED_BYTES, _STORED_BYTES):
                sizes[field] = reader.integer()
            else:
                reader.skip(kind)
        made += footer[start : reader.at]
    return path, _Column(_chunk(bytes(made)), sizes[_UNFOLDED_BYTES], sizes[_STORED_BYTES])
