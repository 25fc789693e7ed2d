"""Row groups that were written with some of the columns become one Parquet file that every reader reads."""

from __future__ import annotations

import io
import random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scalene_trace.formats.trace.parquet.composed import PHYSICAL_TYPES, Composed, Leaf
from scalene_trace.formats.trace.parquet.thrift import BINARY, I64, LIST, STRUCT, NotThrift, ThriftReader
from scalene_trace.formats.trace.parquet.thrift_writer import Struct, integer, list_of, varint

TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "list<int32>": pa.list_(pa.field("element", pa.int32())),
    "list<string>": pa.list_(pa.field("element", pa.string())),
}
VALUES: dict[str, list[Any]] = {
    "bool": [True, False],
    "int32": [0, -1, 2**31 - 1],
    "int64": [0, -(2**63), 2**40],
    "string": ["", "a", "ü" * 300],
    "binary": [b"", b"\0\xff"],
    "list<int32>": [[], [1], [2, None, 3]],
    "list<string>": [[], ["a", "", None]],
}
#: Two columns of the table, and a struct with one of each type.
FIELDS = [
    pa.field("t", pa.int64()),
    pa.field("s", pa.struct([pa.field(name.strip(">").replace("<", "_"), each) for name, each in TYPES.items()])),
    pa.field("u", pa.struct([pa.field("x", pa.int32()), pa.field("l", TYPES["list<string>"])])),
]
ROWS = (0, 1, 63, 64, 65, 8_191, 8_192, 100_000)


def leaves(fields: list[pa.Field], above: tuple[str, ...] = ()) -> list[Leaf]:
    found = []
    for field in fields:
        path = (*above, field.name)
        if pa.types.is_struct(field.type):
            found += leaves(list(field.type), path)
        elif pa.types.is_list(field.type):
            found.append(Leaf((*path, "list", "element"), PHYSICAL_TYPES[str(field.type.value_type)], True))
        else:
            found.append(Leaf(path, PHYSICAL_TYPES[str(field.type)], False))
    return found


def written(table: pa.Table, groups: bool = True) -> memoryview:
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, table.schema, store_schema=False, compression="zstd") as writer:
        if groups:
            writer.write_table(table, row_group_size=max(len(table), 1))
    return memoryview(sink.getvalue())


def composed(tables: list[pa.Table], fields: list[pa.Field] = FIELDS) -> bytes:
    file = io.BytesIO()
    made = Composed(file, leaves(fields))
    for table in tables:
        made.add(written(table))
    made.close(written(pa.schema(fields).empty_table(), False), {"a key": "its value", "another": "x" * 300})
    return file.getvalue()


def drawn(random: random.Random, fields: list[pa.Field], rows: int) -> pa.Table:
    """A table with these columns. Half of its values are null, and each has neighbours that are the same."""
    columns = [pa.array([_value(random, field.type) for _ in range(rows)][:rows], field.type) for field in fields]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _value(random: random.Random, wanted: pa.DataType) -> Any:
    if random.random() < 0.5:
        return None
    if pa.types.is_struct(wanted):
        return {field.name: _value(random, field.type) for field in wanted}
    [name] = [name for name, each in TYPES.items() if each == wanted]
    return random.choice(VALUES[name])


@pytest.mark.parametrize("seed", range(20))
def test_readers_find_what_was_written_and_nulls(seed: int) -> None:
    """Row groups of some lengths with any of the columns, against the library's own file of the same rows."""
    drawing = random.Random(seed)
    tables = []
    for _ in range(drawing.randint(0, 5)):
        chosen = [field for field in FIELDS if drawing.random() < 0.6] or FIELDS[:1]
        tables.append(drawn(drawing, chosen, drawing.choice(ROWS[:5])))
    data = composed(tables)
    whole = [
        pa.Table.from_arrays(
            [t[f.name] if f.name in t.column_names else pa.nulls(len(t), f.type) for f in FIELDS],
            schema=pa.schema(FIELDS),
        )
        for t in tables
    ]
    expected = pa.concat_tables(whole) if whole else pa.schema(FIELDS).empty_table()
    found = pq.read_table(io.BytesIO(data))
    found.validate(full=True)
    assert found.equals(expected)
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    assert metadata.num_rows == len(expected)
    assert [metadata.row_group(each).num_rows for each in range(metadata.num_row_groups)] == [len(t) for t in tables]


@pytest.mark.parametrize("rows", ROWS)
def test_duckdb_reads_what_the_library_reads(rows: int, tmp_path: Any) -> None:
    tables = [drawn(random.Random(rows), FIELDS[:count], min(rows, 300)) for count in (1, 2, 3)]
    tables.append(pa.table({"t": pa.array(range(rows), pa.int64())}))
    path, plain = tmp_path / "composed.parquet", tmp_path / "plain.parquet"
    path.write_bytes(composed(tables))
    pq.write_table(pq.read_table(path), plain)
    sql = "SELECT * FROM read_parquet('{}', file_row_number = true) ORDER BY file_row_number"
    assert duckdb.sql(sql.format(path)).fetchall() == duckdb.sql(sql.format(plain)).fetchall()


