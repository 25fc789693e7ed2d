"""Every query file: its size, its header, and that it runs; views of files that hold less or other than expected."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scalene_trace.analyze.report import reduction
from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.trace import queries, views
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.analyze.trace.traces import Traces, open_traces
from scalene_trace.formats.errors import TraceDamaged
from scalene_trace.formats.trace import integrity, schema
from tests.support.trace_builder import TRACE_ID, TraceBuilder

NAMES = sorted(queries.paths(queries.VIEWS) | queries.paths(queries.STATEMENTS))
#: Values for the parameters that a query takes.
PARAMETERS: dict[str, dict[str, Any]] = {
    "sources_of": {"files": []},
    "label_list": {"names": None},
    "stack_shares": {"least": 0.001},
    "trace_rests": {"traces": 1},
    "mark_window": {"text": "load"},
    "metric_sums": {"metric": "cpu"},
    "metric_events": {"metric": "cpu"},
    "process_cpu": {"piece_ns": 10_000_000},
    "memory_figures": {"by": "line", "temporary_ns": None, "temporary_allocations": None},
    "binned_ticks": {"origin_ns": 0, "bin_ns": 1000, "bins": 10},
    "binned_waits": {"origin_ns": 0, "bin_ns": 1000, "bins": 10},
    "binned_memory": {"origin_ns": 0, "bin_ns": 1000, "bins": 10},
    "binned_gpu": {"origin_ns": 0, "bin_ns": 1000, "bins": 10},
    "binned_gpu_charges": {"origin_ns": 0, "bin_ns": 1000, "bins": 10},
    "binned_devices": {"origin_ns": 0, "bin_ns": 1000, "bins": 10},
    "binned_allocations": {"origin_ns": 0, "bin_ns": 1000, "peaks": [0, 1000]},
}


@pytest.fixture(scope="module")
def empty_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return TraceBuilder().write(tmp_path_factory.mktemp("empty") / "t.parquet")


@pytest.fixture(scope="module")
def opened(empty_trace: Path) -> Iterator[Traces]:
    with open_traces([empty_trace]) as traces:
        yield traces


@pytest.mark.parametrize("name", NAMES)
def test_the_header_names_the_columns_of_the_result(name: str, opened: Traces) -> None:
    header = queries.header(name)
    parameters = PARAMETERS.get(name, {})
    assert [each.name for each in header.parameters] == list(parameters)
    cursor = opened.connection.execute(queries.body(name), parameters or None)
    assert [column[0] for column in cursor.description] == [column.name for column in header.columns]


@pytest.mark.parametrize("name", NAMES)
def test_a_query_is_at_most_60_lines_of_120_columns(name: str) -> None:
    lines = queries.sql(name).splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 120


def test_every_view_is_described_as_it_is(empty_trace: Path) -> None:
    with open_traces([empty_trace]) as traces:
        for name, text, columns in views.describe():
            found = traces.connection.execute(f"DESCRIBE {name}").fetchall()
            assert text
            assert [row[0] for row in found] == [column.name for column in columns], name
            for row, column in zip(found, columns, strict=True):
                assert column.type in ("", row[1]), (name, column.name)


def test_materialised_or_not_the_figures_are_the_same(tmp_path: Path) -> None:
    builder = TraceBuilder()
    process = builder.process()
    thread = builder.thread(process, cpu_ns=25_000_000)
    for index in range(3):
        builder.tick(index, process, thread, builder.stack(("a.py", "f", 1, index + 1)))
    path = builder.write(tmp_path / "t.parquet")
    report = build_report([path], Selection())
    with open_traces([path]) as traces:
        rows = queries.rows(traces.connection, "lines")
    assert [(row["file"], row["line"], row["cpu_s"]) for row in rows] == [
        (e.file, e.line, e.cpu_s) for e in report.lines
    ]


def write_foreign(path: Path, table: pa.Table) -> Path:
    """A table with the metadata and the checksum of a trace."""
    metadata = {schema.METADATA_VERSION: "1.0", schema.METADATA_TRACE_ID: TRACE_ID}
    with path.open("w+b") as file:
        with pq.ParquetWriter(file, table.schema, store_schema=False) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata(metadata | {schema.METADATA_CRC32: integrity.PLACEHOLDER.decode()})
        file.flush()
        integrity.seal(file.fileno())
    return path


def test_a_file_that_names_kinds_in_bytes_is_refused_and_said_to_be_the_one(tmp_path: Path) -> None:
    cpu = [{"user_ns": 10_000_000}]
    good = write_foreign(tmp_path / "good", pa.table({"kind": ["cpu"], "t_ns": [5], "cpu": cpu}))
    odd = write_foreign(tmp_path / "odd", pa.table({"kind": pa.array([b"cpu"]), "t_ns": [5], "cpu": cpu}))
    assert build_report([good, good], Selection()).totals.cpu_s == pytest.approx(0.02)
    with pytest.raises(TraceDamaged, match="column kind holds no text") as refused:
        build_report([good, odd], Selection())
    assert refused.value.path == odd


@pytest.mark.parametrize("waits", [(2, 2), (2, 0), (0, 2), (0, 0)])
def test_an_older_file_is_read_beside_a_newer_one(waits: tuple[int, int], tmp_path: Path) -> None:
    """Files with the same columns are read together; each of these is read alone, with or without rows of the kind."""
    types = {"class": pa.string(), "native": pa.int32()}
    paths = []
    for number, names in enumerate((["class"], ["class", "native"])):
        row = {name: "sleep" if name == "class" else 7 for name in names}
        kinds = ["cpu", *["wait"] * waits[number]]
        wait = pa.array([None, *[row] * waits[number]], pa.struct({name: types[name] for name in names}))
        cpu = [{"user_ns": 10_000_000}, *[None] * waits[number]]
        table = pa.table({"kind": kinds, "t_ns": [5] * len(kinds), "cpu": cpu, "wait": wait})
        paths.append(write_foreign(tmp_path / f"{number}.parquet", table))
    for order in (paths, paths[::-1]):
        with open_traces(order) as opened:
            found = opened.connection.execute("SELECT count(*), count(native) FROM waits").fetchall()
        assert found == [(sum(waits), waits[1])]
        assert build_report(order, Selection()).totals.cpu_s == pytest.approx(0.02)


def test_an_older_file_lacks_columns_and_kinds(tmp_path: Path) -> None:
    cpu = [{"user_ns": 10_000_000, "opcode": "BINARY_OP", "pc_class": "eval"}]
    table = pa.table({"kind": ["cpu"], "t_ns": [5], "process": pa.array([1], pa.int64()), "cpu": cpu})
    path = write_foreign(tmp_path / "t.parquet", table)
    with open_traces([path]) as traces:
        row = queries.rows(traces.connection, "cpu_ticks")[0]
        kinds = dict(traces.connection.execute("SELECT column_name, column_type FROM (DESCRIBE processes)").fetchall())
    assert (row["t_ns"], row["process"], row["thread"], row["class"], row["gc"]) == (5, 1, None, "python", None)
    assert (kinds["command"], kinds["pid"], kinds["stacks"]) == ("VARCHAR[]", "BIGINT", "BOOLEAN")
    assert build_report([path], Selection()).unattributed.ticks == 1


def test_files_of_several_layouts_keep_their_numbers(tmp_path: Path) -> None:
    def file(number: int, ticks: int, **more: Any) -> Path:
        table = {"kind": ["cpu"] * ticks, "t_ns": [5] * ticks, "cpu": [{"user_ns": 10_000_000}] * ticks}
        return write_foreign(tmp_path / f"{number}.parquet", pa.table(table | more))

    paths = [
        file(0, 1),
        file(1, 2, File_Index=[7, 7]),
        file(2, 3, other=["x"] * 3),
        file(3, 4),
        file(4, 5, other=["y"] * 5),
    ]
    with open_traces(paths) as traces:
        found = "SELECT trace, count(*) FROM cpu_rows GROUP BY trace ORDER BY trace"
        assert traces.connection.execute(found).fetchall() == [(number, number) for number in range(1, 6)]
    report = build_report(paths, Selection())
    assert (report.unattributed.ticks, [info.events["cpu"] for info in report.traces]) == (15, [1, 2, 3, 4, 5])


def test_of_several_files_the_damaged_one_is_named(tmp_path: Path) -> None:
    good = pa.table({"kind": ["cpu"], "t_ns": [5], "cpu": [{"user_ns": 10_000_000}]})
    bad = pa.table({"kind": ["cpu"], "t_ns": ["soon"], "cpu": [{"user_ns": "many"}]})
    paths = [write_foreign(tmp_path / f"{name}.parquet", bad if name == "b" else good) for name in "abc"]
    with pytest.raises(TraceDamaged) as caught:
        build_report(paths, Selection())
    assert "b.parquet" in str(caught.value)


def test_rows_that_have_no_column_are_damage(tmp_path: Path) -> None:
    path = write_foreign(tmp_path / "t.parquet", pa.table({"kind": ["wait"], "t_ns": [5]}))
    with pytest.raises(TraceDamaged, match="rows of the kind wait, but no column"):
        build_report([path], Selection())


def test_native_ticks_without_a_thread_are_native(tmp_path: Path) -> None:
    cpu = [{"user_ns": 10_000_000, "pc_class": "extension"}, {"user_ns": 10_000_000, "pc_class": "eval"}]
    table = pa.table({"kind": ["cpu"] * 2, "t_ns": [5, 6], "cpu": cpu})
    rest = build_report([write_foreign(tmp_path / "t.parquet", table)], Selection()).unattributed
    assert rest.ticks == 2 and (rest.python_s, rest.native_s, rest.cpu_s) == pytest.approx((0.01, 0.01, 0.02))


def test_equal_rows_of_several_traces_keep_their_order_whatever_the_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = []
    for number in range(2):
        builder = TraceBuilder()
        thread = builder.thread(process := builder.process(), cpu_ns=0)
        for line in range(40, 0, -1):
            builder.tick(line, process, thread, builder.stack((f"{line % 3 + number}.py", "f", 1, line)), line % 5 + 1)
        paths.append(builder.write(tmp_path / f"{number}.parquet"))

    def order() -> list[Any]:
        report = build_report(paths, Selection(), "copy_bytes")
        return [[(each.file, each.line) for each in rows] for rows in (report.lines, report.functions)]

    together = order()
    monkeypatch.setattr(reduction, "batches_of", lambda paths, cores: ([[path] for path in paths], cores))
    assert order() == together and len(together[0]) == 80


def test_a_newer_file_holds_columns_and_kinds_that_we_do_not_know(tmp_path: Path) -> None:
    cpu = [{"user_ns": 10_000_000, "colour": "red"}, None]
    table = pa.table({"kind": ["cpu", "dream"], "t_ns": [5, 6], "cpu": cpu, "dream": [None, {"depth": 3}]})
    report = build_report([write_foreign(tmp_path / "t.parquet", table)], Selection())
    assert report.unattributed.ticks == 1


@pytest.mark.parametrize(
    "columns",
    [
        {"kind": ["cpu"], "t_ns": ["soon"], "cpu": [{"user_ns": "many"}]},
        {"kind": ["rss"], "t_ns": [1], "rss": [{"rss_bytes": "much"}]},
        {"kind": ["loss"], "loss": [{"count": "often"}]},
        {"t_ns": [1]},
    ],
)
def test_columns_of_impossible_types_are_damage(columns: dict[str, Any], tmp_path: Path) -> None:
    cpu_and_memory = {"setting": [{"name": "features", "value": '["cpu", "memory"]'}], "kind": ["setting"]}
    tables = [pa.table(columns)] + ([pa.table(cpu_and_memory)] if "kind" in columns else [])
    path = write_foreign(tmp_path / "t.parquet", pa.concat_tables(tables, promote_options="default"))
    with pytest.raises(TraceDamaged, match=r"t\.parquet"):
        build_report([path], Selection())


def test_the_temporary_folder_is_private_and_goes_away(empty_trace: Path) -> None:
    with open_traces([empty_trace]) as traces:
        assert traces.temporary.stat().st_mode & 0o777 == 0o700
    assert not traces.temporary.exists()


@pytest.mark.parametrize(
    "name",
    [
        "a*b.parquet",
        "a?b.parquet",
        "a[bc].parquet",
        "a'b.parquet",
        'a"b.parquet',
        "a b.parquet",
        "ä日.parquet",
        "\udcff\n.parquet",
    ],
)
def test_any_file_name_is_opened_and_only_that_file(name: str, tmp_path: Path) -> None:
    (tmp_path / "axb.parquet").write_bytes(b"not a trace")
    (tmp_path / "ab.parquet").write_bytes(b"not a trace")
    path = TraceBuilder().write(tmp_path / "t.parquet").rename(tmp_path / name)
    assert build_report([path], Selection()).traces[0].trace_id == TRACE_ID
