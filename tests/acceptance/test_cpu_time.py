"""CPU time: threads that wait, short threads, sums against the kernel's own count."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.recording import figure, line_of, lines_of, record, report, rows_of_function, target, total

pytestmark = pytest.mark.measures_busy


def test_a_busy_thread_beside_eight_blocked_ones_has_the_time(python: Interpreter, tmp_path: Path) -> None:
    record(tmp_path / "t.parquet", [target("blocked"), "3"], python, ["--cpu-interval", "1ms"])
    found, path = report(tmp_path / "t.parquet"), target("blocked")
    busy = rows_of_function(found, "busy", path)
    share = 100 * total(busy, "cpu_s") / total([row for row in found["lines"] if row["file"] == str(path)], "cpu_s")
    line = lines_of(found, path)[line_of("blocked", "busy")]
    figure("share of the busy thread beside eight blocked ones", python, share, 98, "percent")
    assert share >= 98
    assert line["cpu_s"] >= 0.6 * total(busy, "cpu_s")
    assert found["totals"]["cpu_s"] == pytest.approx(3, rel=0.1)


def test_ticks_add_up_to_the_cpu_time_of_the_kernel(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("cpu_sum"), "4"], python, ["--cpu-interval", "2ms"])
    ratio = report(tmp_path / "t.parquet")["totals"]["cpu_s"] / done.facts["cpu_s"]
    figure("sum of ticks to the kernel's CPU time", python, 100 * (ratio - 1), 2, "percent")
    assert ratio == pytest.approx(1, abs=0.02)


def test_a_thousand_threads_of_3_ms_are_counted(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("short_threads")], python, ["--cpu-interval", "1ms"])
    found, path = report(tmp_path / "t.parquet"), target("short_threads")
    cpu_s = total(rows_of_function(found, "short", path), "cpu_s")
    figure("CPU time of 1,000 threads of 3 ms", python, 100 * (cpu_s / done.facts["with_start_s"] - 1), 10, "percent")
    assert (
        0.9 * done.facts["short_s"] <= cpu_s <= 1.1 * done.facts["with_start_s"]
    )  # ticks rarely see the start of a thread
    assert found["traces"][0]["threads"] == 1001


def test_a_thousand_threads_of_3_ms_are_counted_at_the_default_interval(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("short_threads")], python)
    found = report(tmp_path / "t.parquet")
    ratio = found["totals"]["cpu_s"] / done.facts["process_s"]
    figure("CPU time of the program with 1,000 threads of 3 ms, 10 ms interval", python, ratio, 1.1, "ratio")
    assert 0.95 <= ratio <= 1.1, "all but the interpreter's end"


def test_threads_that_are_seldom_busy_are_on_for_their_part_of_the_time(python: Interpreter, tmp_path: Path) -> None:
    """A thread that uses a millisecond in a window does not notice most windows, and is on for a second where it does."""
    done = record(tmp_path / "t.parquet", [target("seldom_busy"), "12"], python, ["--sample", "100ms/500ms"])
    found = report(tmp_path / "t.parquet")
    (trace,) = found["traces"]
    share = 1 - trace["paused_s"] / trace["wall_s"]
    (row,) = (each for each in found["functions"] if each["function"] == "seldom")
    ratio = row["cumulative_cpu_s"] / (share * done.facts["seldom_s"])
    figure("CPU time of 30 threads that are seldom busy, in windows", python, 100 * (ratio - 1), 40, "percent")
    assert ratio == pytest.approx(1, abs=0.4)
