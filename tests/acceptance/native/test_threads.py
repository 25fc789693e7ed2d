"""Threads of libraries: their CPU time is that of the line that called the library, and the library is named."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support import native
from tests.support.interpreters import Interpreter
from tests.support.recording import Json, analyze, figure, line_of, lines_of, losses, record, report, target, total

pytestmark = pytest.mark.measures_alone

#: How the library makes its threads: options of the compiler, mark of the line, a library and a function that work.
WAYS = {
    "blas": ("blas", "openblas", "gemm"),
    "pthreads": ("pool", "pool", "grind"),
    "openmp": ("pool", "pool", "grind"),
}
THREADS = {"OPENBLAS_NUM_THREADS": "4", "OMP_NUM_THREADS": "4"}


def program(way: str, folder: Path) -> list[str | Path]:
    """The program, with the library that it is to use."""
    command: list[str | Path] = [target("native_threads"), "2.5"]
    if way == "blas":
        return command
    try:
        return [*command, native.library(folder, "pool.c", *["-fopenmp"] * (way == "openmp"))]
    except subprocess.CalledProcessError:
        if way == "openmp":
            pytest.skip("the compiler has no OpenMP")
        raise


@pytest.mark.parametrize("way", WAYS)
def test_a_librarys_threads_belong_to_the_line_that_called_it(way: str, python: Interpreter, tmp_path: Path) -> None:
    mark, library, function = WAYS[way]
    trace = tmp_path / "t.parquet"
    done = record(trace, program(way, tmp_path), python, ["--cpu-interval", "2ms"], THREADS)
    assert done.status == 0, done.stderr.decode()
    found = report(trace)
    row = lines_of(found, target("native_threads"))[line_of("native_threads", mark)]
    ratio = row["cpu_s"] / done.facts["cpu_s"]
    figure(f"CPU time of a line with a library's threads, {way}", python, 100 * (ratio - 1), 3, "percent")
    assert ratio == pytest.approx(1, abs=0.03)
    assert (
        0.35 < row["parallel_native_s"] / row["native_s"] < 0.9
    )  # three of four threads; BLAS takes no more than cores
    named = row["native_libraries"][0]
    assert library in named["library"] and named["native_s"] > 0.8 * row["native_s"]
    assert any(function in each["name"] for each in named["symbols"])
    assert "symbols_unread" not in losses(found) and "symbols_changed" not in losses(found)
    hold_sums(found)


def hold_sums(found: Json) -> None:
    """Totals are lines and what belongs to none."""
    rows = [*found["lines"], found["unattributed"]]
    for name in ("cpu_s", "python_s", "native_s", "system_s"):
        assert found["totals"][name] == pytest.approx(total(rows, name), rel=1e-9)


def test_the_report_says_how_many_cores_a_line_keeps_busy(any_python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    assert record(trace, program("pthreads", tmp_path), any_python, ["--cpu-interval", "2ms"]).status == 0
    text = analyze(trace).stdout.decode()
    line = next(each for each in text.splitlines() if "LINE: pool" in each and "←" in each)
    factor = float(line.rpartition("×")[2])
    assert "← pool " in line and 2.5 < factor < 6
    said = report(trace, command="libraries")["libraries"][0]
    assert (said["library"], said["symbol"], said["image"]) == ("pool", "grind", "extension")
    assert (said["file"], said["line"]) == (str(target("native_threads")), line_of("native_threads", "pool"))
