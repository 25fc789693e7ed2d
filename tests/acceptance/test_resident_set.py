"""The heap explains the resident set: a program of numpy and pandas with some hundred megabytes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support import perf_events
from tests.support.interpreters import Interpreter
from tests.support.native import library as build_library
from tests.support.recording import figure, line_of, lines_of, losses, record, report, rows, target

pytestmark = pytest.mark.samples


def test_the_heap_explains_the_resident_set(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", [target("pandas_program")], python)
    assert done.status == 0, done.stderr.decode()
    found = report(done.trace, command="memory")["reconciliation"]
    assert [each["moment"] for each in found] == ["peak", "end"]
    for each in found:
        parts = {part["name"]: part["bytes"] for part in each["parts"]}
        assert sum(parts.values()) == each["rss_bytes"]
        share = 100 * parts["other"] / each["rss_bytes"]
        figure(f"resident set that is not explained, at the {each['moment']}", python, share, 10, "percent")
        assert abs(share) <= 10
        assert parts["native_malloc"] > 0.5 * each["rss_bytes"], "columns are native memory"
    peak, end = found
    assert end["rss_bytes"] == pytest.approx(done.facts["rss_bytes"], rel=0.05)
    assert peak["rss_bytes"] > 1.1 * end["rss_bytes"]


@pytest.mark.parametrize("library", ["duckdb", "pyarrow"])
def test_the_footprint_explains_what_libraries_with_an_allocator_of_their_own_hold(
    library: str, tmp_path: Path
) -> None:
    python = Interpreter(Path(sys.executable), sys.version_info[:3])  # which has both
    done = record(tmp_path / "t.parquet", [target("reserving"), library], python)
    assert done.status == 0, done.stderr.decode()
    touched = max(row["footprint_bytes"] - row["untouched_bytes"] for row in rows(done.trace, "heap"))
    share = 100 * (touched / done.facts["anonymous_bytes"] - 1)
    figure(f"touched footprint against anonymous resident memory, {library}", python, share, 10, "percent")
    assert abs(share) <= 10


def test_memory_of_a_library_is_on_the_lines_that_touch_it(any_python: Interpreter, tmp_path: Path) -> None:
    perf_events.needed()
    library = build_library(tmp_path, "reserving_lines.c")
    done = record(tmp_path / "t.parquet", [target("reserving_lines"), library], any_python)
    assert done.status == 0, done.stderr.decode()
    found = report(done.trace)
    assert "faults_unseen" not in losses(found)
    by_line = lines_of(found, target("reserving_lines"))
    lines = ("much", "list", "little")
    growth = {mark: by_line[line_of("reserving_lines", mark)]["growth_bytes"] for mark in lines}
    for mark, percent in (("list", 10), ("much", 60)):
        share = 100 * (growth[mark] / done.facts[mark] - 1)
        figure(f"growth on the line {mark}", any_python, share, percent, "percent")
        assert abs(share) <= percent
    both = growth["much"] + growth["little"]
    assert both == pytest.approx(done.facts["much"] + done.facts["little"], rel=0.1)


def test_page_faults_that_cannot_be_observed_are_said(any_python: Interpreter, tmp_path: Path) -> None:
    library = build_library(tmp_path, "reserving_lines.c")
    done = record(tmp_path / "t.parquet", [target("reserving_lines"), library], any_python, ["--cpu-engine", "posix"])
    assert losses(report(done.trace))["faults_unseen"] >= 1


def test_few_threads_lock_pages_for_their_faults(any_python: Interpreter, tmp_path: Path) -> None:
    """The kernel counts these pages towards limits of the user."""
    library = build_library(tmp_path, "reserving_lines.c")
    done = record(tmp_path / "t.parquet", [target("reserving_threads"), library], any_python)
    assert done.status == 0, done.stderr.decode()
    assert done.facts["events_of_child"] == done.facts["events"] <= 32
    assert (done.facts["events"] > 0) == perf_events.are_allowed()
    assert losses(report(done.trace))["faults_unseen"] >= done.facts["threads"] - 32
