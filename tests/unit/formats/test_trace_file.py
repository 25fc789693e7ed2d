"""The writer of traces and the integrity check: what was written is read back, and a damaged bit is found."""

from __future__ import annotations

import itertools
import os
import random
import stat

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import _parquet

from scalene_trace.formats import errors
from scalene_trace.formats.trace import integrity, row_groups, schema, writer
from scalene_trace.formats.trace.columns import Coded, Lists, Masked
from scalene_trace.formats.trace.integrity import check_trace
from scalene_trace.formats.trace.settings import SETTINGS
from scalene_trace.formats.trace.writer import write_trace
from scalene_trace.formats.version import VERSION
from tests.support.paths import ROOT

TRACE_ID = "00112233445566778899aabbccddeeff"


def cpu_rows(count: int) -> dict[str, object]:
    rng = np.random.default_rng(count)
    native = rng.random(count) < 0.3
    return {
        "t_ns": np.cumsum(rng.integers(5_000_000, 15_000_000, count)),
        "process": np.ones(count, np.int32),
        "thread": np.ones(count, np.int32),
        "stack": Masked(rng.integers(1, 60, count), rng.random(count) < 0.01),
        "user_ns": np.where(rng.random(count) < 0.97, 10_000_000, 20_000_000),
        "system_ns": np.zeros(count, np.int64),
        "clock_ns": np.cumsum(rng.integers(4_000_000, 15_000_000, count)),
        "pc_class": Coded(native.astype(np.int32), ["eval", "extension"]),
        "pc_module": np.where(native, 3, 1),
        "pc_offset": rng.integers(0x10000, 0x400000, count),
        "extension_module": [3 if each else None for each in native.tolist()],
        "extension_offset": Masked(rng.integers(0x1000, 0x90000, count), ~native),
        "opcode": Coded(
            rng.integers(-1, 4, count).astype(np.int32), ["CALL", "LOAD_FAST", "BINARY_OP_ADD_INT", "FOR_ITER"]
        ),
        "gc": rng.random(count) < 0.02,
    } | dict.fromkeys(("eval_found", "vectorcall", "has_python"), native)


def alloc_rows(count: int) -> dict[str, object]:
    """Samples of a busy program: 200 a second, a tenth alive at the end, half of those left by a thinned table."""
    rng = np.random.default_rng(count)
    many, few = np.exp(rng.normal(10.5, 2, count)).astype(np.int64) + 512, [48, 56, 64, 72, 104, 232, 568, 1_184]
    choice = rng.integers(0, 4, count)
    sizes = np.choose(
        choice,
        [rng.choice(few, count), rng.integers(33, 2_000, count), many, rng.choice([8_192, 65_536, 8 << 20], count)],
    )
    stacks, lifetimes = rng.zipf(1.3, count) % 300 + 1, np.exp(rng.normal(16, 3, count)).astype(np.int64)
    interval = np.int64(262_144) << np.arange(count) * 3 // count
    alive = rng.random(count) < 0.1
    return {
        "t_ns": np.cumsum(rng.exponential(5e6, count)).astype(np.int64),
        "process": np.ones(count, np.int32),
        "thread": rng.choice([1, 1, 1, 1, 2, 3], count).astype(np.int32),
        "stack": stacks,
        "size_bytes": sizes,
        "usable_bytes": np.where(sizes < 131_072, sizes + 15 & ~15, sizes + 4_111 & ~4_095),
        "interval_bytes": interval,
        "life_interval_bytes": np.where(alive & (choice > 1), 2 * interval, interval),
        "lifetime_ns": Masked(lifetimes, alive),
        "free_stack": Masked(np.where(choice > 1, stacks, rng.integers(1, 301, count)), alive),
        "survived": lifetimes // 50_000_000,
        "at_exit": rng.random(count) < 0.01,
        "allocator": Coded((sizes <= 512).astype(np.int32), ["malloc", "pymalloc"]),
        "python": sizes <= 512,
        "type": Coded((rng.zipf(1.5, count) % 31 - 1).astype(np.int32), [f"module{n}.Class{n}" for n in range(30)]),
        "maximum": rng.random(count) < 0.002,
    }


