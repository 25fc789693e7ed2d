"""Allocations, copies, collections and the resident set: tiny traces whose figures are worked out in a comment."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.report.memory import MemoryQuery, build_memory
from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.report.timeline import build_timeline
from scalene_trace.analyze.results.memory import MemoryReport, MemoryRow
from scalene_trace.analyze.results.report import Line, Report
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.analyze.trace.traces import open_traces
from scalene_trace.cli.render.memory import memory_text
from scalene_trace.cli.render.text import Screen
from tests.support.trace_builder import SECOND, TraceBuilder

APP, LIBRARY = "/home/me/app.py", "/usr/lib/python3.12/json/decoder.py"
MAIN, OTHER = (APP, "main", 10, 12), (APP, "other", 20, 22)
IMPORT = ("<frozen importlib._bootstrap>", "_find_and_load", 1, 3)
KIB_64 = 65_536
#: Weight of a block of 65,536 bytes at an interval of 65,536: 1 / (1 - exp(-1)).
WEIGHT = 1.5819767068693265


def one_process(**columns: Any) -> tuple[TraceBuilder, int, int]:
    """A process of 10 s with a thread."""
    builder = TraceBuilder()
    process = builder.process(**columns)
    return builder, process, builder.thread(process, cpu_ns=0)


def report_on(builder: TraceBuilder, tmp_path: Path, **selection: Any) -> Report:
    return build_report([builder.write(tmp_path / "t.parquet")], Selection(**selection))


def memory_of(builder: TraceBuilder, tmp_path: Path, by: str = "line", **limits: Any) -> MemoryReport:
    return build_memory([builder.write(tmp_path / "t.parquet")], Selection(), MemoryQuery(by, **limits), {})


def line(report: Report, number: int) -> Line:
    return next(each for each in report.lines if each.line == number)


def row(report: MemoryReport, **names: Any) -> MemoryRow:
    """The one row with these names."""
    (found,) = [each for each in report.memory if all(getattr(each, key) == value for key, value in names.items())]
    return found


def test_exact_allocations_are_counted_one_by_one(tmp_path: Path) -> None:
    builder, process, thread = one_process(end_ns=10 * SECOND)
    main, other = builder.stack((LIBRARY, "decode", 5, 7), MAIN), builder.stack(OTHER)
    builder.alloc(1 * SECOND, process, thread, main, 1_000_003, 4 * SECOND, usable_bytes=1_000_016)
    builder.alloc(2 * SECOND, process, thread, other, 500_009, 1 * SECOND, usable_bytes=500_016)
    builder.alloc(4 * SECOND, process, thread, other, 300_007, None, usable_bytes=300_016)
    builder.alloc(6 * SECOND, process, thread, None, 70_001, None, usable_bytes=70_016)
    report = report_on(builder, tmp_path)
    # alive: 1,000,016 from 1 s, 1,500,032 from 2 s, 1,000,016 from 3 s, 1,300,032 from 4 s, 300,016 from 5 s: the peak
    # is at 2 s, when line 12 holds 1,000,003 and line 22 500,009 requested bytes
    figures = {each.line: (each.alloc_bytes, each.live_at_peak_bytes, each.live_at_end_bytes) for each in report.lines}
    assert figures == {12: (1_000_003, 1_000_003, 0), 22: (800_016, 500_009, 300_007)}
    assert (report.unattributed.alloc_bytes, report.unattributed.live_at_end_bytes) == (70_001, 70_001)
    assert (report.totals.alloc_bytes, report.totals.peak_bytes) == (1_870_020, 1_500_032)
    assert [each.alloc_error_bytes for each in report.lines] == [0, 0]
    assert report.traces[0].events["alloc"] == 4
    assert {each.function: each.alloc_bytes for each in report.functions} == {"main": 1_000_003, "other": 800_016}


def test_a_sample_stands_for_the_inverse_of_its_chance(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    stack = builder.stack(MAIN)
    sampled: dict[str, Any] = {"usable_bytes": KIB_64, "interval_bytes": KIB_64}
    builder.alloc(1, process, thread, stack, 60_001, 5, **sampled)
    builder.alloc(2, process, thread, stack, 60_001, None, **sampled)
    found = line(report_on(builder, tmp_path), 12)
    # each stands for w = 1.58198 of 60,001 bytes; variance 2 * w * (w - 1) * 60,001^2, and half of 3 * 65,536 bytes
    # that may be there without a sample
    assert found.alloc_bytes == round(2 * WEIGHT * 60_001) == 189_840
    sampled = math.sqrt(2 * WEIGHT * (WEIGHT - 1)) * 60_001
    assert (round(sampled), found.alloc_unseen_bytes, found.live_unseen_bytes) == (81_419, 196_608, 196_608)
    assert found.alloc_error_bytes == round(math.hypot(sampled, 98_304)) == 127_643
    assert found.live_at_end_bytes == round(WEIGHT * 60_001) == 94_920
    assert found.live_at_end_error_bytes == round(math.hypot(sampled / math.sqrt(2), 98_304))


def test_a_line_without_samples_may_have_three_base_intervals(tmp_path: Path) -> None:
    builder, process, thread = one_process(end_ns=10 * SECOND)
    large, busy = builder.stack(MAIN), builder.stack(OTHER)
    seen: dict[str, Any] = {"base_interval_bytes": KIB_64}
    # a block that is always recorded; one of a busy line, sampled at 1 MiB and thinned to 2 MiB; a line with CPU time only
    builder.alloc(1 * SECOND, process, thread, large, 40_000_003, None, interval_bytes=1, **seen)
    thinned = {"interval_bytes": 1 << 20, "life_interval_bytes": 1 << 21}
    builder.alloc(2 * SECOND, process, thread, busy, 100, 5, **thinned, **seen)
    builder.tick(3 * SECOND, process, thread, builder.stack((APP, "idle", 30, 31)), user_ns=10_000_000)
    builder.memory(4 * SECOND, process, thread, large, 40_000_003, 40_000_003)
    report = report_on(builder, tmp_path)
    found = {each.line: (each.alloc_unseen_bytes, each.live_unseen_bytes) for each in report.lines}
    assert found == {12: (3 * KIB_64, 3 * KIB_64), 22: (3 << 20, 6 << 20), 31: (3 * KIB_64, 3 * KIB_64)}
    assert (report.unattributed.alloc_unseen_bytes, line(report, 31).alloc_error_bytes) == (3 * KIB_64, 98_304)
    assert (line(report, 12).alloc_bytes, line(report, 12).alloc_error_bytes) == (40_000_003, 98_304)
    assert line(report, 22).live_at_end_bytes == 0 and line(report, 22).live_at_end_error_bytes == 3 << 20
    assert {each.function: each.alloc_unseen_bytes for each in report.functions}["idle"] == 3 * KIB_64
    by_type = memory_of(builder, tmp_path, "type").totals
    assert (by_type.alloc_unseen_bytes, by_type.live_unseen_bytes) == (3 << 20, 6 << 20)


def test_small_blocks_at_large_intervals_have_finite_weights(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    for index, (size, interval) in enumerate(((16, 2**40), (1, 2**62), (0, 2**62))):
        builder.alloc(index, process, thread, builder.stack(MAIN), size, interval_bytes=interval)
    report = report_on(builder, tmp_path)
    # 2^40 / 16 blocks of 16 bytes, 2^62 of 1 byte, and blocks of no bytes
    assert line(report, 12).alloc_bytes == pytest.approx(2**40 + 2**62)
    assert line(report, 12).alloc_unseen_bytes == 3 * 2**62


def test_an_absurd_interval_of_an_unfollowed_block_stops_no_report(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    columns: dict[str, Any] = {"interval_bytes": 2**63 - 1, "life_interval_bytes": None}
    builder.alloc(1, process, thread, builder.stack(MAIN), 16, **columns)
    assert line(report_on(builder, tmp_path), 12).live_at_end_bytes == 0


def test_the_allocation_that_set_a_maximum_does_not_enter_the_estimates(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    builder.alloc(1, process, thread, builder.stack(MAIN), 1_999_993, None, interval_bytes=None, maximum=True)
    builder.alloc(2, process, thread, builder.stack(OTHER), 1_000, None, interval_bytes=KIB_64)
    found = line(report_on(builder, tmp_path), 12)
    assert (found.alloc_bytes, found.live_at_end_bytes) == (0, 0)
    assert (found.alloc_unseen_bytes, found.live_unseen_bytes) == (3 * KIB_64, 3 * KIB_64)


def test_lives_count_by_the_interval_that_holds_for_them(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    stack = builder.stack(MAIN)
    exact: dict[str, Any] = {"interval_bytes": 2, "usable_bytes": KIB_64}
    builder.alloc(1, process, thread, stack, KIB_64, None, **exact, life_interval_bytes=KIB_64)
    builder.alloc(2, process, thread, stack, KIB_64, None, **exact, life_interval_bytes=None)
    found = line(report_on(builder, tmp_path), 12)
    # both were sampled for sure; of their lives, one was thinned out and the other stands for 1.58
    assert (found.alloc_bytes, found.live_at_end_bytes) == (2 * KIB_64, round(WEIGHT * KIB_64))


def test_the_parts_of_a_mapping_are_one_allocation(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    for size, life in ((16_384, 1 * SECOND), (16_384, 3 * SECOND), (32_768, None)):
        parts: dict[str, Any] = {"usable_bytes": size, "block_bytes": KIB_64, "interval_bytes": KIB_64}
        builder.alloc(1 * SECOND, process, thread, builder.stack(MAIN), size, life, allocator="mmap", **parts)
    report = memory_of(builder, tmp_path)
    found = row(report, line=12)
    # one block of 65,536 bytes was sampled: w = 1.58 allocations, error sqrt(w (w - 1)) of them; half of it still lives
    assert found.alloc_bytes == round(WEIGHT * KIB_64)
    assert found.alloc_error_bytes == round(KIB_64 * math.hypot(math.sqrt(WEIGHT * (WEIGHT - 1)), 1.5))
    assert (found.allocations, found.allocations_error) == (2, 1)
    assert found.live_at_end_bytes == round(WEIGHT * 32_768)


def test_what_is_freed_at_exit_was_alive_at_the_end(tmp_path: Path) -> None:
    builder, process, thread = one_process(end_ns=10 * SECOND)
    builder.alloc(1 * SECOND, process, thread, builder.stack(MAIN), 1_999_993, 8 * SECOND, at_exit=True)
    builder.alloc(1 * SECOND, process, thread, builder.stack(MAIN), 77_003, 8 * SECOND)
    assert line(report_on(builder, tmp_path), 12).live_at_end_bytes == 1_999_993


def test_the_peak_of_sampled_traces_is_where_the_counters_had_it(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    stack, sampled = builder.stack(MAIN), {"interval_bytes": KIB_64, "usable_bytes": 100 * KIB_64}
    builder.alloc(1 * SECOND, process, thread, stack, 1_000_003, 2 * SECOND, **sampled)
    builder.alloc(2 * SECOND, process, thread, stack, 300_007, None, **sampled)
    builder.memory(1 * SECOND, process, thread, stack, 11_000_003, 11_000_003)
    builder.heap(3 * SECOND - 1, process, 13_999_993, python=2_000_003)
    builder.memory(5 * SECOND, process, thread, stack, 12_000_007, 12_000_007)
    report = report_on(builder, tmp_path)
    # the snapshot just before 3 s is the highest: both blocks are alive; weights of blocks of 100 intervals are 1
    assert (report.totals.peak_bytes, report.totals.python_peak_bytes) == (13_999_993, 2_000_003)
    assert line(report, 12).live_at_peak_bytes == 1_300_010
    # from 4 s on, it is highest at once: what is allocated at 4.5 s is not there yet. The others are not of that window
    builder.alloc(4 * SECOND + SECOND // 2, process, thread, stack, 70_001, None, **sampled)
    late = report_on(builder, tmp_path, from_s=4)
    assert late.totals.peak_bytes == 13_999_993
    assert (line(late, 12).alloc_bytes, line(late, 12).live_at_peak_bytes) == (70_001, 0)
    early = report_on(builder, tmp_path, to_s=2)
    assert (early.totals.peak_bytes, line(early, 12).live_at_peak_bytes) == (11_000_003, 1_000_003)


def test_without_a_footprint_nothing_is_known_of_the_peak(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    builder.alloc(1, process, thread, builder.stack(MAIN), 1_999_993, interval_bytes=2)
    found = line(report_on(builder, tmp_path), 12)
    assert (found.alloc_bytes, found.live_at_peak_bytes) == (1_999_993, None)


def test_a_process_that_has_ended_holds_nothing_at_the_peak(tmp_path: Path) -> None:
    builder = TraceBuilder()
    first = builder.process(end_ns=3 * SECOND)
    second = builder.process(1 * SECOND, cause="spawn", end_ns=9 * SECOND)
    builder.alloc(1 * SECOND, first, 1, builder.stack(MAIN), 1_000_003)
    builder.alloc(4 * SECOND, second, 2, builder.stack(OTHER), 2_000_003)
    builder.alloc(8 * SECOND, second, 2, builder.stack(OTHER), 3_000_017, at_exit=True, life=SECOND // 2)
    report = report_on(builder, tmp_path)
    # 1,000,003 until 3 s, 2,000,003 from 4 s and 5,000,020 from 8 s: the first process is long gone. Each had what it
    # held at its own end
    assert report.totals.peak_bytes == 5_000_020
    assert [line(report, number).live_at_peak_bytes for number in (12, 22)] == [0, 5_000_020]
    assert [line(report, number).live_at_end_bytes for number in (12, 22)] == [1_000_003, 5_000_020]


def test_allocations_are_picked_by_when_where_and_who(tmp_path: Path) -> None:
    builder = TraceBuilder()
    first, second = builder.process(), builder.process()
    threads = [builder.thread(each, cpu_ns=0) for each in (first, first, second)]
    for index, (thread, process) in enumerate(zip(threads, (first, first, second), strict=True)):
        builder.alloc(index * SECOND, process, thread, builder.stack(MAIN), 1_000_003 * 10**index)
        builder.copy(index * SECOND, process, thread, builder.stack(MAIN), 20_000_003 * 10**index)

    def picked(**selection: Any) -> tuple[int | None, int | None]:
        totals = report_on(builder, tmp_path, **selection).totals
        return totals.alloc_bytes, totals.copy_bytes

    assert picked() == (111_000_333, 2_220_000_333)
    assert picked(from_s=1, to_s=2) == (10_000_030, 200_000_030)
    assert picked(processes=(first,)) == (11_000_033, 220_000_033)
    assert picked(threads=(threads[0], threads[2])) == (101_000_303, 2_020_000_303)


def test_copies_belong_to_lines_and_have_a_rate(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    builder.copy(1 * SECOND, process, thread, builder.stack((LIBRARY, "decode", 5, 7), MAIN), 20_000_003)
    builder.copy(6 * SECOND, process, thread, builder.stack(MAIN), 40_000_007)
    builder.copy(7 * SECOND, process, None, None, 1_000_003)
    report = report_on(builder, tmp_path)
    # 60,000,010 bytes within the 10 s of the recording; what was left over at the end belongs to no line
    assert (line(report, 12).copy_bytes, line(report, 12).copy_bytes_per_s) == (60_000_010, 6_000_001)
    assert (report.unattributed.copy_bytes, report.totals.copy_bytes) == (1_000_003, 61_000_013)
    window = report_on(builder, tmp_path, from_s=5, to_s=7)
    # 40,000,007 within 2 s; and the window ends with the recording
    assert line(window, 12).copy_bytes_per_s == 40_000_007 / 2
    assert line(report_on(builder, tmp_path, from_s=5, to_s=50), 12).copy_bytes_per_s == 40_000_007 / 5


def test_several_traces_are_added_up_and_their_errors_squared(tmp_path: Path) -> None:
    paths = []
    for index in (1, 2):
        builder, process, thread = one_process()
        for moment in range(index):
            builder.alloc(moment, process, thread, builder.stack(MAIN), KIB_64, interval_bytes=KIB_64)
        builder.copy(1, process, thread, builder.stack(MAIN), 20_000_003)
        paths.append(builder.write(tmp_path / f"{index}.parquet"))
    found = line(build_report(paths, Selection()), 12)
    # 1 + 2 samples; 40,000,006 bytes within 20 s
    assert found.alloc_bytes == round(3 * WEIGHT * KIB_64)
    assert found.alloc_error_bytes == round(KIB_64 * math.hypot(math.sqrt(3 * WEIGHT * (WEIGHT - 1)), 1.5))
    assert found.copy_bytes_per_s == 2_000_000.3
    rows = build_memory(paths, Selection(), MemoryQuery(), {}).memory
    assert [(each.line, each.samples, each.alloc_bytes) for each in rows] == [(12, 3, found.alloc_bytes)]


def test_samplers_that_were_off_are_none_and_those_that_saw_nothing_zero(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    builder.memory(1 * SECOND, process, thread, builder.stack(MAIN), 11_000_003, 11_000_003)
    names = ("alloc_bytes", "alloc_error_bytes", "live_at_peak_bytes", "live_at_end_bytes", "copy_bytes")
    names += ("copy_bytes_per_s", "leak_probability", "leak_bytes_per_s")
    off = report_on(builder, tmp_path)
    assert [getattr(line(off, 12), name) for name in names] == [None] * 8
    assert (off.totals.alloc_bytes, off.totals.copy_bytes, off.leaks) == (None, None, None)
    builder.settings["features"] = '["memory", "alloc", "copy"]'
    on = report_on(builder, tmp_path)
    assert [getattr(line(on, 12), name) for name in names] == [0] * 8
    assert (on.totals.alloc_bytes, on.totals.copy_bytes, on.leaks) == (0, 0, [])


def test_the_view_of_allocations_has_weights_and_ends(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    stack = builder.stack(MAIN)
    builder.alloc(10, process, thread, stack, KIB_64, 5, interval_bytes=KIB_64)
    builder.alloc(20, process, thread, stack, 8, 5, at_exit=True, allocator="pymalloc", python=True)
    builder.alloc(30, process, thread, stack, 8, 5, interval_bytes=None, allocator="malloc", python=True)
    builder.alloc(40, process, thread, stack, 8, None, survived=None, life_interval_bytes=None, allocator="mremap")
    columns = "weight, live_weight, end_t_ns, is_followed, family"
    with open_traces([builder.write(tmp_path / "t.parquet")]) as traces:
        rows = traces.connection.execute(f"SELECT {columns} FROM allocations ORDER BY t_ns").fetchall()
    assert rows == [
        (pytest.approx(WEIGHT), pytest.approx(WEIGHT), 15, True, "native"),
        (1, 1, None, True, "pools"),
        (None, None, 35, True, "python"),
        (1, None, None, False, "mapping"),
    ]


# Who allocates what


def lives(**columns: Any) -> TraceBuilder:
    """Four allocations by line 12, with different ends."""
    builder, process, thread = one_process()
    main, other = builder.stack(MAIN), builder.stack((LIBRARY, "decode", 5, 7), OTHER)
    builder.alloc(1 * SECOND, process, thread, main, 1_000_003, 2 * SECOND, free_stack=main, survived=0, **columns)
    builder.alloc(2 * SECOND, process, thread, main, 200_003, SECOND // 2, free_stack=other, survived=0, **columns)
    builder.alloc(4 * SECOND, process, thread, main, 30_011, 4 * SECOND, free_stack=other, survived=3, **columns)
    builder.alloc(5 * SECOND, process, thread, main, 4_001, None, survived=2, **columns)
    return builder


def test_temporary_is_what_the_same_line_freed_or_what_lived_shortly(tmp_path: Path) -> None:
    builder = lives()
    assert row(memory_of(builder, tmp_path), line=12).temporary_bytes == 1_000_003
    within = memory_of(builder, tmp_path, temporary_s=0.5)
    assert (row(within, line=12).temporary_bytes, row(within, line=12).temporary_allocations) == (1_200_006, 2)
    # between its allocation and its free, the first block saw one other allocation, the second none, the third one
    assert row(memory_of(builder, tmp_path, temporary_allocations=0), line=12).temporary_bytes == 1_200_006
    assert row(memory_of(builder, tmp_path, temporary_allocations=1), line=12).temporary_bytes == 1_230_017


def test_other_allocations_are_estimated_by_their_weights(tmp_path: Path) -> None:
    builder = lives(interval_bytes=2**30, life_interval_bytes=1)
    # the block allocated during the life of the third stands for 2^30 / 4,001 + 1/2 = 268,368.8 of its kind
    assert row(memory_of(builder, tmp_path, temporary_allocations=268_368), line=12).temporary_bytes == 1_200_006
    assert row(memory_of(builder, tmp_path, temporary_allocations=268_369), line=12).temporary_bytes == 1_230_017


def test_allocations_after_the_free_do_not_count_as_temporary(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    builder.alloc(1 * SECOND, process, thread, builder.stack(MAIN), 1_000_003, 1 * SECOND)
    builder.alloc(2 * SECOND, process, thread, builder.stack(OTHER), 2_000_003)  # realloc: at the same moment
    builder.alloc(2 * SECOND + 1, process, thread, builder.stack(OTHER), 3_000_017)
    found = row(memory_of(builder, tmp_path, temporary_allocations=0), line=12)
    assert (found.temporary_bytes, found.temporary_allocations) == (1_000_003, 1)


def test_lifetimes_in_seconds_and_in_collections(tmp_path: Path) -> None:
    found = row(memory_of(lives(), tmp_path), line=12)
    # freed after 2, 0.5 and 4 s; two died before a collection, two lived through one
    assert found.mean_lifetime_s == pytest.approx(6.5 / 3)
    assert (found.died_young, found.survived) == (2, 2)
    assert (found.allocations, found.samples, found.live_at_end_bytes) == (4, 4, 4_001)


def test_collections_of_programs_without_python_are_unknown(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    builder.alloc(1, process, thread, builder.stack(MAIN), 1_999_993, 5, survived=None)
    found = row(memory_of(builder, tmp_path), line=12)
    assert (found.died_young, found.survived) == (None, None)


def many_kinds() -> TraceBuilder:
    """Allocations of two lines, of a library alone, and while importing."""
    builder, process, thread = one_process()
    builder.source(APP, "\n" * 11 + "    work()\n")
    library = (LIBRARY, "decode", 5, 7)
    pools: dict[str, Any] = {"allocator": "pymalloc", "python": True}
    for stack, size, columns in (
        (builder.stack(library, MAIN), 1_000_003, {"type": "dict"} | pools),
        (builder.stack(MAIN), 200_003, {"type": "list"} | pools),
        (builder.stack(OTHER), 30_011, {"type": "list", "python": True}),
        (builder.stack(library), 4_001, {}),
        (builder.stack(library, IMPORT, OTHER), 509, {"allocator": "mmap"}),
    ):
        builder.alloc(1 * SECOND, process, thread, stack, size, **columns)
    return builder


def test_rows_by_line(tmp_path: Path) -> None:
    report = memory_of(many_kinds(), tmp_path)
    assert [(each.line, each.function, each.source, each.alloc_bytes) for each in report.memory] == [
        (12, "main", "    work()", 1_200_006),
        (22, "other", None, 30_520),
    ]
    assert (report.unattributed.alloc_bytes, report.imports.alloc_bytes) == (4_001, 509)
    assert report.totals.alloc_bytes == 1_200_006 + 30_520 + 4_001
    assert [(each.t_s, each.footprint_bytes) for each in report.peaks] == [(1.0, 1_234_527)]


def test_rows_by_function_type_and_allocator(tmp_path: Path) -> None:
    builder = many_kinds()
    by_function = memory_of(builder, tmp_path, "function").memory
    assert [(each.function, each.line, each.alloc_bytes) for each in by_function] == [
        ("main", 10, 1_200_006),
        ("other", 20, 30_520),
    ]
    by_type = memory_of(builder, tmp_path, "type")
    assert [(each.type, each.alloc_bytes) for each in by_type.memory] == [
        ("dict", 1_000_003),
        ("list", 230_014),
        (None, 4_510),
    ]
    assert by_type.unattributed.alloc_bytes == 0
    by_allocator = memory_of(builder, tmp_path, "allocator").memory
    assert [(each.allocator, each.family, each.alloc_bytes) for each in by_allocator] == [
        ("pymalloc", "pools", 1_200_006),
        ("malloc", "python", 30_011),
        ("malloc", "native", 4_001),
        ("mmap", "mapping", 509),
    ]


def test_sorting_and_limiting(tmp_path: Path) -> None:
    path = many_kinds().write(tmp_path / "t.parquet")
    rows = build_memory([path], Selection(), MemoryQuery("type"), {}, sort="type").memory
    assert [each.type for each in rows] == ["dict", "list", None]
    assert len(build_memory([path], Selection(), MemoryQuery("type"), {}, limit=2).memory) == 2


# The resident set


def parts_of(report: MemoryReport, moment: str) -> dict[str, int | None]:
    (found,) = [each for each in report.reconciliation if each.moment == moment]
    return {part.name: part.bytes for part in found.parts}


def test_the_resident_set_is_taken_apart(tmp_path: Path) -> None:
    builder, process, _ = one_process(end_ns=10 * SECOND)
    heap = {
        "python": 50_000_003,
        "mapped": 7_000_003,
        "untouched": 2_000_003,
        "arena": 33_000_001,
        "pool": 30_000_001,
        "reserved": 999_999_937,
    }
    builder.heap(2 * SECOND, process, 80_000_009, **heap)
    builder.heap(9 * SECOND, process, 2_000_003, python=1_000_003, arena=1_000_000, pool=None)
    builder.add("rss", t_ns=3 * SECOND, process=process, rss_bytes=120_000_007, shared_bytes=20_000_003)
    builder.add("rss", t_ns=9 * SECOND, process=process, rss_bytes=70_000_001, shared_bytes=20_000_003)
    report = memory_of(builder, tmp_path)
    # footprint 80,000,009: 30,000,001 in pools, 20,000,002 more of Python's, 7,000,003 mapped, 23,000,003 others;
    # arenas hold 3,000,000 more; 2,000,003 of what is mapped was never touched;
    # 120,000,007 - 80,000,009 - 3,000,000 - 20,000,003 + 2,000,003 = 18,999,998 is left
    assert parts_of(report, "peak") == {
        "python_pools": 30_000_001,
        "python_malloc": 20_000_002,
        "native_malloc": 23_000_003,
        "mappings": 5_000_000,
        "arenas_unused": 3_000_000,
        "shared": 20_000_003,
        "other": 18_999_998,
    }
    peak, end = report.reconciliation
    assert (peak.t_s, peak.rss_bytes, peak.reserved_bytes, peak.processes) == (3.0, 120_000_007, 999_999_937, 1)
    assert sum(part.bytes or 0 for part in peak.parts) == peak.rss_bytes
    assert sum(part.share or 0 for part in peak.parts) == pytest.approx(1)
    at_end = parts_of(report, "end")
    assert (end.t_s, at_end["other"]) == (9.0, 70_000_001 - 2_000_003 - 20_000_003)
    assert (at_end["python_pools"], at_end["python_malloc"], at_end["arenas_unused"]) == (1_000_000, 3, None)


def shared_mapping(tmp_path: Path, shared: int | None, **columns: int) -> MemoryReport:
    """90,000,017 mapped, of which 70,000,001 are shared and touched, and 9,000,011 never touched."""
    builder, process, _ = one_process()
    sizes = {"mapped": 90_000_017, "untouched": 9_000_011, "shared_mapped": shared}
    builder.heap(1 * SECOND, process, 90_000_017, **sizes)
    readings = {"rss_bytes": 100_000_007, "shared_bytes": 78_000_003} | columns
    builder.add("rss", t_ns=2 * SECOND, process=process, **readings)
    return memory_of(builder, tmp_path)


def test_shared_anonymous_mappings_count_once(tmp_path: Path) -> None:
    report = shared_mapping(tmp_path, 70_000_001)
    parts = parts_of(report, "peak")
    # the kernel has the shared pages among those of files: 100,000,007 - 78,000,003 - 11,000,005 is left
    assert (parts["mappings"], parts["shared"], parts["other"]) == (11_000_005, 78_000_003, 10_999_999)
    assert report.reconciliation[0].shared_mapped_bytes == 70_000_001
    text = " ".join(memory_text(report, Screen(120)))
    assert "include 70.0 MB of shared anonymous mappings" in text and "negative" not in text


def test_shared_mappings_that_a_process_has_not_touched_are_not_its_own(tmp_path: Path) -> None:
    report = shared_mapping(tmp_path, 70_000_001, rss_bytes=30_000_001, shared_bytes=8_000_009)
    parts = parts_of(report, "peak")
    assert (parts["mappings"], parts["shared"], parts["other"]) == (11_000_005, 8_000_009, 10_999_987)
    assert report.reconciliation[0].shared_mapped_bytes == 8_000_009


def test_recordings_that_do_not_tell_shared_mappings_say_so(tmp_path: Path) -> None:
    report = shared_mapping(tmp_path, None)
    parts = parts_of(report, "peak")
    assert (parts["mappings"], parts["shared"], parts["other"]) == (81_000_006, 78_000_003, -59_000_002)
    assert report.reconciliation[0].shared_mapped_bytes is None
    assert "by an older version, it is both in" in " ".join(memory_text(report, Screen(200)))


def test_an_allocated_size_above_the_resident_one_leaves_a_negative_rest(tmp_path: Path) -> None:
    builder, process, _ = one_process()
    builder.heap(1 * SECOND, process, 512_000_003)
    builder.add("rss", t_ns=2 * SECOND, process=process, rss_bytes=30_000_001)
    assert parts_of(memory_of(builder, tmp_path), "peak") == {
        "python_pools": 0,
        "python_malloc": 0,
        "native_malloc": 512_000_003,
        "mappings": 0,
        "arenas_unused": 0,
        "shared": None,
        "other": -482_000_002,
    }


def test_the_resident_set_of_the_tree_is_that_of_the_processes_there(tmp_path: Path) -> None:
    builder = TraceBuilder()
    first = builder.process(end_ns=3 * SECOND)
    second = builder.process(1 * SECOND, end_ns=9 * SECOND)
    for process, t_ns, rss in ((first, 2, 70_000_001), (second, 2, 20_000_003), (second, 5, 80_000_009)):
        builder.add("rss", t_ns=t_ns * SECOND, process=process, rss_bytes=rss, shared_bytes=5_000_011)
        builder.heap(t_ns * SECOND - 1, process, rss // 2)
    report = memory_of(builder, tmp_path)
    # at 2 s both are there: 90,000,004; at 5 s only the second is
    assert [(each.t_s, each.processes, each.rss_bytes) for each in report.reconciliation] == [
        (2.0, 2, 90_000_004),
        (5.0, 1, 80_000_009),
    ]
    assert parts_of(report, "peak")["shared"] == 10_000_022
    assert parts_of(report, "peak")["native_malloc"] == 35_000_000 + 10_000_001


def test_the_end_is_before_the_interpreter_finalizes(tmp_path: Path) -> None:
    builder, process, thread = one_process(end_ns=10 * SECOND)
    builder.alloc(1 * SECOND, process, thread, None, 1_009, 8 * SECOND, at_exit=True)
    for t_ns, rss in ((3, 50_000_017), (8, 40_000_003), (10, 14_000_029)):
        builder.add("rss", t_ns=t_ns * SECOND - 1, process=process, rss_bytes=rss)
    found = [(each.t_s, each.rss_bytes) for each in memory_of(builder, tmp_path).reconciliation]
    assert found == [(pytest.approx(3), 50_000_017), (pytest.approx(8), 40_000_003)]


def test_without_readings_there_is_nothing_to_take_apart(tmp_path: Path) -> None:
    builder, process, _ = one_process()
    builder.heap(1 * SECOND, process, 80_000_009)
    assert memory_of(builder, tmp_path).reconciliation == []


# The timeline


def test_collections_are_marks_on_the_timeline(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    builder.memory(1 * SECOND, process, thread, None, 11_000_003, 11_000_003)
    builder.collections(1 * SECOND, process, thread, 7, 0, 0)
    builder.collections(2 * SECOND, process, thread, 3, 1, 1)
    path = builder.write(tmp_path / "t.parquet")
    timeline = build_timeline([path, path], Selection(), {})
    assert timeline.collections == [[(1.0, 0, 7), (2.0, 0, 3), (2.0, 1, 1), (2.0, 2, 1)]] * 2
    assert build_timeline([path], Selection(from_s=1.5), {}).collections == [[(2.0, 0, 3), (2.0, 1, 1), (2.0, 2, 1)]]


def test_many_collections_are_at_most_200_marks_and_none_is_forgotten(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    for index in range(1_000):
        builder.collections(index * SECOND // 100, process, thread, 5, index % 2, int(index % 100 == 99))
    (marks,) = build_timeline([builder.write(tmp_path / "t.parquet")], Selection(), {}).collections
    assert 100 <= len(marks) <= 200
    assert [sum(count for _, each, count in marks if each == generation) for generation in range(3)] == [5_000, 500, 10]
    assert [t_s for t_s, generation, _ in marks if generation == 2] == [index + 0.99 for index in range(10)]


def test_snapshots_of_the_heap_are_points_of_the_timeline(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    builder.memory(1 * SECOND, process, thread, None, 11_000_003, 11_000_003)
    builder.heap(2 * SECOND, process, 19_999_993, python=5_000_011)
    points = build_timeline([builder.write(tmp_path / "t.parquet")], Selection(), {}).rows
    assert (points[-1].t_s, points[-1].footprint_bytes, points[-1].python_footprint_bytes) == (
        2.0,
        19_999_993,
        5_000_011,
    )


def test_exact_timelines_are_thinned_without_losing_a_peak(tmp_path: Path) -> None:
    builder, process, thread = one_process()
    for index in range(5_000):
        life = None if index == 4_321 else 1_000
        builder.alloc(index * 2_000_000, process, thread, None, 1_999_993 if index == 1_234 else 1_009, life)
    builder.alloc(5_000_000_000 + 500, process, thread, None, 700_001, 100, allocator="pymalloc", python=True)
    path = builder.write(tmp_path / "t.parquet")
    report = build_report([path], Selection())
    # at the 1,234th it holds 1,999,993; from the 4,321st on that one stays; the 2,500th and Python's overlap
    assert (report.totals.peak_bytes, report.totals.python_peak_bytes) == (1_999_993, 700_001)
    assert build_report([path], Selection(from_s=2.469)).totals.peak_bytes == 701_010
    assert build_report([path], Selection(from_s=8.643, to_s=8.6435)).totals.peak_bytes == 1_009


@pytest.mark.parametrize(
    ("texts", "threshold"),
    [
        ([], 20_000_000),
        (["memory-threshold=64MB", "cpu-interval=1ms"], 64_000_000),
        (["memory-threshold=1KB"], 20_000_000),
    ],
)
def test_the_error_of_growth_is_half_of_the_largest_threshold(texts: list[str], threshold: int, tmp_path: Path) -> None:
    builder, process, thread = one_process(end_ns=10 * SECOND)
    builder.settings["memory_threshold_bytes"] = "20000000"
    builder.alloc(1 * SECOND, process, thread, builder.stack(MAIN), 1_000, None, usable_bytes=1_008)
    for text in texts:
        builder.add("mark", t_ns=SECOND, what="set", text=text)
    assert line(report_on(builder, tmp_path), 12).growth_error_bytes == threshold / 2
