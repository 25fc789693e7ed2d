"""Writes a trace: one Parquet file with one table, whose columns are those of :mod:`.schema`.

All kinds with few rows share one row group, ordered by kind, then time; a larger kind has row groups of its own,
sorted by time. Source texts of at least 1 MiB are a row group of their own, which a thread compresses while other rows are
made. A recording that is larger than memory comes in parts, whose rows are joined into row groups
(:mod:`.row_groups`): they are sorted by time within each part, and successive parts are nearly in order. A row group is
written with the columns of its kinds, and the others are added as pages of nulls (:mod:`.parquet.composed`). Times and ids are
delta-encoded, other columns are dictionary-encoded. Only ``kind`` and ``t_ns`` have statistics, and the footer has no Arrow
schema. Measurements showed for each of these choices that it makes small traces smaller (docs/trace-format.md). The file
metadata holds a CRC-32 of the whole file, see :mod:`.integrity`.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..beside import Beside
from ..dataclass import dataclass
from ..errors import TraceWriteError
from . import integrity, schema, temporary
from .parquet.composed import PHYSICAL_TYPES, Composed, Leaf
from .row_groups import JOINED_ROWS, LONG_TEXT_BYTES, TYPES, Block, Tables, row_groups, text_bytes

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetWriter

#: Integers with few distinct values, which are smaller as a dictionary than as deltas.
_DICTIONARY_NUMBERS = frozenset(
    {
        *("process", "thread", "cpu.pc_module", "cpu.extension_module", "cpu.native", "cpu.system_ns"),
        *("alloc.size_bytes", "alloc.usable_bytes", "alloc.interval_bytes", "alloc.life_interval_bytes"),
        *("alloc.free_stack", "alloc.survived", "alloc.native"),
    }
)
#: Texts and bytes that do not repeat, for which a dictionary would only add a page.
_PLAIN_TEXTS = frozenset({"source.text", "code.bytecode", "loss.text", "setting.value", "setting.name"})

#: Of zstd, and for source texts: they are most of a trace, and most of the time that its compression takes. Level 5 takes
#: half of that time, for 8 % more; and level 3, for long texts, again half of that for 8 % more.
_LEVEL, _TEXT_LEVEL, _LONG_TEXT_LEVEL, _LONG_TEXT_BYTES = 9, 5, 3, 8 << 20
#: A trace with few rows has no dictionaries, of which each would take a page. Level 17 would make it 0.2 to 3 % smaller, in 2 to
#: 6 ms more.
_FEW_ROWS, _FEW_BYTES = 5_000, 1 << 20
#: Of row groups of allocations, of which a recording of all of them has many. With libc's allocator a release is of the whole
#: process, and its pages fault again for the next one. Others release each time: it keeps a recording of days smaller.
_GROUPS_BETWEEN_RELEASES, _MANY = 8, frozenset({"alloc"})
#: The common columns ``trace_id`` and ``kind``, and their type in memory.
_FEW_TEXTS, _FEW = 2, pa.dictionary(pa.int8(), pa.string())


def write_trace(path: Path, trace_id: str, parts: Iterable[Tables]) -> None:
    """Writes the trace to ``path`` atomically: the file is either complete or not there. Its mode is 0600.

    ``trace_id``: 32 hex digits; ``parts``: sets of tables that are written one after the other. ``tables[kind][column]``
    holds the common columns that the kind fills (t_ns, process, thread, stack) and the kind's own columns, all of equal
    length; a column that is left out is null.

    Raises TraceWriteError when the system refuses, and ValueError for tables that do not match the schema.
    """
    written = temporary.new(path)
    try:
        _write_file(written, trace_id, parts)
        written.replace(path)
    except OSError as error:
        written.unlink(missing_ok=True)
        raise TraceWriteError(path, os.strerror(error.errno or errno.EIO)) from error
    except BaseException:
        written.unlink(missing_ok=True)
        raise


def _arrow_schema(kinds: Iterable[schema.Kind]) -> pa.Schema:
    """The Arrow schema of a table with rows of these kinds: the common columns, then one struct per kind. The first two columns hold few texts,
    so that their rows are one byte each while a row group is made; in the file they are strings like others."""
    common = [pa.field(column.name, TYPES[column.type]) for column in schema.COMMON[_FEW_TEXTS:]]
    few = [pa.field(column.name, _FEW) for column in schema.COMMON[:_FEW_TEXTS]]
    return pa.schema(few + common + [pa.field(kind.struct, _struct_type(kind)) for kind in kinds])


def _struct_type(kind: schema.Kind) -> pa.StructType:
    return pa.struct([pa.field(column.name, TYPES[column.type]) for column in kind.columns])


def _group_table(trace_id: str, blocks: list[Block]) -> pa.Table:
    """The rows of all blocks, with the columns of their kinds."""
    rows, found = sum(block.rows for block in blocks), {block.kind.name for block in blocks}
    kinds = [kind for kind in schema.KINDS if kind.name in found]
    arrays = [_repeated([(trace_id, rows)]), _repeated([(block.kind.name, block.rows) for block in blocks])]
    for column in schema.COMMON[_FEW_TEXTS:]:
        null = TYPES[column.type]
        arrays.append(_concat([b.arrays.get(column.name, pa.nulls(b.rows, null)) for b in blocks], null))
    # The nulls of one array share one buffer, however many columns it has.
    nulls = pa.nulls(rows, pa.struct([pa.field(kind.struct, _struct_type(kind)) for kind in kinds]))
    arrays += [_struct_column(kind, blocks, nulls.field(kind.struct)) for kind in kinds]
    return pa.Table.from_arrays(arrays, schema=_arrow_schema(kinds))


def _repeated(texts: list[tuple[str, int]]) -> pa.Array:
    """Each text as often as its number says."""
    codes = np.repeat(np.arange(len(texts), dtype=np.int8), [rows for _, rows in texts])
    indices = pa.Array.from_buffers(pa.int8(), len(codes), [None, pa.py_buffer(codes)])  # as row_groups.array_of
    return pa.DictionaryArray.from_arrays(indices, pa.array([text for text, _ in texts], pa.string()))


def _concat(arrays: list[pa.Array], wanted: pa.DataType) -> pa.Array:
    return pa.concat_arrays(arrays) if arrays else pa.nulls(0, wanted)


def _struct_column(kind: schema.Kind, blocks: list[Block], nulls: pa.Array) -> pa.Array:
    before = 0
    for block in blocks:
        if block.kind is kind:
            return _padded(_struct(block), before, nulls)
        before += block.rows
    return nulls


def _struct(block: Block) -> pa.Array:
    columns = [block.arrays.get(c.name, pa.nulls(block.rows, TYPES[c.type])) for c in block.kind.columns]
    return pa.StructArray.from_arrays(columns, fields=list(_struct_type(block.kind)))


def _padded(struct: pa.Array, before: int, nulls: pa.Array) -> pa.Array:
    """``struct`` after ``before`` nulls, padded with nulls to the length of ``nulls``."""
    end = before + len(struct)
    return struct if len(struct) == len(nulls) else pa.concat_arrays([nulls[:before], struct, nulls[end:]])


def _write_file(path: Path, trace_id: str, parts: Iterable[Tables]) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        groups = row_groups(parts)
        first = [group for group in (next(groups, None),) if group is not None]
        options = _Options(all(map(_is_small, first)), sum(map(text_bytes, first)))
        composed = Composed(file, _leaves())
        frames = 0
        with _Groups(composed, options) as written:
            while group := first.pop() if first else next(groups, None):
                frames += sum(_frames(block) for block in group)
                takes_long = text_bytes(group) >= LONG_TEXT_BYTES or sum(block.rows for block in group) >= JOINED_ROWS
                table = [_group_table(trace_id, group)]
                is_one_of_many = any(block.kind.name in _MANY for block in group)
                del group  # so that at most two are in memory: the next one, and one with long texts
                written.add(table, takes_long, is_one_of_many)
        composed.close(_in_memory(_arrow_schema(schema.KINDS), [], options), _metadata(trace_id, frames))
        file.flush()
        integrity.seal(file.fileno())


def _in_memory(wanted: pa.Schema, held: list[pa.Table], options: _Options) -> memoryview:
    """A Parquet file, with a row group for the table that ``held`` gives up, if it has one."""
    sink = pa.BufferOutputStream()
    with closing(_opened(sink, wanted, options.of(wanted))) as writer:
        if held:
            table = held.pop()
            writer.write_table(table, row_group_size=max(len(table), 1))
    return memoryview(sink.getvalue())


def _opened(sink: pa.BufferOutputStream, wanted: pa.Schema, options: Mapping[str, Any]) -> ParquetWriter:
    """A Parquet writer of pyarrow: the class that the public one calls, whose module would import pyarrow.fs and ssl (10 ms)
    for files that it opens itself; where a release does not have it so, the public one."""
    try:
        from pyarrow import _parquet

        return _parquet.ParquetWriter(sink, wanted, **options)
    except (ImportError, AttributeError, TypeError):
        from pyarrow import parquet

        return parquet.ParquetWriter(sink, wanted, **options)


class _Groups:
    """Writes row groups one after the other. A context manager: at its end all are written, or none is being written."""

    def __init__(self, composed: Composed, options: _Options) -> None:
        self._composed, self._options = composed, options
        self._last: Beside[None] | None = None
        self._number = itertools.count(1)

    def __enter__(self) -> _Groups:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self._finish()
        except BaseException:
            while self._last and self._last.is_running():  # an interrupt: the file is closed after this
                with suppress(BaseException):
                    self._last.result()
            if not kind:  # else the first error counts
                raise

    def add(self, held: list[pa.Table], takes_long: bool, is_one_of_many: bool) -> None:
        """Writes the table that ``held`` gives up as a row group; one that takes long in a thread, until the next row group
        is there. Memory that it took is released, but of many only now and then."""
        self._finish()
        if takes_long:
            self._last = Beside(partial(self._write, held, is_one_of_many), "row group")
        else:
            self._write(held, is_one_of_many)

    def _finish(self) -> None:
        if self._last:
            self._last.result()
        self._last = None

    def _write(self, held: list[pa.Table], is_one_of_many: bool) -> None:
        self._composed.add(_in_memory(held[0].schema, held, self._options))
        if not is_one_of_many or next(self._number) % _GROUPS_BETWEEN_RELEASES == 0:
            pa.default_memory_pool().release_unused()


def _is_small(group: Sequence[Block]) -> bool:
    """Has the row group few rows, and no long texts but sources? Where those are a row group of their own, it does not
    matter: they are most of the trace."""
    if text_bytes(group) >= LONG_TEXT_BYTES:
        return False
    arrays = (array for block in group if block.kind.name != "source" for array in block.arrays.values())
    return sum(block.rows for block in group) < _FEW_ROWS and sum(array.nbytes for array in arrays) < _FEW_BYTES


def _frames(block: Block) -> int:
    """The number of frames of the stacks in a block."""
    locations = block.arrays.get("locations") if block.kind.name == "stack" else None
    if locations is None:
        return 0
    offsets = locations.offsets  # flatten() would import pyarrow.compute
    return int(offsets[-1].as_py() - offsets[0].as_py())


def _metadata(trace_id: str, frames: int) -> dict[str, str]:
    return {
        schema.METADATA_VERSION: schema.FORMAT_VERSION,
        schema.METADATA_TRACE_ID: trace_id,
        schema.METADATA_FRAMES: str(frames),
        schema.METADATA_CRC32: integrity.PLACEHOLDER.decode(),
    }


@dataclass(frozen=True)
class _Options:
    """How a trace is stored. ``is_small``: few rows, of which dictionaries are a large part; ``text_bytes``: size of the source
    texts."""

    is_small: bool
    text_bytes: int

    def of(self, wanted: pa.Schema) -> dict[str, Any]:
        """Options of pyarrow's writer for a file with the columns of ``wanted``."""
        columns = _columns(kind for kind in schema.KINDS if kind.struct in wanted.names)
        encodings = {_leaf(name, column_type): _encoding(name, column_type) for name, column_type in columns}
        text_level = _LONG_TEXT_LEVEL if self.text_bytes > _LONG_TEXT_BYTES else _TEXT_LEVEL
        return {
            "version": "2.6",
            "data_page_version": "1.0",
            "writer_engine_version": "V2",
            "compression": "zstd",
            "compression_level": {leaf: text_level if leaf == "source.text" else _LEVEL for leaf in encodings},
            "use_dictionary": [leaf for leaf, name in encodings.items() if name == "DICTIONARY" and not self.is_small],
            "column_encoding": {leaf: encoding for leaf, encoding in encodings.items() if encoding != "DICTIONARY"},
            "write_statistics": ["kind", "t_ns"],
            "store_schema": False,
        }


def _columns(kinds: Iterable[schema.Kind]) -> list[tuple[str, str]]:
    """The columns of a file with these kinds, in its order: the name, with that of the struct, and the type."""
    common = [(column.name, column.type) for column in schema.COMMON]
    return common + [(f"{kind.struct}.{column.name}", column.type) for kind in kinds for column in kind.columns]


def _leaves() -> list[Leaf]:
    """All columns of a trace, in the order of the file."""
    found = []
    for name, column_type in _columns(schema.KINDS):
        of_value = column_type.removeprefix("list<").removesuffix(">")
        path = tuple(_leaf(name, column_type).split("."))
        found.append(Leaf(path, PHYSICAL_TYPES[of_value], of_value != column_type))
    return found


def _leaf(name: str, column_type: str) -> str:
    return f"{name}.list.element" if column_type.startswith("list<") else name


def _encoding(name: str, column_type: str) -> str:
    if column_type == "bool":
        return "RLE"
    if name in _PLAIN_TEXTS:
        return "PLAIN"
    if column_type in ("int32", "int64") and name not in _DICTIONARY_NUMBERS:
        return "DELTA_BINARY_PACKED"
    return "DICTIONARY"
