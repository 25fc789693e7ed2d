"""Divides the rows of a trace into row groups, as Arrow arrays.

Rows wait until there are :data:`JOINED_ROWS` of their kind, which become row groups of their own. Of the rows that wait at
the end, all kinds with fewer than :data:`SHARED_BELOW_ROWS` share one row group, and a larger kind has row groups of its own.
Long source texts are a row group of their own at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import mul
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..dataclass import dataclass
from . import schema
from .columns import Coded, Lists, Masked

#: Kinds with fewer rows than this share one row group, because each row group takes about 8 KB in the footer.
SHARED_BELOW_ROWS = 20_000
#: Rows of a row group of a larger kind (DuckDB's own default).
GROUP_ROWS = 122_880
#: Fewer rows than this wait for more of their kind. A part has at most 65,000 rows, often half of that, and every reader reads
#: the metadata of each row group (docs/design/spool.md).
JOINED_ROWS = 92_160
#: A kind with at most so many columns has longer row groups, which take no more memory: resident sets, of which a long
#: recording has tens of millions of rows.
_NARROW_COLUMNS, _NARROW_FACTOR = 4, 4
#: Source texts of this size do not wait for other rows: they are a row group of their own, which takes long to compress.
LONG_TEXT_BYTES = 1 << 20
#: Of the texts in an array.
_MOST_TEXT_BYTES = (1 << 31) - 1
#: Of texts that are converted at a time.
_PIECE_BYTES = 1 << 20

TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "bool": pa.bool_(),
    "binary": pa.binary(),
    "list<string>": pa.list_(pa.field("element", pa.string())),
    "list<int32>": pa.list_(pa.field("element", pa.int32())),
}

#: Of numpy arrays whose memory Arrow can use as it is.
_NUMBERS: dict[pa.DataType, np.dtype[Any]] = {TYPES["int32"]: np.dtype(np.int32), TYPES["int64"]: np.dtype(np.int64)}

#: A sequence, a numpy array, a pyarrow array, Coded, Masked or Lists. None and masked elements are null.
Values = Any
Tables = Mapping[str, Mapping[str, Values]]


@dataclass(frozen=True)
class Block:
    """Rows of one kind. ``arrays``: every column that the kind fills, by name."""

    kind: schema.Kind
    rows: int
    arrays: dict[str, pa.Array]


def row_groups(parts: Iterable[Tables]) -> Iterator[list[Block]]:
    """The row groups for the rows of all parts, in order; at least one. Raises ValueError for tables that do not match the
    schema."""
    waiting: dict[str, list[Block]] = {kind.name: [] for kind in schema.KINDS}
    remaining = iter(parts)
    while (tables := next(remaining, None)) is not None:
        _add(tables, waiting)
        del tables  # so that they are not in memory while row groups are written
        for name in waiting:
            if _rows(waiting[name]) >= JOINED_ROWS * _factor(schema.kind(name)):
                yield from _full_groups(waiting, name)
        if text_bytes(waiting["source"]) >= LONG_TEXT_BYTES:
            yield [_joined(waiting["source"])]
    yield from _last_groups(waiting)


def text_bytes(group: Iterable[Block]) -> int:
    """The size of the source texts in a row group."""
    return sum(block.arrays["text"].nbytes for block in group if block.kind.name == "source")


def _add(tables: Tables, waiting: dict[str, list[Block]]) -> None:
    if unknown := set(tables) - set(waiting):
        raise ValueError(f"unknown kind: {', '.join(sorted(unknown))}")
    for name, columns in tables.items():
        block = _block(schema.kind(name), columns)
        if block.rows:
            waiting[name].append(block)


def _full_groups(waiting: dict[str, list[Block]], name: str) -> Iterator[list[Block]]:
    """Row groups from the waiting rows of a kind; a rest that is too small for one keeps waiting."""
    block = _joined(waiting[name])
    factor = _factor(block.kind)
    while block.rows >= JOINED_ROWS * factor:
        group, block = _split(block, GROUP_ROWS * factor)
        yield [group]
    if block.rows:
        waiting[name].append(block)


def _last_groups(waiting: dict[str, list[Block]]) -> Iterator[list[Block]]:
    """Row groups from all waiting rows."""
    found = [blocks for blocks in waiting.values() if blocks]
    shared = [_joined(blocks) for blocks in found if _rows(blocks) < SHARED_BELOW_ROWS]
    if shared or not found:
        yield shared
    for blocks in found:
        while _rows(blocks):
            whole = _joined(blocks)
            group, rest = _split(whole, GROUP_ROWS * _factor(whole.kind))
            del whole
            blocks.append(rest)
            yield [group]


def _factor(kind: schema.Kind) -> int:
    """How many times as many rows a row group of this kind may have."""
    return _NARROW_FACTOR if len(_types(kind)) <= _NARROW_COLUMNS else 1


def _rows(blocks: list[Block]) -> int:
    return sum(block.rows for block in blocks)


def _types(kind: schema.Kind) -> dict[str, pa.DataType]:
    """The columns that a kind may fill, common ones first."""
    common = {column.name: TYPES[column.type] for column in schema.COMMON if column.name in kind.common}
    return common | {column.name: TYPES[column.type] for column in kind.columns}


def _block(kind: schema.Kind, columns: Mapping[str, Values]) -> Block:
    types = _types(kind)
    if unknown := set(columns) - set(types):
        raise ValueError(f"kind {kind.name} has no column {', '.join(sorted(unknown))}")
    arrays = {name: _array(values, types[name]) for name, values in columns.items()}
    lengths = {len(array) for array in arrays.values()}
    if len(lengths) > 1:
        raise ValueError(f"columns of kind {kind.name} have different lengths: {sorted(lengths)}")
    return Block(kind, lengths.pop() if lengths else 0, _by_time(arrays))


def _by_time(arrays: dict[str, pa.Array]) -> dict[str, pa.Array]:
    times = arrays.get("t_ns")
    if times is None or times.null_count:
        return arrays
    t_ns = times.to_numpy(zero_copy_only=False)
    if not np.any(t_ns[1:] < t_ns[:-1]):
        return arrays
    order = pa.array(np.argsort(t_ns, kind="stable"))
    return {name: array.take(order) for name, array in arrays.items()}


def _array(values: Values, wanted: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.Array):
        return values if values.type == wanted else values.cast(wanted)
    if isinstance(values, Coded):
        return _texts_of(values, wanted)
    if isinstance(values, Lists):
        offsets, items = (array_of(each, TYPES["int32"]) for each in (values.offsets, values.items))
        return pa.ListArray.from_arrays(offsets, items, type=wanted)
    if isinstance(values, Masked):
        return array_of(values.data, wanted, values.mask)
    if isinstance(values, np.ndarray):
        return array_of(values, wanted)
    if wanted == TYPES["string"] and isinstance(values, list):
        return pa.concat_arrays([pa.array(piece, type=wanted) for piece in _pieces(values)])
    return pa.array(values, type=wanted)


def _texts_of(values: Coded, wanted: pa.DataType) -> pa.Array:
    """The text of each code; made from buffers, because Arrow's own take would load pyarrow.compute (40 ms)."""
    codes = values.codes
    if len(codes) and not -1 <= codes.min() <= codes.max() < len(values.values):
        raise ValueError("a code without a text")
    texts = [text.encode("utf-8", "backslashreplace") for text in values.values]
    lengths = np.array([*map(len, texts), 0], np.int64)[codes]  # -1, the code of null, is the last one
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if offsets[-1] > _MOST_TEXT_BYTES:
        raise ValueError(f"texts of {offsets[-1]} bytes in one column")
    starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1])[: len(codes)])
    if len(starts) < len(codes) // 4:  # most texts are that of the row before
        runs = np.diff(np.append(starts, len(codes)))
        data = b"".join(map(mul, np.array([*texts, b""], object)[codes[starts]], runs.tolist()))
    else:
        data = b"".join(np.array([*texts, b""], object)[codes])
    valid = pa.py_buffer(np.packbits(codes >= 0, bitorder="little"))
    buffers = [valid, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(wanted, len(codes), buffers)


def array_of(values: npt.NDArray[Any], wanted: pa.DataType, mask: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """A numpy array as an Arrow array; ``mask``: True = null. Made from buffers where possible: for a numpy array,
    :func:`pyarrow.array` imports :mod:`numpy.ma`, which takes 8 ms. Raises ValueError for a number that ``wanted`` cannot hold."""
    if wanted == TYPES["bool"] and values.dtype == np.bool_:
        data = np.packbits(values, bitorder="little")
    elif wanted in _NUMBERS and values.dtype.kind in "iu":
        data = np.ascontiguousarray(values, _NUMBERS[wanted])
        if values.dtype != data.dtype and not np.array_equal(data, values):
            return pa.array(values, type=wanted, mask=mask)
    else:
        return pa.array(values, type=wanted, mask=mask)
    valid = None if mask is None else pa.py_buffer(np.packbits(~mask, bitorder="little"))
    return pa.Array.from_buffers(wanted, len(values), [valid, pa.py_buffer(data)])


def _pieces(texts: list[str | None]) -> Iterator[list[str | None]]:
    """The texts in pieces: while Arrow converts a list, other threads wait, of which one drains the spool."""
    first, size = 0, 0
    for number, text in enumerate(texts, 1):
        size += len(text or "")
        if size >= _PIECE_BYTES:
            yield texts[first:number]
            first, size = number, 0
    yield texts[first:]


def _joined(blocks: list[Block]) -> Block:
    """The rows of ``blocks``, which are of one kind, one after the other. The blocks are emptied column by column, so that
    their rows are not in memory twice."""
    kind, rows = blocks[0].kind, sum(block.rows for block in blocks)
    arrays = {}
    for name, wanted in _types(kind).items():
        if any(name in block.arrays for block in blocks):
            pieces = [block.arrays.pop(name, None) or pa.nulls(block.rows, wanted) for block in blocks]
            arrays[name] = pa.concat_arrays(pieces) if len(pieces) > 1 else pieces[0]
    blocks.clear()
    return Block(kind, rows, arrays)


def _split(block: Block, rows: int) -> tuple[Block, Block]:
    """The first ``rows`` rows, or all if there are fewer, and the rest."""
    first = min(rows, block.rows)
    head = {name: array[:first] for name, array in block.arrays.items()}
    tail = {name: array[first:] for name, array in block.arrays.items()}
    return Block(block.kind, first, head), Block(block.kind, block.rows - first, tail)
