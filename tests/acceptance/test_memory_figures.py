"""Memory: sizes and lines of what programs are known to hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.recording import figure, line_of, lines_of, record, report, rows, target

THRESHOLD_BYTES = 10_485_767


def test_an_array_of_512_mb_is_counted_however_much_is_touched(python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    assert record(trace, [target("touched_array")], python).status == 0
    found = report(trace)
    lines = lines_of(found, target("touched_array"))
    for mark in ("touched_0", "touched_50", "touched_100"):
        row = lines[line_of("touched_array", mark)]
        error = 100 * (row["growth_bytes"] / 512_000_000 - 1)
        figure(f"size of a 512 MB array, {mark}", python, error, 1, "percent")
        assert abs(error) <= 1
        assert row["python_alloc_fraction"] <= 0.01
    heap = rows(trace, "heap")
    mapped = max(heap, key=lambda row: row["footprint_bytes"])["mapped_bytes"]  # buffers of numpy's BLAS
    assert found["totals"]["peak_bytes"] - mapped == pytest.approx(3 * 512_000_000, rel=0.03)


def test_600_mb_of_small_objects_are_on_their_line_and_python(python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    done = record(trace, [target("small_objects")], python)
    found = report(trace)
    row = lines_of(found, target("small_objects"))[line_of("small_objects", "objects")]
    error = 100 * (row["growth_bytes"] / done.facts["bytes"] - 1)
    figure("size of 600 MB of small objects", python, error, 2.5, "percent")
    assert abs(error) <= 2.5
    assert row["python_alloc_fraction"] >= 0.99
    assert found["totals"]["python_peak_bytes"] >= 0.97 * done.facts["bytes"]


def test_the_timeline_reaches_the_peak(any_python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    record(trace, [target("small_objects")], any_python)
    found = report(trace)
    assert 2 <= len(found["timeline"]) <= 101
    assert max(size for _, size in found["timeline"]) == pytest.approx(found["totals"]["peak_bytes"], rel=0.02)


def test_threshold_samples_are_deterministic(python: Interpreter, tmp_path: Path) -> None:
    """At the default threshold the peak of this program lies a kilobyte from the next sample, which what the interpreter
    starts with decides: one more up, and one more down."""
    seen = []
    for name in ("a", "b"):
        trace = tmp_path / f"{name}.parquet"
        record(
            trace, [target("small_objects")], python, ["--memory-threshold", "10200000"], env={"PYTHONHASHSEED": "0"}
        )
        seen.append(rows(trace, "memory"))
    lengths = [len(each) for each in seen]
    assert abs(lengths[0] - lengths[1]) <= 1
    assert 100 <= lengths[0] <= 135, "600 MB and a list of 33 MB at about 10 MB a sample, allocated and freed"
    nets = [[row["net_bytes"] for row in each] for each in seen]
    alike = sum(first == second for first, second in zip(*nets, strict=False))
    assert alike >= 0.9 * min(lengths)


def test_without_memory_the_memory_columns_are_null(any_python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    record(trace, [target("cpu_sum"), "0.3"], any_python, ["--no-memory", "--no-copy"])
    found = report(trace)
    assert found["totals"]["peak_bytes"] is None
    assert all(row["growth_bytes"] is None and row["python_alloc_fraction"] is None for row in found["lines"])
    assert all(row["copy_bytes"] is None and row["gpu_s"] is None for row in found["lines"]), (
        "samplers that are off or not there"
    )
