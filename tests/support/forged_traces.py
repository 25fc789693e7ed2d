"""Traces of a few kilobytes whose metadata claims anything: a small writer of Parquet that believes whatever it is told.

The footer and the heads of pages are in Thrift's compact protocol. A :class:`Forged` without arguments is a small table that
passes for a trace; each argument makes one claim about it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from scalene_trace.formats.trace import integrity, schema

_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
#: A field: id, type, encoded value.
Field = tuple[int, int, bytes]


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(id_: int, value: int, kind: int = _I64) -> Field:
    return id_, kind, varint(value * 2 if value >= 0 else -value * 2 - 1)


def text(id_: int, value: bytes) -> Field:
    return id_, _BINARY, varint(len(value)) + value


def struct(*fields: Field) -> bytes:
    """The fields in the order of their ids."""
    out, last = b"", 0
    for id_, kind, value in fields:
        out += bytes([(id_ - last) << 4 | kind]) + value
        last = id_
    return out + b"\0"


def items(id_: int, kind: int, values: list[bytes], claimed: int | None = None) -> Field:
    """A list; ``claimed``: another number of elements than it has."""
    size = len(values) if claimed is None else claimed
    head = bytes([size << 4 | kind]) if size < 15 else bytes([0xF0 | kind]) + varint(size)
    return id_, _LIST, head + b"".join(values)


@dataclass
class Forged:
    """What the file claims. ``pages``: pages of each column chunk; ``list_values``: values of a column of lists, None = there
    is none; ``width``: of a column of fixed size, 0 = there is none; ``claimed_groups``, ``claimed_columns``: other numbers of
    elements than the lists have; ``padding``: bytes of a value in the footer; ``depth``: structs within structs;
    ``sparse_bytes``: a hole before the footer; ``name_bytes``: added to the names of columns."""

    rows: int = 10
    groups: int = 1
    columns: int = 2
    page_values: int | None = None
    unfolded: int = 20
    dictionary: int = 0
    encoding: int = 0
    pages: int = 1
    list_values: int | None = None
    width: int = 0
    claimed_groups: int | None = None
    claimed_columns: int | None = None
    key_values: int = 0
    padding: int = 0
    depth: int = 0
    sparse_bytes: int = 0
    name_bytes: int = 0
    _data: bytearray = field(default_factory=lambda: bytearray(b"PAR1"))

    def write(self, path: Path) -> Path:
        """Writes the file with the right checksum."""
        with path.open("w+b") as file:
            groups = [self._group() for _ in range(self.groups)]
            file.write(self._data)
            if self.sparse_bytes:
                file.seek(self.sparse_bytes)
            footer = self._footer(groups)
            file.write(footer + len(footer).to_bytes(4, "little") + b"PAR1")
            file.flush()
            if not self.sparse_bytes:
                integrity.seal(file.fileno())
        return path

    def _group(self) -> bytes:
        values = [(6, self.rows)] * self.columns
        values += [] if self.list_values is None else [(1, self.list_values)]
        values += [(7, self.rows)] if self.width else []
        chunks = [self._chunk(kind, count) for kind, count in values]
        return struct(items(1, _STRUCT, chunks), number(2, 0), number(3, self.rows))

    def _chunk(self, kind: int, values: int) -> bytes:
        start = len(self._data)
        if self.dictionary:
            described = struct(number(1, 1, _I32), number(2, 0, _I32))
            self._page(2, self.dictionary, (7, _STRUCT, described))
        count = values if self.page_values is None else self.page_values
        for page in range(self.pages):
            part = count // self.pages + (count % self.pages if page == 0 else 0)
            levels = (number(3, 3, _I32), number(4, 3, _I32))
            described = struct(number(1, part, _I32), number(2, self.encoding, _I32), *levels)
            self._page(0, self.unfolded, (5, _STRUCT, described))
        stored = len(self._data) - start
        places = [number(9, start), *([number(11, start)] if self.dictionary else [])]
        named = (items(2, _I32, [b"\0"]), items(3, _BINARY, [b"\1x"]), number(4, 6, _I32), number(5, values))
        return struct(
            number(2, 0),
            (3, _STRUCT, struct(number(1, kind, _I32), *named, number(6, stored), number(7, stored), *places)),
        )

    def _page(self, kind: int, unfolded: int, described: Field) -> None:
        stored = b"\x28\xb5\x2f\xfd"
        self._data += struct(
            number(1, kind, _I32), number(2, unfolded, _I32), number(3, len(stored), _I32), described
        ) + stored  # fmt: skip

    def _footer(self, groups: list[bytes]) -> bytes:
        pairs = {
            schema.METADATA_VERSION: schema.FORMAT_VERSION,
            schema.METADATA_TRACE_ID: "0" * 32,
            schema.METADATA_CRC32: integrity.PLACEHOLDER.decode(),
        }
        pairs |= {f"key {each}": "" for each in range(self.key_values)}
        values = [struct(text(1, key.encode()), text(2, value.encode())) for key, value in pairs.items()]
        values += [struct(text(1, b"padding"), text(2, bytes(self.padding)))] if self.padding else []
        return struct(
            number(1, 2, _I32),
            items(2, _STRUCT, self._schema(), self.claimed_columns),
            number(3, self.rows),
            items(4, _STRUCT, groups, self.claimed_groups),
            items(5, _STRUCT, values),
        )

    def _schema(self) -> list[bytes]:
        leaves = [_leaf(f"c{each}" + "x" * self.name_bytes, 6) for each in range(self.columns)]
        leaves += [] if self.list_values is None else [_leaf("list", 1, repetition=2)]
        leaves += [_leaf("fixed", 7, self.width)] if self.width else []
        nested = [struct(text(4, b"in"), number(5, 1, _I32)) for _ in range(self.depth)]
        return [struct(text(4, b"schema"), number(5, len(leaves), _I32)), *nested, *leaves]


def _leaf(name: str, kind: int, width: int = 0, repetition: int = 1) -> bytes:
    sizes = [number(2, width, _I32)] if width else []
    return struct(number(1, kind, _I32), *sizes, number(3, repetition, _I32), text(4, name.encode()))
