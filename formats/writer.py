"""Writes a trace: one Parquet file, one table (the columns are those of :mod:`schema`).

Layout: every kind with fewer than :data:`SHARED_BELOW_ROWS` rows shares the first row group, ordered by kind, then time;
a larger kind has row groups of its own, sorted by time. Recordings that are larger than memory come in parts: each is laid
out so, and successive parts are nearly in the order of time. Times and ids are delta-coded, the rest is dictionary-coded;
only ``kind`` and ``t_ns`` have statistics, and there is no Arrow schema in the footer: each of these was measured to
make small traces smaller (docs/trace-format.md). The file metadata holds a CRC-32 of the whole file, see
:mod:`integrity`.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from . import integrity, schema
from .columns import Coded, Lists
from .errors import TraceWriteError

#: Kinds with fewer rows than this share one row group: each row group costs about 9 KB of footer.
SHARED_BELOW_ROWS = 20_000
#: Rows of a row group of a larger kind (DuckDB's own default).
GROUP_ROWS = 122_880

_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "bool": pa.bool_(),
    "binary": pa.binary(),
    "list<string>": pa.list_(pa.field("element", pa.string())),
    "list<int32>": pa.list_(pa.field("element", pa.int32())),
}

#: Whole numbers of few distinct values, smaller as a dictionary than as deltas.
_DICTIONARY_NUMBERS = frozenset(
    {
        *("process", "thread", "cpu.pc_module", "cpu.extension_module", "cpu.system_ns"),
        *("alloc.size_bytes", "alloc.usable_bytes", "alloc.interval_bytes", "alloc.life_interval_bytes"),
        *("alloc.free_stack", "alloc.survived"),
    }
)
#: Texts and bytes that do not repeat: a dictionary would only add a page.
_PLAIN_TEXTS = frozenset({"source.text", "code.bytecode", "loss.text", "setting.value", "setting.name"})

Values = Any  #: a sequence, a numpy array (masked or not), a pyarrow array, Coded or Lists; None or masked = null
Tables = Mapping[str, Mapping[str, Values]]


@dataclass(frozen=True)
class _Block:
    """All rows of one kind, as Arrow arrays sorted by time."""

    kind: schema.Kind
    rows: int
    common: dict[str, pa.Array]
    fields: list[pa.Array]


def write_trace(path: Path, trace_id: str, parts: Iterable[Tables]) -> None:
    """Writes the trace at ``path``, atomically: a complete file or none.

    ``parts``: sets of tables that are written one after the other. ``tables[kind][column]`` holds the common columns that
    the kind fills (t_ns, process, thread, stack) and the kind's own columns, all of equal length; columns left out are
    null. The file is created 0600.

    Raises TraceWriteError when the system refuses, ValueError for tables that do not fit the schema.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        _write_file(temporary, trace_id, parts)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise TraceWriteError(path, os.strerror(error.errno or errno.EIO)) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def arrow_schema() -> pa.Schema:
    """The whole table's Arrow schema: the common columns, then one struct per kind."""
    common = [pa.field(column.name, _TYPES[column.type]) for column in schema.COMMON]
    return pa.schema(common + [pa.field(kind.struct, _struct_type(kind)) for kind in schema.KINDS])


def _in_schema_order(tables: Tables) -> Iterator[tuple[str, Mapping[str, Values]]]:
    known = [kind.name for kind in schema.KINDS]
    if unknown := set(tables) - set(known):
        raise ValueError(f"no such kind: {', '.join(sorted(unknown))}")
    return ((name, tables[name]) for name in known if name in tables)


def _struct_type(kind: schema.Kind) -> pa.StructType:
    return pa.struct([pa.field(column.name, _TYPES[column.type]) for column in kind.columns])


def _block(kind: schema.Kind, columns: Mapping[str, Values]) -> _Block:
    types = {column.name: _TYPES[column.type] for column in kind.columns}
    types |= {column.name: _TYPES[column.type] for column in schema.COMMON if column.name in kind.common}
    if unknown := set(columns) - set(types):
        raise ValueError(f"kind {kind.name} has no column {', '.join(sorted(unknown))}")
    arrays = {name: _array(values, types[name]) for name, values in columns.items()}
    lengths = {len(array) for array in arrays.values()}
    if len(lengths) > 1:
        raise ValueError(f"columns of kind {kind.name} have different lengths: {sorted(lengths)}")
    return _sorted_block(kind, lengths.pop() if lengths else 0, arrays)


def _array(values: Values, wanted: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.Array):
        return values if values.type == wanted else values.cast(wanted)
    if isinstance(values, Coded):
        texts = np.array([*values.values, None], object)  # Arrow's own take would load pyarrow.compute: 40 ms
        return pa.array(texts[values.codes], wanted)
    if isinstance(values, Lists):
        return pa.ListArray.from_arrays(values.offsets, values.items, type=wanted)
    if isinstance(values, np.ma.MaskedArray):
        return pa.array(values.data, type=wanted, mask=np.ma.getmaskarray(values))
    return pa.array(values, type=wanted)


