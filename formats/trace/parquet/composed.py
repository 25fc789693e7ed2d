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
_UNCOMPRESSED, _DATA_PAGE = 0, 0

#: Fields of the footer.
_SCHEMA, _ROWS, _GROUPS, _KEY_VALUES = 2, 3, 4, 5
#: Fields of the metadata of a column in a row group that are places in the file: its first data page, its index page and its
#: dictionary page.
_PLACES = frozenset({9, 10, 11})
_PATH, _UNFOLDED_BYTES, _STORED_BYTES = 3, 6, 7

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
        found = [columns[leaf.path] if leaf.path in columns else self._nulls(leaf, rows) for leaf in self._leaves]
        group = Struct().list(1, STRUCT, [column.metadata for column in found])
        group.integer(2, I64, sum(column.unfolded_bytes for column in found)).integer(3, I64, rows)
        group.integer(5, I64, group_at).integer(6, I64, sum(column.stored_bytes for column in found))
        self._groups.append(group.integer(7, I16, len(self._groups)).end())
        self._rows += rows

    def close(self, empty: memoryview, key_values: Mapping[str, str]) -> None:
        """Writes the footer. ``empty``: a Parquet file without rows that has all columns."""
        replaced = {
            _ROWS: integer(self._rows),
            _GROUPS: list_of(STRUCT, self._groups),
        }
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

    def _nulls(self, leaf: Leaf, rows: int) -> _Column:
        """A column of nulls: one page, in which the level of every row says that nothing is there."""
        levels = varint(rows << 1) + b"\0"  # a run of so many zeros
        body = (len(levels).to_bytes(4, "little") + levels) * (2 if leaf.is_list else 1)
        kind = Struct().integer(1, I32, rows).integer(2, I32, _PLAIN).integer(3, I32, _RLE).integer(4, I32, _RLE)
        head = Struct().integer(1, I32, _DATA_PAGE).integer(2, I32, len(body)).integer(3, I32, len(body))
        page = head.struct(5, kind).end() + body
        metadata = Struct().integer(1, I32, leaf.type).list(2, I32, [integer(_RLE), integer(_PLAIN)])
        path = [varint(len(name)) + name for name in (each.encode() for each in leaf.path)]
        metadata.list(_PATH, BINARY, path).integer(4, I32, _UNCOMPRESSED).integer(5, I64, rows)
        metadata.integer(_UNFOLDED_BYTES, I64, len(page)).integer(_STORED_BYTES, I64, len(page))
        metadata.integer(9, I64, self._at)
        self._write(page)
        return _Column(Struct().integer(2, I64, 0).struct(3, metadata).end(), len(page), len(page))


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


def _values(data: bytes) -> list[bytes]:
    """The elements of a list, each as it is written."""
    reader = ThriftReader(data)
    count, kind = reader.elements()
    found = []
    for _ in range(count):
        start = reader.at
        reader.skip(kind)
        found.append(data[start : reader.at])
    return found


def _row_group(footer: bytes, moved_by: int) -> tuple[int, dict[tuple[str, ...], _Column]]:
    """The rows of the only row group of a file, and its columns by their path; what is in the file will be so many bytes
    further on."""
    [group] = _values(dict(_numbered(footer))[_GROUPS])
    fields = dict(_numbered(group))
    columns = dict(_moved(each, moved_by) for each in _values(fields[1]))
    return ThriftReader(fields[3]).integer(), columns


def _numbered(data: bytes) -> Iterator[tuple[int, bytes]]:
    for field, _, value in _fields(data):
        yield field, value


def _moved(chunk: bytes, by: int) -> tuple[tuple[str, ...], _Column]:
    """A column of a row group and its path. Where it names its own place, that was never used (deprecated by Parquet)."""
    made, metadata, found = Struct(), Struct(), dict[int, bytes]()
    for field, kind, value in _fields(dict(_numbered(chunk))[3]):
        found[field] = value
        is_place = field in _PLACES
        metadata.value(field, kind, integer(ThriftReader(value).integer() + by) if is_place else value)
    made.integer(2, I64, 0).struct(3, metadata)
    path = tuple(ThriftReader(each).binary().decode() for each in _values(found[_PATH]))
    unfolded, stored = (ThriftReader(found[field]).integer() for field in (_UNFOLDED_BYTES, _STORED_BYTES))
    return path, _Column(made.end(), unfolded, stored)
