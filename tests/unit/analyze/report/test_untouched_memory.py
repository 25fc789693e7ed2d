"""The finding on a peak of allocated memory that was never resident, only where the resident set shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.results.findings import Finding
from scalene_trace.analyze.results.report import report_json
from scalene_trace.analyze.trace.selection import Selection
from tests.support.trace_builder import MS, SECOND, TraceBuilder

MB = 1_000_000
APP = "/home/me/app.py"


def trace(path: Path, *processes: tuple[int, int | None], read: int = 30 * MB) -> Path:
    """A trace with processes at the same time, each with its footprint and its high-water mark. Line 5 allocated the memory,
    of which ``read`` was the most of any reading of the first one's resident set."""
    builder = TraceBuilder()
    builder.settings["features"] = '["cpu", "memory", "alloc"]'
    builder.source(APP, "".join(f"statement_{n}()\n" for n in range(1, 9)))
    for footprint, mark in processes:
        process = builder.process(end_ns=10 * SECOND, peak_rss_bytes=mark)
        thread = builder.thread(process, cpu_ns=0)
        stack = builder.stack((APP, "work", 1, 5))
        for number in range(30):
            builder.tick(number, process, thread, stack, user_ns=10 * MS)
        builder.alloc(1 * SECOND, process, thread, stack, footprint)
        builder.memory(1 * SECOND, process, thread, stack, footprint, footprint)
    builder.add("rss", t_ns=2 * SECOND, process=1, rss_bytes=read)
    return builder.write(path)


def peaks(path: Path, *processes: tuple[int, int | None], **selection: Any) -> list[Finding]:
    """The findings of the kind peak."""
    read = selection.pop("read", 30 * MB)
    report = build_report([trace(path / "t.parquet", *processes, read=read)], Selection(**selection))
    return [each for each in report.findings if each.kind == "peak"]


UNTOUCHED = (
    "Memory peaks at 8,000 MB, all of it from app.py:5 `statement_5()`. The resident set peaks at 40.0 MB: the rest was "
    "allocated but never touched, or was swapped out."
)


def test_memory_that_was_never_resident_is_said_with_both_figures(tmp_path: Path) -> None:
    (found,) = peaks(tmp_path, (8_000 * MB, 40 * MB))
    assert found.text == UNTOUCHED
    assert (found.name, found.value, found.unit, found.part, found.line) == ("untouched", 8_000 * MB, "bytes", 1.0, 5)
    report = build_report([tmp_path / "t.parquet"], Selection())
    totals = report_json(report)["totals"]
    assert (totals["peak_bytes"], totals["peak_rss_bytes"]) == (8_000 * MB, 40 * MB)


@pytest.mark.parametrize(
    ("processes", "read"),
    [
        ([(8_000 * MB, 8_010 * MB)], 30 * MB),  # the readings missed the moment
        ([(8_000 * MB, None)], 30 * MB),  # killed, or it ran on: nothing but readings is known
        ([(8_000 * MB, None)], 7_900 * MB),
        ([(8_000 * MB, 5_400 * MB)], 30 * MB),  # less than a third
        ([(120 * MB, 30 * MB)], 30 * MB),  # less than 100 MB
        ([(500 * MB, 510 * MB)] * 6, 30 * MB),  # children that no reading found
        ([(8_000 * MB, 40 * MB), (50 * MB, 60 * MB)], 6_000 * MB),
    ],
)
def test_nothing_is_said_where_the_resident_set_does_not_show_it(
    processes: list[tuple[int, int | None]], read: int, tmp_path: Path
) -> None:
    assert not [each for each in peaks(tmp_path, *processes, read=read) if each.name == "untouched"]


def test_a_part_of_the_recording_says_nothing_since_a_mark_has_no_time(tmp_path: Path) -> None:
    for selection in ({"to_s": 5.0}, {"from_s": 0.5}, {"processes": (1,)}):
        (found,) = peaks(tmp_path, (8_000 * MB, 40 * MB), **selection)
        assert found.name is None


def test_of_several_traces_the_one_with_the_highest_peak_counts(tmp_path: Path) -> None:
    small = trace(tmp_path / "small.parquet", (900 * MB, 950 * MB))
    large = trace(tmp_path / "large.parquet", (8_000 * MB, 40 * MB))
    touched = trace(tmp_path / "touched.parquet", (9_000 * MB, 9_010 * MB))
    for paths, is_said in (([small, large], True), ([large, small], True), ([large, touched], False)):
        report = build_report(paths, Selection())
        assert any(each.text.endswith(UNTOUCHED[-70:]) for each in report.findings) == is_said


def test_it_is_said_without_a_line_where_none_held_most_of_it(tmp_path: Path) -> None:
    builder = TraceBuilder()
    process = builder.process(end_ns=10 * SECOND, peak_rss_bytes=40 * MB)
    builder.heap(1 * SECOND, process, 2_000 * MB)
    builder.memory(1 * SECOND, process, builder.thread(process, cpu_ns=0), None, 2_000 * MB, 2_000 * MB)
    report = build_report([builder.write(tmp_path / "t.parquet")], Selection())
    (text,) = (each.text for each in report.findings if each.kind == "peak")
    assert text == (
        "Memory peaks at 2,000 MB. The resident set peaks at 40.0 MB: the rest was allocated but never touched, or was "
        "swapped out."
    )