def test_columns_without_values_take_as_little_with_many_rows() -> None:
    added = []
    for rows in (100, 1_000_000):
        table = pa.table({"t": pa.array([7] * rows, pa.int64())})
        added.append(len(composed([table])) - len(written(table)))
    assert added[1] - added[0] < 100


def test_the_footer_says_what_the_library_said() -> None:
    tables = [drawn(random.Random(each), FIELDS[:2], 500) for each in range(2)]
    data = composed(tables)
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    assert metadata.metadata == {b"a key": b"its value", b"another": b"x" * 300}
    for number, table in enumerate(tables):
        own = pq.ParquetFile(io.BytesIO(written(table))).metadata
        assert metadata.created_by == own.created_by and metadata.format_version == own.format_version
        group, alone = metadata.row_group(number), own.row_group(0)
        for place in range(own.num_columns):
            found, expected = group.column(place).to_dict(), alone.column(place).to_dict()
            for moved in ("data_page_offset", "dictionary_page_offset", "file_offset"):
                assert (found.pop(moved) is None) == (expected.pop(moved) is None)
            assert found == expected
        places = [group.column(place) for place in range(metadata.num_columns)]
        assert group.total_byte_size == sum(place.total_uncompressed_size for place in places)


def decoded(reader: ThriftReader, kind: int) -> Any:
    """A value of the compact protocol: structs as dicts by the ids of their fields."""
    if kind == STRUCT:
        return {field: decoded(reader, of_field) for field, of_field in reader.fields()}
    if kind == LIST:
        count, of_element = reader.elements()
        return [decoded(reader, of_element) for _ in range(count)]
    if kind == BINARY:
        return reader.binary()
    return kind == 1 if kind in (1, 2) else reader.integer()


def test_row_groups_say_where_they_are_and_how_large() -> None:
    """What readers split files by (parquet.thrift: RowGroup), which the library and DuckDB do not look at."""
    tables = [drawn(random.Random(each), FIELDS[each % 3 :], rows) for each, rows in enumerate((500, 1, 64, 9_000))]
    data = composed(tables)
    size = int.from_bytes(data[-8:-4], "little")
    footer, at = decoded(ThriftReader(data[-8 - size : -8]), STRUCT), 4
    assert footer[3] == sum(map(len, tables)) and len(footer[7]) == len(leaves(FIELDS))
    for number, (group, table) in enumerate(zip(footer[4], tables, strict=True)):
        chunks = [chunk[3] for chunk in group[1]]
        assert [group[field] for field in (3, 5, 7)] == [len(table), at, number]
        assert (group[2], group[6]) == (sum(chunk[6] for chunk in chunks), sum(chunk[7] for chunk in chunks))
        assert [tuple(name.decode() for name in chunk[3]) for chunk in chunks] == [leaf.path for leaf in leaves(FIELDS)]
        for chunk in sorted(chunks, key=lambda chunk: chunk.get(11, chunk[9])):
            assert chunk.get(11, chunk[9]) == at  # one behind the other
            at += chunk[7]
            if chunk[3][0].decode() not in table.column_names:
                assert (chunk[2], chunk[4]) == ([3, 0], 0)  # RLE for levels, plain values; not compressed
    assert at == len(data) - 8 - size


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(NotThrift, match="the file has no column t"):
        composed([pa.table({"t": [1]})], FIELDS[1:])


@pytest.mark.parametrize("value", [0, 1, -1, 63, 64, -64, -65, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)])
def test_integers_are_read_as_they_were_written(value: int) -> None:
    assert ThriftReader(integer(value)).integer() == value
    reader = ThriftReader(
        Struct().integer(3, I64, value).binary(16, b"text").list(31, I64, [integer(value)] * 20).end()
    )
    fields = reader.fields()
    assert next(fields) == (3, I64) and reader.integer() == value
    assert next(fields)[0] == 16 and reader.binary() == b"text"
    assert next(fields) == (31, LIST) and reader.elements() == (20, I64)
    assert [reader.integer() for _ in range(20)] == [value] * 20
    assert next(fields, None) is None


@pytest.mark.parametrize("count", [0, 1, 14, 15, 127, 128, 5_000])
def test_lists_are_read_as_they_were_written(count: int) -> None:
    reader = ThriftReader(list_of(I64, [varint(each) for each in range(count)]))
    assert reader.elements() == (count, I64)
    assert [reader.varint() for _ in range(count)] == [*range(count)]
