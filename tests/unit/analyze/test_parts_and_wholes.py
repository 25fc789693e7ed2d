"""A part is never larger than its whole: figures of one moment, or of one process, beside those of another."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from scalene_trace.analyze.report.memory import MemoryQuery, build_memory
from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.analyze.trace.traces import open_traces
from scalene_trace.cli.render.memory import memory_text
from scalene_trace.cli.render.report import report_text
from scalene_trace.cli.render.text import Screen
from tests.support.trace_builder import MS, SECOND, TraceBuilder


def events(path: Path) -> list[tuple[int, int]]:
    """Footprint of the process tree and Python's part, at each moment."""
    with open_traces([path], Selection()) as traces:
        sql = "SELECT footprint_bytes, python_footprint_bytes FROM footprint_events ORDER BY t_ns, is_gone"
        return traces.connection.execute(sql).fetchall()


# Python's part of the footprint


def test_what_a_fork_inherits_of_python_is_not_the_childs_own(tmp_path: Path) -> None:
    """The parent has told of its counters only at its start, so Python's part is that of the child's first counters."""
    builder = TraceBuilder()
    parent = builder.process(end_ns=10 * SECOND)
    builder.heap(1 * MS, parent, 40)
    children = [
        builder.process(1 * SECOND, cause="fork", parent=parent, end_ns=8 * SECOND, start_footprint_bytes=7_000_000)
        for _ in range(2)
    ]
    for child in children:
        builder.heap(2 * SECOND, child, 8_000_000, python=6_000_000)
    builder.heap(3 * SECOND, parent, 7_000_000, python=5_000_000)
    path = builder.write(tmp_path / "t.parquet")
    totals = build_report([path], Selection()).totals
    # of the 7,000,000 that each child inherits, 3/4 are Python's: 750,000 of the 1,000,000 that it has in addition
    assert (totals.peak_bytes, totals.python_peak_bytes) == (9_000_000, 6_500_000)


def test_the_parents_counters_count_if_they_are_nearer(tmp_path: Path) -> None:
    builder = TraceBuilder()
    parent = builder.process(end_ns=10 * SECOND)
    builder.heap(1 * SECOND, parent, 7_000_000, python=7_000_000)
    columns = {"cause": "fork", "parent": parent, "start_footprint_bytes": 7_000_000}
    child = builder.process(2 * SECOND, end_ns=8 * SECOND, **columns)
    builder.heap(3 * SECOND, child, 70_000_000, python=7_000_000)
    totals = build_report([builder.write(tmp_path / "t.parquet")], Selection()).totals
    assert (totals.peak_bytes, totals.python_peak_bytes) == (70_000_000, 7_000_000)


def test_a_child_has_no_more_of_python_than_it_has(tmp_path: Path) -> None:
    """It frees native memory that it shares with its parent, while Python's grows; then its counters end."""
    builder = TraceBuilder()
    parent = builder.process(end_ns=10 * SECOND)
    builder.heap(1 * SECOND, parent, 8_000_000)
    columns = {"cause": "fork", "parent": parent, "start_footprint_bytes": 8_000_000, "end_footprint_bytes": 8_500_000}
    child = builder.process(2 * SECOND, end_ns=8 * SECOND, **columns)
    builder.heap(3 * SECOND, child, 3_000_000, python=3_000_000)
    builder.heap(4 * SECOND, child, 12_000_000, python=12_000_000)
    found = events(builder.write(tmp_path / "t.parquet"))
    # the parent's counters are those of the moment of the fork, so nothing of what is inherited is Python's
    assert found[-5:] == [
        (8_000_000, 0),  # the fork
        (8_000_000, 0),  # 3 s: the child has less than it inherited
        (12_000_000, 4_000_000),
        (8_500_000, 500_000),  # 8 s: its last counters, and then it is gone
        (8_000_000, 0),
    ]