def small_tables(ticks: int) -> dict[str, dict[str, object]]:
    rng = np.random.default_rng(5)
    lengths = rng.integers(5, 25, 60)
    return {
        "cpu": cpu_rows(ticks),
        "memory": {"t_ns": [7, 5], "process": [1, 1], "net_bytes": [10_485_767, -10_485_767]},
        "rss": {
            "t_ns": np.arange(20) * 10**9,
            "process": [1] * 20,
            "rss_bytes": rng.integers(10**7, 10**8, 20),
            "shared_bytes": [0] * 20,
        },
        "process": {
            "t_ns": [0],
            "process": [1],
            "pid": [4711],
            "command": [["python", "app.py"]],
            "exit_status": [None],
        },
        "thread": {"t_ns": [0], "process": [1], "thread": [1], "tid": [4711], "name": ["python"]},
        "location": {
            "id": np.arange(150),
            "file": [f"/usr/lib/python3.11/site-packages/pkg/mod{n % 9}.py" for n in range(150)],
            "function": [f"Class{n % 11}.method_{n % 37}" for n in range(150)],
            "first_line": rng.integers(1, 800, 150),
            "line": rng.integers(1, 800, 150),
        },
        "stack": {
            "stack": np.arange(1, 61),
            "hash": rng.integers(-(2**63), 2**63 - 1, 60),
            "locations": Lists(
                rng.integers(0, 150, lengths.sum()).astype(np.int32),
                np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
            ),
            "truncated": [False] * 60,
        },
        "code": {"file": ["/a.py"] * 25, "function": ["f"] * 25, "bytecode": [rng.bytes(200) for _ in range(25)]},
        "module": {
            "id": np.arange(40),
            "path": [f"/usr/lib/libm{n}.so" for n in range(40)],
            "class": ["extension"] * 40,
        },
        "setting": {"name": list(SETTINGS), "value": ["something"] * len(SETTINGS)},
        "loss": {"name": ["torn_stack"], "severity": ["loss"], "count": [3], "text": ["torn"]},
    }


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "trace.parquet"
    write_trace(path, TRACE_ID, [small_tables(1_000)])
    return path


def query(path, sql):
    return duckdb.sql(sql.replace("TRACE", f"'{path}'")).fetchall()


def test_a_ten_second_trace_of_one_thread_is_small(trace):
    assert trace.stat().st_size < 45_000


def test_an_allocation_sample_takes_at_most_25_bytes(tmp_path):
    path = tmp_path / "t.parquet"
    write_trace(path, TRACE_ID, [{}])
    empty = path.stat().st_size
    write_trace(path, TRACE_ID, [{"alloc": alloc_rows(100_000)}])
    assert (path.stat().st_size - empty) / 100_000 < 25
    stored = query(
        path, "SELECT sum(alloc.size_bytes), count(alloc.lifetime_ns), count(DISTINCT alloc.type) FROM TRACE"
    )
    rows = alloc_rows(100_000)
    assert stored == [(rows["size_bytes"].sum(), np.count_nonzero(~rows["lifetime_ns"].mask), 30)]


def test_the_file_is_private_and_nothing_else_is_left(trace):
    assert stat.S_IMODE(trace.stat().st_mode) == 0o600
    assert [each.name for each in trace.parent.iterdir()] == [trace.name]


def test_top_level_columns_have_names_of_their_own(trace):
    names = pq.read_schema(trace).names
    assert len(set(names)) == len(names)
    assert names[:6] == [column.name for column in schema.COMMON]
    assert {"process_row", "thread_row", "stack_row", "cpu"} <= set(names)


def test_columns_and_types_are_those_of_the_schema(trace):
    stored = pq.read_schema(trace)
    for kind in schema.KINDS:
        fields = {field.name: field.type for field in stored.field(kind.struct).type}
        assert list(fields) == [column.name for column in kind.columns]
        for column in kind.columns:
            spelled = str(fields[column.name]).replace("element: ", "")
            assert spelled == column.type


