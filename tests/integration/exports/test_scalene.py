"""The export in Scalene's JSON: the fields and limits of its schema, and the report's figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.exports.export import FORMATS, Asked
from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.trace.selection import Selection
from tests.support.example_traces import APP, THIN, hostile_trace, rich_trace, thin_trace
from tests.support.trace_builder import MS, SECOND, TraceBuilder

MIB = 1_048_576
#: The fields of Scalene 2.4's schema that have no default.
TOP = [
    "alloc_samples",
    "elapsed_time_sec",
    "start_time_absolute",
    "start_time_perf",
    "entrypoint_dir",
    "filename",
    "files",
    "gpu",
    "gpu_device",
    "growth_rate",
    "max_footprint_fname",
    "max_footprint_lineno",
    "max_footprint_mb",
    "max_footprint_python_fraction",
    "memory",
    "program",
    "samples",
    "stacks",
]
SHARED = [
    "line",
    "lineno",
    "memory_samples",
    "n_avg_mb",
    "n_copy_mb_s",
    "n_core_utilization",
    "cpu_samples_list",
    "n_cpu_percent_c",
    "n_cpu_percent_python",
    "n_gpu_avg_memory_mb",
    "n_gpu_peak_memory_mb",
    "n_gpu_percent",
    "n_growth_mb",
    "n_peak_mb",
    "n_malloc_mb",
    "n_mallocs",
    "n_python_fraction",
    "n_sys_percent",
    "n_usage_fraction",
]
LINE = ["start_outermost_loop", "end_outermost_loop", "start_region_line", "end_region_line"]
FRACTIONS = ("n_python_fraction", "n_usage_fraction", "n_core_utilization")
PERCENTS = ("n_cpu_percent_c", "n_cpu_percent_python", "n_sys_percent", "n_gpu_percent")


def exported(*paths: Path, selection: Selection | None = None) -> dict[str, Any]:
    contents = FORMATS["scalene"].make(Asked(paths, selection or Selection())).contents
    document: dict[str, Any] = json.loads(contents)
    check(document)
    return document


def check(document: dict[str, Any]) -> None:
    """What Scalene refuses to load otherwise."""
    assert set(TOP) <= set(document)
    assert document["gpu_device"] in ("GPU", "Neuron", "")
    assert document["max_footprint_lineno"] is None or document["max_footprint_lineno"] > 0
    assert all(value >= 0 for sample in document["samples"] for value in sample)
    for file in document["files"].values():
        assert set(file) == {"functions", "imports", "leaks", "lines", "percent_cpu_time"}
        for row in file["lines"]:
            check_row(row, [*SHARED, *LINE])
            assert all(row[name] > 0 for name in LINE)
        for row in file["functions"]:
            check_row(row, SHARED)
        assert all(leak["velocity_mb_s"] >= 0 and leak["likelihood"] >= 0 for leak in file["leaks"].values())
    for frames, count in document["combined_stacks"]:
        assert isinstance(count, int) and count > 0
        assert {frame["kind"] for frame in frames} <= {"py", "native"}


def check_row(row: dict[str, Any], names: list[str]) -> None:
    assert set(names) <= set(row)
    assert all(0 <= row[name] <= 1 for name in FRACTIONS)
    assert all(0 <= row[name] <= 100 for name in PERCENTS)
    assert sum(row[name] for name in PERCENTS[:3]) < 101
    assert row["n_avg_mb"] <= row["n_peak_mb"]
    assert row["lineno"] > 0 and row["n_growth_mb"] >= 0 and row["n_malloc_mb"] >= 0


def test_lines_have_the_reports_figures(tmp_path: Path) -> None:
    path = rich_trace(tmp_path / "t.parquet")
    document, totals = exported(path), build_report([path], Selection()).totals
    lines = {row["lineno"]: row for row in document["files"][APP]["lines"]}
    assert list(lines) == list(range(1, 21)), "every line of the source, and no more"
    assert lines[4]["line"] == "line 4\n"
    assert totals.cpu_s == pytest.approx(0.061)
    # of 61 ms: line 4 has 10 ms Python and 1 ms kernel, line 5 the 20 ms of the library below it
    assert (lines[4]["n_cpu_percent_python"], lines[4]["n_sys_percent"]) == pytest.approx((1000 / 61, 100 / 61))
    assert lines[5]["n_cpu_percent_c"] == pytest.approx(2000 / 61)
    assert document["files"][APP]["percent_cpu_time"] == pytest.approx(3100 / 61)
    assert lines[4]["n_malloc_mb"] == pytest.approx(1_999_993 / MIB)
    assert lines[12]["n_peak_mb"] == pytest.approx(11_000_003 / MIB)
    assert lines[4]["n_copy_mb_s"] == pytest.approx(20_000_003 / MIB / 10)
    assert sum(row["n_usage_fraction"] for row in lines.values()) == pytest.approx(1)


def test_functions_and_the_peak_are_there(tmp_path: Path) -> None:
    document = exported(rich_trace(tmp_path / "t.parquet"))
    functions = {row["line"]: row["lineno"] for row in document["files"][APP]["functions"]}
    assert functions == {"work": 3, "main": 10, "<module>": 1}
    assert document["max_footprint_mb"] == pytest.approx(5_000_010 / MIB)
    assert (document["max_footprint_fname"], document["max_footprint_lineno"]) == (APP, 12)
    assert (document["program"], document["args"]) == ("app.py", ["app.py", "--fast"])


def test_stacks_weigh_seconds_milliseconds_and_mebibytes(tmp_path: Path) -> None:
    document = exported(rich_trace(tmp_path / "t.parquet"))
    assert sum(sums["cpu_samples"] for _, sums in document["stacks"]) == pytest.approx(0.031)
    assert sum(count for _, count in document["combined_stacks"]) == 61
    assert sum(size for _, size in document["memory_stacks"]) == pytest.approx(5_000_010 / MIB)
    native = [
        frame for frames, _ in document["combined_stacks"] for frame in frames if frame["display_name"] == "crc32_z"
    ]
    assert native == [
        {"kind": "native", "display_name": "crc32_z", "filename_or_module": "libz", "line": None, "ip": 0, "offset": 0}
    ]


def test_allocations_cores_and_memory_without_a_python_stack_are_reported(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.settings |= {"features": '["cpu", "memory", "alloc"]', "cpu_count": "4"}
    process = builder.process(end_ns=10 * SECOND)
    main, pool = builder.thread(process, cpu_ns=0, tid=1001), builder.thread(process, cpu_ns=0)
    stack = builder.stack((APP, "solve", 3, 4))
    native = {"pc_class": "extension", "user_ns": 30 * MS}
    for index in range(10):
        builder.tick(index * 30 * MS, process, main, stack, **native)
        builder.tick(index * 30 * MS + MS, process, pool, None, has_python=False, **native)
    for interval in (1, 65_536):  # a sampled block of 65,536 bytes stands for 1 / (1 - 1/e) = 1.58 of them
        builder.alloc(SECOND, process, main, stack, 65_536, interval_bytes=interval)
    builder.alloc(SECOND, process, pool, None, 1_999_993)
    document = exported(builder.write(tmp_path / "t.parquet"))
    line = next(row for row in document["files"][APP]["lines"] if row["lineno"] == 4)
    (function,) = document["files"][APP]["functions"]
    for row in (line, function):
        assert row["n_mallocs"] == 3  # 2.58, rounded
        assert row["n_core_utilization"] == pytest.approx(2 / 4), "the line kept two of four cores busy"
    assert document["native_allocations_mb"] == pytest.approx(1_999_993 / MIB)


def test_tasks_are_named_on_the_lines_where_they_waited(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.settings["features"] = '["cpu", "wait", "task"]'
    process = builder.process(end_ns=10 * SECOND)
    thread = builder.thread(process, cpu_ns=0)
    fetch, store = builder.stack((APP, "fetch", 3, 4)), builder.stack((APP, "store", 8, 9))
    for number, (stack, length) in enumerate(((fetch, 3 * SECOND), (fetch, 3 * SECOND), (store, 2 * SECOND))):
        builder.task(SECOND, process, thread, stack, length, task=number + 1, name=f"worker-{number}")
    document = exported(builder.write(tmp_path / "t.parquet"))
    lines = {row["lineno"]: row for row in document["files"][APP]["lines"]}
    assert document["async_profile"] is True
    assert (lines[4]["n_async_await_percent"], lines[9]["n_async_await_percent"]) == pytest.approx((75.0, 25.0))
    assert (lines[4]["async_task_names"], lines[4]["is_coroutine"]) == (["worker-*"], True)
    functions = {row["line"]: row["is_coroutine"] for row in document["files"][APP]["functions"]}
    assert functions == {"fetch": True, "store": True}


def test_leaks_are_listed_by_line(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.settings["features"] = '["cpu", "memory", "alloc"]'
    process = builder.process(end_ns=10 * SECOND)
    thread, stack = builder.thread(process, cpu_ns=0), builder.stack((APP, "grow", 1, 2))
    for index in range(100):
        builder.alloc(index * SECOND // 10, process, thread, stack, 1_999_993)
    path = builder.write(tmp_path / "t.parquet")
    (leak,) = build_report([path], Selection()).leaks or []
    assert exported(path)["files"][APP]["leaks"] == {
        "2": {"likelihood": leak.probability, "velocity_mb_s": leak.bytes_per_s / MIB}
    }


def test_the_selection_of_files_applies(tmp_path: Path) -> None:
    path = rich_trace(tmp_path / "t.parquet")
    assert list(exported(path)["files"]) == [APP]
    assert len(exported(path, selection=Selection(all_files=True))["files"]) == 2
    assert exported(path, selection=Selection(exclude=("app.py",)))["files"] == {}


@pytest.mark.parametrize("kind", [*THIN, "hostile"])
def test_thin_and_hostile_traces_keep_to_the_schema(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    exported(hostile_trace(path) if kind == "hostile" else thin_trace(kind, path))