@pytest.mark.parametrize("seed", range(5))
def test_pythons_part_never_exceeds_the_footprint(seed: int, tmp_path: Path) -> None:
    chance, builder = random.Random(seed), TraceBuilder()
    processes = [builder.process(end_ns=20 * SECOND)]
    for _ in range(8):
        start_ns, parent = chance.randrange(SECOND), chance.choice(processes)
        columns = {"cause": chance.choice(["fork", "spawn"]), "end_footprint_bytes": chance.randrange(9_000_000)}
        columns |= {"parent": parent, "start_footprint_bytes": chance.randrange(9_000_000)}
        end_ns = chance.randrange(5 * SECOND, 15 * SECOND)
        processes.append(builder.process(start_ns, end_ns=end_ns, **columns))
    for _ in range(40):
        whole = chance.randrange(30_000_000)
        python, t_ns = chance.randrange(whole + 1), chance.randrange(1, 10 * SECOND)
        builder.heap(t_ns, chance.choice(processes), whole, python=python)
    path = builder.write(tmp_path / "t.parquet")
    found = events(path)
    assert len(found) > 40
    assert [each for each in found if not 0 <= each[1] <= each[0]] == []
    totals = build_report([path], Selection()).totals
    assert 0 < (totals.python_peak_bytes or 0) <= (totals.peak_bytes or 0)


# The resident set and the counters beside it


def parts_at_the_end(builder: TraceBuilder, tmp_path: Path) -> dict[str, int | None]:
    report = build_memory([builder.write(tmp_path / "t.parquet")], Selection(), MemoryQuery("line"), {})
    return {part.name: part.bytes for part in report.reconciliation[-1].parts}


def test_counters_from_before_a_free_do_not_describe_what_is_left(tmp_path: Path) -> None:
    builder = TraceBuilder()
    process = builder.process(end_ns=1_150 * MS)
    thread = builder.thread(process, cpu_ns=0)
    builder.heap(1_012 * MS, process, 93_000_000, python=93_000_000, pool=87_000_000, arena=89_000_000)
    builder.memory(1_083 * MS, process, thread, None, -82_000_000, 11_000_000)
    builder.add("rss", t_ns=1_025 * MS, process=process, rss_bytes=103_000_000, shared_bytes=7_000_000)
    builder.add("rss", t_ns=1_131 * MS, process=process, rss_bytes=14_000_000, shared_bytes=7_000_000)
    builder.heap(1_145 * MS, process, 1_600_000, python=1_600_000, pool=800_000, arena=4_000_000)
    found = parts_at_the_end(builder, tmp_path)
    assert (found["python_pools"], found["arenas_unused"], found["other"]) == (800_000, 3_200_000, 2_200_000)


def test_counters_from_after_the_end_do_not_describe_what_was_there(tmp_path: Path) -> None:
    """The footprint was still as high when the resident set was read, and gone when the interpreter had finalized."""
    builder = TraceBuilder()
    process = builder.process(end_ns=1_150 * MS)
    builder.heap(1_012 * MS, process, 93_000_000, python=93_000_000, pool=87_000_000, arena=89_000_000)
    builder.add("rss", t_ns=1_131 * MS, process=process, rss_bytes=103_000_000, shared_bytes=7_000_000)
    builder.heap(1_145 * MS, process, 1_600_000, python=1_600_000, pool=800_000, arena=4_000_000)
    assert parts_at_the_end(builder, tmp_path)["python_pools"] == 87_000_000


def test_small_programs_are_described_before_they_finalize(tmp_path: Path) -> None:
    builder = TraceBuilder()
    process = builder.process(end_ns=1_150 * MS)
    builder.heap(900 * MS, process, 7_000_000, python=7_000_000, pool=5_000_000, arena=6_000_000)
    builder.add("rss", t_ns=1_131 * MS, process=process, rss_bytes=20_000_000, shared_bytes=7_000_000)
    builder.heap(1_145 * MS, process, 100_000, python=100_000, arena=4_000_000)
    assert parts_at_the_end(builder, tmp_path)["python_pools"] == 5_000_000


# What was alive, beside the footprint

APP = "/home/me/app.py"
QUERY = {"by": "line", "limit": None, "temporary_s": None, "temporary_allocations": None}


def held_at_the_end(builder: TraceBuilder, process: int, size: int, line: int, t_ns: int = SECOND) -> None:
    """A block of ``size`` bytes that one sample at as coarse an interval stands for: 1.58 of them are estimated."""
    stack = builder.stack((APP, "main", 1, line))
    builder.alloc(t_ns, process, 1, stack, size, None, interval_bytes=size, type="bytes")