def test_small_kinds_share_one_row_group_in_the_order_of_kind_and_time(trace):
    assert pq.read_metadata(trace).num_row_groups == 1
    kinds = [kind for (kind,) in query(trace, "SELECT kind FROM TRACE")]
    assert list(dict.fromkeys(kinds)) == [kind.name for kind in schema.KINDS if kind.name in small_tables(1)]
    assert query(trace, "SELECT t_ns, memory.net_bytes FROM TRACE WHERE kind = 'memory'") == [
        (5, -10_485_767),
        (7, 10_485_767),
    ]


def test_values_and_nulls_come_back(trace):
    tables = small_tables(1_000)
    cpu = tables["cpu"]
    rows = query(trace, "SELECT stack, cpu.opcode, cpu.extension_offset, cpu.torn FROM TRACE WHERE kind = 'cpu'")
    assert [row[0] for row in rows] == cpu["stack"].tolist()
    opcode = cpu["opcode"]
    assert [row[1] for row in rows] == [opcode.values[code] if code >= 0 else None for code in opcode.codes.tolist()]
    assert [row[2] for row in rows] == cpu["extension_offset"].tolist()
    assert {row[3] for row in rows} == {None}
    lists = tables["stack"]["locations"]
    expected = [lists.items[a:b].tolist() for a, b in zip(lists.offsets, lists.offsets[1:], strict=False)]
    assert [row[0] for row in query(trace, "SELECT stack_row.locations FROM TRACE WHERE kind = 'stack'")] == expected
    assert query(trace, "SELECT process_row.command, process_row.exit_status FROM TRACE WHERE kind = 'process'") == [
        (["python", "app.py"], None)
    ]


def test_only_the_struct_of_its_own_kind_is_filled_in_a_row(trace):
    for kind in schema.KINDS:
        where = f"kind != '{kind.name}' AND {kind.struct} IS NOT NULL"
        assert query(trace, f"SELECT count(*) FROM TRACE WHERE {where}") == [(0,)]


def test_a_large_kind_has_row_groups_of_its_own_sorted_by_time(tmp_path):
    path, rows = tmp_path / "large.parquet", cpu_rows(130_003)
    order = np.random.default_rng(1).permutation(130_003)
    shuffled = {"t_ns": rows["t_ns"][order], "user_ns": rows["user_ns"][order], "thread": rows["thread"]}
    write_trace(path, TRACE_ID, [small_tables(10) | {"cpu": shuffled}])
    metadata = pq.read_metadata(path)
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert sizes[0] == 122_880 and len(sizes) == 2  # few rows are left, which share a row group with other kinds
    stored = query(path, "SELECT t_ns, cpu.user_ns FROM TRACE WHERE kind = 'cpu'")
    assert stored == list(zip(rows["t_ns"].tolist(), rows["user_ns"].tolist(), strict=True))


def test_narrow_kinds_have_longer_row_groups(tmp_path):
    t_ns = np.arange(600_000)
    sizes = {"process": np.ones(600_000, np.int32), "rss_bytes": t_ns * 3, "shared_bytes": t_ns * 5}
    write_trace(tmp_path / "t.parquet", TRACE_ID, parts_of({"rss": {"t_ns": t_ns} | sizes}, 7))
    metadata = pq.read_metadata(tmp_path / "t.parquet")
    assert metadata.num_row_groups == 2 and metadata.row_group(0).num_rows > 4 * 92_160
    (found,) = query(tmp_path / "t.parquet", "SELECT count(*), sum(rss.rss_bytes - 3 * t_ns), max(t_ns) FROM TRACE")
    assert found == (600_000, 0, 599_999)


def parts_of(tables, count):
    """``tables`` of arrays in ``count`` parts of nearly equal size."""
    for part in range(count):
        yield {
            kind: {name: np.array_split(column, count)[part] for name, column in columns.items()}
            for kind, columns in tables.items()
        }