def _sorted_block(kind: schema.Kind, rows: int, arrays: dict[str, pa.Array]) -> _Block:
    times = arrays.get("t_ns")
    if times is not None and times.null_count == 0:
        t_ns = times.to_numpy(zero_copy_only=False)
        if np.any(t_ns[1:] < t_ns[:-1]):
            order = pa.array(np.argsort(t_ns, kind="stable"))
            arrays = {name: array.take(order) for name, array in arrays.items()}
    common = {name: arrays[name] for name in kind.common if name in arrays}
    missing = (pa.nulls(rows, _TYPES[column.type]) for column in kind.columns)
    return _Block(kind, rows, common, [arrays.get(c.name, null) for c, null in zip(kind.columns, missing, strict=True)])


def _groups_of(parts: Iterable[Tables]) -> Iterator[list[_Block]]:
    remaining = iter(parts)
    while (tables := next(remaining, None)) is not None:
        groups = _row_groups(tables)
        del tables
        yield from groups


def _row_groups(tables: Tables) -> Iterator[list[_Block]]:
    blocks = [_block(schema.kind(name), columns) for name, columns in _in_schema_order(tables)]
    blocks = [block for block in blocks if block.rows]
    shared = [block for block in blocks if block.rows < SHARED_BELOW_ROWS]
    if shared or not blocks:
        yield shared
    for block in blocks:
        if block.rows >= SHARED_BELOW_ROWS:
            yield from ([_slice(block, at)] for at in range(0, block.rows, GROUP_ROWS))


def _slice(block: _Block, at: int) -> _Block:
    common = {name: array.slice(at, GROUP_ROWS) for name, array in block.common.items()}
    fields = [array.slice(at, GROUP_ROWS) for array in block.fields]
    return _Block(block.kind, min(GROUP_ROWS, block.rows - at), common, fields)


def _group_table(trace_id: str, blocks: list[_Block], wanted: pa.Schema) -> pa.Table:
    rows = sum(block.rows for block in blocks)
    arrays = [_repeat(trace_id, rows), _concat([_repeat(block.kind.name, block.rows) for block in blocks], pa.string())]
    for column in schema.COMMON[2:]:
        null = _TYPES[column.type]
        arrays.append(_concat([b.common.get(column.name, pa.nulls(b.rows, null)) for b in blocks], null))
    arrays += [_struct_column(kind, blocks, rows) for kind in schema.KINDS]
    return pa.Table.from_arrays(arrays, schema=wanted)


def _repeat(text: str, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), rows)


def _concat(arrays: list[pa.Array], wanted: pa.DataType) -> pa.Array:
    return pa.concat_arrays(arrays) if arrays else pa.nulls(0, wanted)


def _struct_column(kind: schema.Kind, blocks: list[_Block], rows: int) -> pa.Array:
    before = 0
    for block in blocks:
        if block.kind is kind:
            return _padded_struct(block, before, rows)
        before += block.rows
    return pa.nulls(rows, _struct_type(kind))


def _padded_struct(block: _Block, before: int, rows: int) -> pa.Array:
    after = rows - before - block.rows
    struct = pa.StructArray.from_arrays(block.fields, fields=list(_struct_type(block.kind)))
    return pa.concat_arrays([pa.nulls(before, struct.type), struct, pa.nulls(after, struct.type)])


def _write_file(path: Path, trace_id: str, parts: Iterable[Tables]) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        wanted = arrow_schema()
        with pq.ParquetWriter(file, wanted, **_writer_options()) as writer:
            for group in _groups_of(parts):
                table = _group_table(trace_id, group, wanted)
                writer.write_table(table, row_group_size=max(len(table), 1))
                del group, table  # not two at a time
            writer.add_key_value_metadata(_metadata(trace_id))
        file.flush()
        integrity.seal(file.fileno())


def _metadata(trace_id: str) -> dict[str, str]:
    return {
        schema.METADATA_VERSION: schema.FORMAT_VERSION,
        schema.METADATA_TRACE_ID: trace_id,
        schema.METADATA_CRC32: integrity.PLACEHOLDER.decode(),
    }


def _writer_options() -> dict[str, Any]:
    leaves = [(column.name, column.name, column.type) for column in schema.COMMON]
    for kind in schema.KINDS:
        leaves += [(f"{kind.struct}.{c.name}", _leaf(f"{kind.struct}.{c.name}", c.type), c.type) for c in kind.columns]
    encodings = {leaf: _encoding(name, column_type) for name, leaf, column_type in leaves}
    return {
        "compression": "zstd",
        "compression_level": 9,
        "use_dictionary": [leaf for leaf, encoding in encodings.items() if encoding == "DICTIONARY"],
        "column_encoding": {leaf: encoding for leaf, encoding in encodings.items() if encoding != "DICTIONARY"},
        "write_statistics": ["kind", "t_ns"],
        "store_schema": False,
    }


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