def one_large_block(peak: int) -> TraceBuilder:
    builder = TraceBuilder()
    process = builder.process(end_ns=10 * SECOND)
    thread = builder.thread(process, cpu_ns=0)
    held_at_the_end(builder, process, 40_000_000, 3)
    builder.memory(2 * SECOND, process, thread, None, peak, peak)
    return builder


def text_of(builder: TraceBuilder, tmp_path: Path, width: int = 120) -> str:
    path = builder.write(tmp_path / "t.parquet")
    return "\n".join(report_text(build_report([path], Selection()), Screen(width, False, False)))


def test_estimates_of_one_process_are_at_most_its_peak(tmp_path: Path) -> None:
    """63 MB are estimated, and 41 MB were there. Rows of JSON add up to the estimates of exports and comparisons."""
    path = one_large_block(41_000_003).write(tmp_path / "t.parquet")
    report = build_report([path], Selection())
    assert report.totals.live_at_end_bytes == 41_000_003
    assert (report.lines[0].live_at_peak_bytes, report.lines[0].live_at_end_bytes) == (63_279_068, 63_279_068)
    screen = Screen(120, False, False)
    text = list(report_text(report, screen))
    memory = list(memory_text(build_memory([path], Selection(), MemoryQuery("line"), QUERY), screen))
    rows = [line for line in (*text, *memory) if "63.3 MB" in line]
    assert len(rows) == 5  # allocated in total, by the line, by the function; by the line and in total
    assert [line.count("41.0 MB") for line in rows] == [1, 2, 2, 2, 2]


def test_memory_outside_the_users_code_is_limited_too(tmp_path: Path) -> None:
    """Memory that no line has: 63 MB are estimated, and 41 MB were there."""
    builder = one_large_block(41_000_003)
    builder.rows["alloc"][0]["stack"] = None
    text = " ".join(text_of(builder, tmp_path).split())
    assert "Outside the program's own code, 63.3 MB were allocated and 41.0 MB were alive at the end." in text


def test_the_total_is_not_below_one_of_its_files(tmp_path: Path) -> None:
    """Two lines of a file with estimates of 63 MB each, and a peak of 71 MB."""
    builder = one_large_block(71_000_003)
    held_at_the_end(builder, 1, 40_000_000, 5)
    text = text_of(builder, tmp_path)
    assert text.count("71.0 MB alive at the end") == 2


def test_several_processes_may_end_with_more_than_was_there_at_once(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for start_ns in (0, 5 * SECOND):
        process = builder.process(start_ns, end_ns=start_ns + 4 * SECOND)
        builder.thread(process, cpu_ns=0)
        builder.alloc(start_ns + SECOND, process, 1, builder.stack((APP, "main", 1, 3)), 40_000_000, None)
        builder.memory(start_ns + SECOND, process, 1, None, 40_000_000, 40_000_000)
    report = build_report([builder.write(tmp_path / "t.parquet")], Selection())
    assert (report.totals.peak_bytes, report.totals.live_at_end_bytes) == (40_000_000, 80_000_000)
    assert (report.lines[0].live_at_peak_bytes, report.lines[0].live_at_end_bytes) == (40_000_000, 80_000_000)
    assert "80.0 MB alive at the ends of processes" in text_of(builder, tmp_path)


def test_traces_of_one_process_each_are_limited_by_all_their_peaks(tmp_path: Path) -> None:
    paths = [one_large_block(peak).write(tmp_path / f"{peak}.parquet") for peak in (41_000_003, 45_000_001)]
    report = build_report(paths, Selection())
    assert (report.totals.peak_bytes, report.totals.live_at_end_bytes) == (45_000_001, 86_000_004)


def test_bounds_of_memory_at_the_peak_are_not_above_it(tmp_path: Path) -> None:
    """Two processes, since of one, all bounds are limited. A line that holds nothing might hold 120 MB by the interval."""
    builder = one_large_block(41_000_003)
    builder.process(1 * SECOND, cause="spawn", end_ns=9 * SECOND)
    stack = builder.stack((APP, "main", 1, 7))
    builder.alloc(SECOND, 1, 1, stack, 90_000_000, 1 * MS, interval_bytes=33_000_000)
    report = build_memory([builder.write(tmp_path / "t.parquet")], Selection(), MemoryQuery("line"), QUERY)
    (row,) = [line for line in memory_text(report, Screen(120, False, False)) if f"{APP}:7" in line]
    assert "<41.0 MB  <120 MB" in row