def many_and_few():
    """Two kinds, of many rows and of few, the numbers of which say where they belong."""
    few = {"t_ns": np.arange(19_999) * 11, "footprint_bytes": np.arange(19_999)}
    return {"memory": {"t_ns": np.arange(300_007) * 3 // 7, "net_bytes": np.arange(300_007)}, "heap": few}


@pytest.mark.parametrize("parts", [2, 7, 100])
def test_rows_of_many_parts_share_few_row_groups_and_keep_their_order(tmp_path, parts):
    path, tables = tmp_path / "t.parquet", many_and_few()
    write_trace(path, TRACE_ID, parts_of(tables, parts))
    metadata = pq.read_metadata(path)
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert sum(sizes) == 320_006 and len(sizes) <= 5
    assert min(sizes[:-2]) >= row_groups.JOINED_ROWS and max(sizes) <= row_groups.GROUP_ROWS
    for kind, column in (("memory", "net_bytes"), ("heap", "footprint_bytes")):
        stored = query(path, f"SELECT t_ns, {kind}.{column} FROM TRACE WHERE kind = '{kind}'")
        assert stored == list(zip(*(each.tolist() for each in tables[kind].values()), strict=True))


def test_columns_that_only_some_parts_fill_are_null_in_the_others(tmp_path):
    parts = [{"memory": {"t_ns": [1], "net_bytes": [10]}}, {}, {"memory": {"t_ns": [2]}, "rss": {"t_ns": [3]}}]
    write_trace(tmp_path / "t.parquet", TRACE_ID, parts)
    stored = query(tmp_path / "t.parquet", "SELECT kind, t_ns, memory.net_bytes FROM TRACE")
    assert stored == [("memory", 1, 10), ("memory", 2, None), ("rss", 3, None)]


def test_long_source_texts_are_compressed_faster(tmp_path, monkeypatch):
    """The text is our own source, because texts that are made up may be smaller at the lower level."""
    text, sizes = "".join(path.read_text() for path in sorted((ROOT / "recorder").rglob("*.py"))), []
    for limit in (len(text) * 2, len(text) // 2):
        monkeypatch.setattr(writer, "_LONG_TEXT_BYTES", limit)
        path = tmp_path / f"{limit}.parquet"
        write_trace(path, TRACE_ID, [{"source": {"file": ["a.py"], "text": [text], "changed": [False]}}])
        assert duckdb.sql(f"SELECT source.text FROM '{path}'").fetchall() == [(text,)]
        sizes.append(path.stat().st_size)
    assert sizes[0] < sizes[1]


def test_the_same_parts_give_the_same_file(tmp_path):
    for name in ("a", "b"):
        write_trace(tmp_path / name, TRACE_ID, parts_of(many_and_few(), 9))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_release_of_pyarrow_with_another_inner_writer_writes_the_same(tmp_path, monkeypatch):
    write_trace(tmp_path / "a.parquet", "1" * 32, [small_tables(50)])
    inner = _parquet.ParquetWriter

    def other(*args, writer_engine_version, **options):  # which the public one gives
        return inner(*args, writer_engine_version=writer_engine_version, **options)

    monkeypatch.setattr(_parquet, "ParquetWriter", other)
    write_trace(tmp_path / "b.parquet", "1" * 32, [small_tables(50)])
    assert pq.read_table(tmp_path / "a.parquet") == pq.read_table(tmp_path / "b.parquet")
    check_trace(tmp_path / "b.parquet")


def test_nothing_is_left_when_it_ends_between_parts(tmp_path):
    """Rows that wait are only in memory, so no trace is there before it is whole; the spool is, until then."""

    def interrupted():
        yield from itertools.islice(parts_of(many_and_few(), 9), 6)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_trace(tmp_path / "t.parquet", TRACE_ID, interrupted())
    assert list(tmp_path.iterdir()) == []


def test_statistics_are_kept_for_kind_and_time_alone(trace):
    group = pq.read_metadata(trace).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    assert {each.path_in_schema for each in columns if each.is_stats_set} == {"kind", "t_ns"}
    assert "ARROW:schema" not in str(pq.read_metadata(trace).metadata)


def test_an_empty_trace_is_a_trace(tmp_path):
    path = tmp_path / "empty.parquet"
    write_trace(path, TRACE_ID, [{}])
    assert check_trace(path) == integrity.TraceHeader(schema.FORMAT_VERSION, TRACE_ID)
    assert query(path, "SELECT count(*) FROM TRACE") == [(0,)]


@pytest.mark.parametrize(
    "tables",
    [{"nothing": {"t_ns": [1]}}, {"cpu": {"t_ns": [1], "no_such": [1]}}, {"cpu": {"t_ns": [1, 2], "user_ns": [1]}}],
)
def test_tables_that_do_not_fit_the_schema_are_refused(tmp_path, tables):
    with pytest.raises(ValueError):
        write_trace(tmp_path / "x.parquet", TRACE_ID, [tables])
    assert [each.name for each in tmp_path.iterdir()] == []


def test_a_value_that_cannot_be_stored_leaves_no_file(tmp_path):
    with pytest.raises((pa.ArrowInvalid, UnicodeEncodeError, OverflowError)):
        write_trace(tmp_path / "x.parquet", TRACE_ID, [{"cpu": {"t_ns": [2**80]}}])
    assert [each.name for each in tmp_path.iterdir()] == []


def test_a_folder_that_is_gone_is_a_sentence(tmp_path):
    with pytest.raises(errors.TraceWriteError, match="could not be written: No such file"):
        write_trace(tmp_path / "gone" / "x.parquet", TRACE_ID, [{}])


def test_the_header_has_version_and_trace_id(trace):
    assert check_trace(trace) == integrity.TraceHeader("1.12", TRACE_ID)


def test_the_number_of_frames_is_known_without_reading_the_stacks(tmp_path):
    path, frames = tmp_path / "t.parquet", Lists(np.arange(43, dtype=np.int32), np.array([0, 3, 3, 43], np.int32))
    write_trace(path, TRACE_ID, [{"stack": {"stack": [1, 2, 3], "locations": frames}}] * 2)
    assert integrity.stored_frames(path) == 86
    write_trace(path.with_name("bare"), TRACE_ID, [{"stack": {"stack": [1, 2]}}])
    assert integrity.stored_frames(path.with_name("bare")) == 0
    older, empty, cut = tmp_path / "older.parquet", tmp_path / "empty", tmp_path / "cut"
    older.write_bytes(path.read_bytes().replace(schema.METADATA_FRAMES.encode(), b"scalene_trace.dreams"))
    empty.touch()
    cut.write_bytes(path.read_bytes()[:-9])
    assert [integrity.stored_frames(each) for each in (older, empty, cut, tmp_path, tmp_path / "none")] == [None] * 5


def test_flipped_bits_are_refused(trace, tmp_path):
    image, path, rng = trace.read_bytes(), tmp_path / "flipped.parquet", random.Random(20260102)
    footer = len(image) - 900  # two bits of each byte in the last part of the footer; the rest by chance
    places = [(at, bit) for at in range(footer, len(image)) for bit in rng.sample(range(8), 2)]
    places += [(at, bit) for at in (*range(4), *range(len(image) - 8, len(image))) for bit in range(8)]
    places += [(rng.randrange(len(image)), rng.randrange(8)) for _ in range(600)]
    for at, bit in places:
        flipped = bytearray(image)
        flipped[at] ^= 1 << bit
        path.write_bytes(flipped)
        with pytest.raises(errors.TraceFileError):
            check_trace(path)


def test_any_cut_is_refused(trace, tmp_path):
    image, path, rng = trace.read_bytes(), tmp_path / "cut.parquet", random.Random(20260103)
    for size in [1, 3, 4, 7, 8, 12, 13, len(image) - 1, *(rng.randrange(len(image)) for _ in range(300))]:
        path.write_bytes(image[:size])
        with pytest.raises((errors.TraceCut, errors.NotParquet)):
            check_trace(path)
        path.write_bytes(image[size:])  # the beginning is missing
        with pytest.raises(errors.TraceFileError):
            check_trace(path)


def test_appended_and_swapped_bytes_are_refused(trace, tmp_path):
    image, path, rng = trace.read_bytes(), tmp_path / "mutated.parquet", random.Random(20260104)
    for _ in range(200):
        mutated = bytearray(image)
        at, to, size = rng.randrange(len(image)), rng.randrange(len(image)), rng.randrange(1, 64)
        mutated[at : at + size] = image[to : to + size]
        if mutated == image:
            continue
        path.write_bytes(mutated)
        with pytest.raises(errors.TraceFileError):
            check_trace(path)
    path.write_bytes(image + b"x")
    with pytest.raises(errors.TraceCut):
        check_trace(path)


def test_what_is_not_a_trace_is_refused_by_name(tmp_path):
    path = tmp_path / "x.parquet"
    with pytest.raises(errors.TraceMissing, match="no such file"):
        check_trace(path)
    with pytest.raises(errors.TraceIsDirectory):
        check_trace(tmp_path)
    path.touch()
    with pytest.raises(errors.TraceEmpty):
        check_trace(path)
    for data in (b"hello", b"PAR", b"x" * 5_000):
        path.write_bytes(data)
        with pytest.raises(errors.NotParquet):
            check_trace(path)
    pq.write_table(pa.table({"a": [1, 2, 3]}), path)
    with pytest.raises(errors.NotATrace):
        check_trace(path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(errors.TraceMissing, match="not a regular file"):
        check_trace(tmp_path / "pipe")


@pytest.mark.parametrize(("version", "readable"), [("1.7", True), ("2.0", False), ("10.0", False), ("x", False)])
def test_a_newer_major_version_is_refused_and_a_newer_minor_is_read(tmp_path, monkeypatch, version, readable):
    path = tmp_path / "x.parquet"
    monkeypatch.setattr(schema, "FORMAT_VERSION", version)
    write_trace(path, TRACE_ID, [{}])
    if readable:
        assert check_trace(path).version == version
    else:
        with pytest.raises(errors.TraceTooNew, match=f"trace format {version}"):
            check_trace(path)


def test_every_error_is_one_or_two_sentences_with_the_path():
    for error in errors.TraceFileError.__subclasses__() + errors.SpoolError.__subclasses__():
        text = str(error("/some/file", "some detail"))
        assert "/some/file" in text
        assert text.endswith(".") and 1 <= text.count(". ") + 1 <= 2


def test_an_unsealed_file_cannot_be_sealed_twice(trace, tmp_path):
    path = tmp_path / "x.parquet"
    path.write_bytes(trace.read_bytes())
    with path.open("r+b") as file, pytest.raises(ValueError, match="placeholder"):
        integrity.seal(file.fileno())


def test_the_version_is_that_of_the_package():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION


def test_only_the_writer_needs_pyarrow():
    import subprocess
    import sys

    code = "import sys; from scalene_trace.formats{}; print('pyarrow' in sys.modules)"
    for names, expected in (
        (" import errors", "False"),
        (".cpython import linetable, opcodes", "False"),
        (".spool import layout, losses, reader", "False"),
        (".trace import columns, integrity, schema", "False"),
        (".trace import row_groups", "True"),
        (".trace import writer", "True"),
    ):
        out = subprocess.run([sys.executable, "-c", code.format(names)], capture_output=True, text=True, check=True)
        assert out.stdout.strip() == expected
    assert row_groups.SHARED_BELOW_ROWS == 20_000


@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize(
    ("values", "name"),
    [
        (np.arange(-5, 12, dtype=np.int64), "int64"),
        (np.arange(17, dtype=np.uint64), "int64"),
        (np.arange(-5, 12, dtype=np.int64), "int32"),
        (np.arange(17, dtype=np.uint16)[::3], "int32"),
        (np.arange(17) % 3 == 0, "bool"),
        (np.zeros(9, [("a", np.int8), ("b", np.int64)])["b"], "int64"),
        (np.empty(0, np.int32), "int32"),
        (np.empty(0, bool), "bool"),
        (np.array(["a", None], object), "string"),
    ],
)
def test_an_array_becomes_what_arrow_makes_of_it(values, name, is_masked):
    wanted, mask = row_groups.TYPES[name], np.arange(len(values)) % 4 == 1 if is_masked else None
    made = row_groups.array_of(values, wanted, mask)
    made.validate(full=True)
    assert made.equals(pa.array(values, wanted, mask=mask))


@pytest.mark.parametrize(
    ("values", "name"), [([2**31], "int32"), ([-(2**31) - 1], "int32"), (np.array([2**63], np.uint64), "int64")]
)
def test_a_number_that_its_column_cannot_hold_is_refused_unless_it_is_null(values, name):
    wanted, values = row_groups.TYPES[name], np.asarray(values)
    with pytest.raises(ValueError):
        row_groups.array_of(values, wanted)
    with pytest.raises(ValueError):
        pa.array(values, wanted)
    assert row_groups.array_of(values, wanted, np.array([True])).to_pylist() == [None]
