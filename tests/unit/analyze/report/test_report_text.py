"""The report as text: bars, sparklines, widths, which lines are shown; and the reduction of points."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalene_trace.analyze.leaks.leaks import build_leaks
from scalene_trace.analyze.report.line_filter import shown_files
from scalene_trace.analyze.report.memory import MemoryQuery, build_memory
from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.report.timeline import build_timeline
from scalene_trace.analyze.results.report import Package, Report, Waits
from scalene_trace.analyze.results.trend import reduce_points, steps
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.cli.render.memory import leaks_text, memory_text
from scalene_trace.cli.render.report import functions_text, report_text
from scalene_trace.cli.render.report.report import header
from scalene_trace.cli.render.table import wrap
from scalene_trace.cli.render.text import Screen, bar, cells, clean, cut, cut_left, sparkline
from scalene_trace.cli.render.timeline import timeline_text
from scalene_trace.formats.units import megabytes, per_second, seconds
from tests.support.trace_builder import MS, SECOND, TraceBuilder

PLAIN = Screen()
APP = "/home/me/app.py"


def test_a_number_keeps_its_unit() -> None:
    text = "Of 0.5 % (3 %) it is 12.5 MB/s, 1,000 KiB and 20 ms (2 s in all); 4 threads have 7 bytes in 1.5 h, 2 %."
    for width in range(20, 60):
        lines = wrap(text, width)
        assert " ".join(lines) == text and all(len(line) <= width for line in lines)
        assert not any(re.match(r"%|MB|KiB|ms|s\b|bytes|h,", line) for line in lines), lines
    assert wrap("4 threads", 4) == ["4", "threads"] and wrap("a s", 2) == ["a", "s"]


def test_a_bar_shows_python_native_and_system_in_proportion() -> None:
    assert bar(PLAIN, [4, 3, 0, 1], 16, 16) == "████▓▓▓░        "
    assert bar(PLAIN, [1, 1, 0, 1], 3, 10) == "████▓▓▓░░░"
    assert bar(PLAIN, [0.001, 0, 0, 0], 100, 10) == "▏         "
    assert bar(PLAIN, [0, 0, 0, 0], 100, 4) == "    "
    assert bar(Screen(has_unicode=False), [2, 1, 1, 1], 5, 5) == "##=?-"
    assert bar(Screen(has_color=True), [1, 0, 0, 0], 1, 2) == "\x1b[94m██\x1b[0m"


def test_a_sparkline_keeps_the_peak_and_scales_from_zero() -> None:
    points = steps([(0, 0), (2 * SECOND, 80), (3 * SECOND, 40)])
    assert sparkline(PLAIN, points, 0, 8, 8) == "▁▁█▅▅▅▅▅"
    assert sparkline(PLAIN, [], 0, 8, 8) == "        "
    assert sparkline(PLAIN, [(1.0, -80.0)], 0, 2, 2) == "█▁"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("a\tb", "a    b"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("line\nbreak\r", "line\\nbreak\\r"),
        ("\u202eevil\u2028", "\\u202eevil\\u2028"),
        ("lone \ud800 surrogate", "lone \\ud800 surrogate"),
        ("no\u00a0break", "no break"),
        ("日本 é", "日本 é"),
    ],
)
def test_text_of_a_trace_is_made_harmless(text: str, expected: str) -> None:
    assert clean(text) == expected


def test_wide_characters_take_two_columns() -> None:
    assert cells("日本x") == 5
    assert cut("日本語x", 4) == "日…"
    assert cut_left("/long/path/app.py", 8) == "…/app.py"


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (megabytes(1_999_993), "2.0 MB"),
        (megabytes(-512_000_000), "-512 MB"),
        (megabytes(12_345_678_901), "12.3 GB"),
        (megabytes(None), ""),
        (seconds(0.0421), "42 ms"),
        (seconds(12.345), "12.35 s"),
        (seconds(1234.5), "1,234 s"),
    ],
)
def test_sizes_and_times_read_well(shown: str, expected: str) -> None:
    assert shown == expected


def report_of(ticks: dict[int, int], tmp_path: Path, source_lines: int = 40, **settings: Any) -> Report:
    """A report on ticks of 1 ms by line of one file."""
    builder = TraceBuilder()
    process = builder.process()
    thread = builder.thread(process, cpu_ns=0)
    builder.source(APP, "".join(f"statement_{n}()\n" for n in range(1, source_lines + 1)))
    for number, count in ticks.items():
        builder.tick(0, process, thread, builder.stack((APP, "main", 1, number)), user_ns=count * MS)
    return build_report([builder.write(tmp_path / "t.parquet")], Selection())


def test_lines_from_one_percent_on_are_shown_with_their_neighbours(tmp_path: Path) -> None:
    report = report_of({1: 512, 10: 320, 12: 172, 30: 11, 35: 9, 40: 1}, tmp_path)
    (file,) = shown_files(report)
    # 30 has a little more than 1 %; 35 and 40 have less; 11 is a neighbour of two
    assert [line.number for line in file.lines] == [1, 2, 9, 10, 11, 12, 13, 29, 30, 31]
    assert [line.number for line in file.lines if line.figures] == [1, 10, 12, 30]
    (everything,) = shown_files(report, all_lines=True)
    assert {35, 40} <= {line.number for line in everything.lines if line.figures}


def test_at_most_300_lines_are_shown(tmp_path: Path) -> None:
    builder = TraceBuilder()
    process = builder.process()
    thread = builder.thread(process, cpu_ns=0)
    builder.tick(0, process, thread, None)
    for number in range(200):
        stack = builder.stack((APP, "main", 1, 3 * number + 2))
        builder.memory(number, process, thread, stack, 11_000_003 if number % 2 else -10_999_999, 11_000_003)
    builder.source(APP, "x\n" * 1_000)
    path = builder.write(tmp_path / "t.parquet")
    report = build_report([path], Selection())
    assert sum(len(file.lines) for file in shown_files(report)) == 300
    assert sum(len(file.lines) for file in shown_files(report, all_lines=True)) == 600


def test_no_line_is_wider_than_the_terminal(tmp_path: Path) -> None:
    report = report_of({1: 500, 10: 300, 12: 180}, tmp_path)
    for width, has_color in product((60, 80, 120, 200), (False, True)):
        screen = Screen(width, has_color=has_color, is_cut=True)
        for line in report_text(report, screen):
            assert cells(re.sub(r"\x1b\[[0-9;]*m", "", line)) <= width, line


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_figure_of_the_totals_is_cut_off(width: int, tmp_path: Path) -> None:
    report = report_of({1: 500, 10: 300, 12: 180}, tmp_path)
    waits = Waits(sleep_s=54.0, disk_s=1.0, runnable_s=44.0, gil_s=1.0)
    memory = {"peak_bytes": 160_300_000, "python_peak_bytes": 160_300_000, "peak_rss_bytes": 158_900_000}
    volumes = {"alloc_bytes": 248e6, "live_at_end_bytes": 4.7e6, "copy_bytes": 5_100_000}
    report = replace(
        report,
        traces=[replace(report.traces[0], processes=4, threads=700)],
        totals=replace(report.totals, wait_s=100.0, waits=waits, **memory, **volumes),
    )
    lines = list(header(report, Screen(width, is_cut=True)))
    text = " ".join(" ".join(lines[1:]).split())
    for fact in ("4 processes", "700 threads", "t.parquet", "sleep 54 %", "disk 1 %", "runnable 44 %", "GIL 1 %"):
        assert fact in text
    for fact in ("Python's peak 160 MB", "RSS 159 MB", "248 MB allocated", "ends of processes", "5.1 MB copied"):
        assert fact in text
    assert max(map(cells, lines)) <= width


def test_waiting_of_no_known_class_is_said_without_a_list(tmp_path: Path) -> None:
    report = report_of({1: 500}, tmp_path)
    outside = [Package(None, False, 0.0, 0.0, 1.0)]
    report = replace(report, totals=replace(report.totals, wait_s=2.0, waits=Waits()), outside=outside)
    (line,) = (line for line in header(report, Screen(120, is_cut=True)) if line.startswith("Waiting"))
    assert line.split(maxsplit=1)[1] == "2.00 s  1.00 s of it without Python code"


def memory_trace(tmp_path: Path) -> Path:
    """A leak of 100 blocks with a long path and wide characters, copies, collections, two readings of the resident set."""
    builder = TraceBuilder()
    process = builder.process(end_ns=10 * SECOND)
    thread = builder.thread(process, cpu_ns=0)
    file = "/home/me/ein langer Pfad/日本語/" + "ordner/" * 10 + "app.py"
    builder.source(
        file, "cache.append(load_everything_there_is_from_the_database(connection, timeout=1.5)) # 日本語\n" * 9
    )
    stack, other = (builder.stack((file, "main", 1, line)) for line in (2, 7))
    for index in range(100):
        builder.alloc((index * 100 + 50) * MS, process, thread, stack, 10_007, type="bytearray")
        builder.alloc((index * 100 + 51) * MS, process, thread, other, 1_999_993, 2 * MS, free_stack=other)
    builder.tick(1 * SECOND, process, thread, stack)
    builder.copy(2 * SECOND, process, thread, other, 40_000_003)
    builder.collections(5 * SECOND, process, thread, 12_345, 67, 8)
    builder.heap(8 * SECOND, process, 800_000_009, python=3_000_003, arena=2_000_003, pool=1_000_003, reserved=10**10)
    builder.memory(8 * SECOND, process, thread, stack, 11_000_003, 800_000_009)
    builder.add("rss", t_ns=8 * SECOND, process=process, rss_bytes=120_000_007, shared_bytes=20_000_003)
    return builder.write(tmp_path / "t.parquet")


Texts = Callable[[Screen], dict[str, list[str]]]


@pytest.fixture(scope="module")
def texts_of(tmp_path_factory: pytest.TempPathFactory) -> Texts:
    """What each command prints of memory on a screen."""
    path = memory_trace(tmp_path_factory.mktemp("memory"))
    report, timeline = build_report([path], Selection()), build_timeline([path], Selection(), {})
    leaks = build_leaks([path], Selection(), {})
    asked: dict[str, Any] = {"temporary_s": 0.5, "temporary_allocations": 3}
    tables = {
        by: build_memory([path], Selection(), MemoryQuery(by, **asked), {"by": by, "limit": None, **asked})
        for by in ("line", "function", "type", "allocator")
    }

    def texts(screen: Screen) -> dict[str, list[str]]:
        found = {"report": report_text(report, screen), "functions": functions_text(report, screen)}
        found |= {"leaks": leaks_text(leaks, screen), "timeline": timeline_text(timeline, screen)}
        found |= {by: memory_text(table, screen) for by, table in tables.items()}
        return {name: list(lines) for name, lines in found.items()}

    return texts


@pytest.mark.parametrize("width", [60, 80, 100, 120, 140, 200])
def test_no_line_about_memory_is_wider_than_the_terminal(width: int, texts_of: Texts) -> None:
    for has_color in (False, True):
        for name, lines in texts_of(Screen(width, has_color=has_color, is_cut=True)).items():
            for line in lines:
                assert cells(re.sub(r"\x1b\[[0-9;]*m", "", line)) <= width, (name, line)


def test_memory_is_shown_in_ascii_too(texts_of: Texts) -> None:
    for name, lines in texts_of(Screen(80, has_unicode=False, is_cut=True)).items():
        assert not [line for line in lines if set(line) & set("±▲█▁×…")], name


def test_a_leak_has_its_column_and_its_line_in_the_report(texts_of: Texts) -> None:
    texts = texts_of(Screen(140))
    (row,) = [line for line in texts["report"] if line.startswith("     2")]
    # 78 blocks of 10,007 bytes in 7.84 s; 1,000,700 bytes in all, of which 98 were there at the peak at 9.85 s
    assert "100 KB/s" in row and "1.0 MB" in row
    (leak,) = [line for line in texts["report"] if "app.py:2" in line and "bytearray in main" in line]
    assert leak.split()[:7] == ["100", "KB/s", "0", "%", "98.8", "%", "1.0"] and "bytearray in main" in leak
    (source,) = [line for line in texts["leaks"] if "load_everything" in line]
    assert source.strip().startswith("cache.append(")


def test_columns_come_with_the_width(texts_of: Texts) -> None:
    titles = {}
    for width in (60, 80, 120, 160):
        (titles[width],) = (line.split() for line in texts_of(Screen(width))["report"] if "source" in line.split())
    assert titles[60] == ["line", "CPU", "%", "source"]
    assert titles[80] == ["line", "CPU", "%", "at", "end", "source"]
    assert titles[120][3:] == ["error", "at", "end", "at", "peak", "allocated", "leaks", "trend", "source"]
    assert titles[160][-5:] == ["copied", "leaks", "py", "trend", "source"]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_source_keeps_40_columns(width: int, texts_of: Texts) -> None:
    lines = texts_of(Screen(width, is_cut=True))["report"]
    (row,) = [line for line in lines if line.startswith("     2") and "cache.append" in line]
    assert cells(row[row.index("cache.append") :]) >= min(40, width)


def test_the_source_loses_the_indentation_of_its_block(tmp_path: Path) -> None:
    builder = TraceBuilder()
    process = builder.process()
    thread = builder.thread(process, cpu_ns=0)
    builder.source(APP, "\n" * 8 + "        for each in all:\n            work(each)\n\n" + "\n" * 8 + "\treturn 1\n")
    for line in (10, 20):
        builder.tick(0, process, thread, builder.stack((APP, "main", 1, line)), user_ns=MS)
    text = list(report_text(build_report([builder.write(tmp_path / "t.parquet")], Selection()), PLAIN))
    (outer,), (inner,), (alone,) = (
        [line for line in text if word in line and "•" not in line] for word in ("for each", "work(", "return")
    )
    start = outer.index("for each")
    assert inner.index("work(") == start + 4 and alone.index("return") == start


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_legend_explains_what_is_shown_and_nothing_else(width: int, texts_of: Texts, tmp_path: Path) -> None:
    lines = texts_of(Screen(width, is_cut=True))["report"]
    titles = " ".join(line for line in lines if " source" in line or line.endswith("  function"))
    legend = " ".join(lines[len(lines) - lines[::-1].index("") :])
    for name in ("error", "at end", "at peak", "allocated", "copied", "leaks", "py", "trend", "wait"):
        assert (f"{name}: " in legend or f"{name}, " in legend) == (f" {name} " in titles), name
    short = list(report_text(report_of({1: 512}, tmp_path), Screen(width, is_cut=True)))
    assert not [line for line in short if "Memory is sampled" in line or "wait:" in line or "trend" in line]
    without = list(report_text(report_of({1: 512}, tmp_path), Screen(width, is_cut=True), has_legend=False))
    assert without == short[: len(without)] and len(without) < len(short)


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_the_legend_of_memory_explains_what_is_shown(width: int, texts_of: Texts) -> None:
    lines = texts_of(Screen(width, is_cut=True))["line"]
    (titles,) = [line for line in lines if "temp." in line.split()]
    legend = " ".join(lines[len(lines) - lines[::-1].index("") :])
    for name in ("young", "lived"):
        assert (f"{name}:" in legend) == (name in titles.split())
    assert "<: " not in legend  # every allocation is recorded, so nothing is estimated


def test_without_allocations_the_report_looks_as_it_always_did(tmp_path: Path) -> None:
    (title,) = [line for line in report_text(report_of({1: 500}, tmp_path), Screen(80)) if "source" in line.split()]
    assert title == "  line  CPU % error             source"


def test_the_resident_set_is_shown_part_by_part(texts_of: Texts) -> None:
    lines = texts_of(Screen(80))["line"]
    rows = {line[:32].strip(): line[32:].split() for line in lines}
    assert rows["Python's larger blocks"] == ["2.0", "MB", "1.7", "%"] * 2
    # 120,000,007 - 20,000,003 - 800,000,009 - 1,000,000: what was allocated was never touched
    assert rows["everything else"] == ["-701", "MB", "-584.2", "%"] * 2
    assert rows["reserved, not resident"] == ["10.0", "GB"] * 2
    assert any("more was allocated than touched" in line for line in lines)


def test_full_collections_are_marks_below_the_chart(texts_of: Texts) -> None:
    lines = texts_of(Screen(79))["timeline"]
    (marks,) = [line for line in lines if line.strip() == "▲"]
    # at 5 s of 10, in the middle of 60 columns after a margin of 11
    assert marks.index("▲") == 11 + 30
    assert "Garbage collections: 12,345 of the youngest objects, 67 of the young; ▲ 8 full" in lines


def test_no_leaks_and_no_sampler_are_distinguished(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.process()
    path = builder.write(tmp_path / "t.parquet")
    assert "Allocations were not recorded" in list(leaks_text(build_leaks([path], Selection(), {}), PLAIN))[-1]
    builder.settings["features"] = '["memory", "alloc"]'
    path = builder.write(tmp_path / "t.parquet")
    assert "No leak was found." in "".join(leaks_text(build_leaks([path], Selection(), {}), PLAIN))


def test_rates_read_well() -> None:
    assert [per_second(rate) for rate in (203_111, 1_999_993, 45_600_000_000)] == ["203 KB/s", "2.0 MB/s", "45.6 GB/s"]


def test_every_shown_line_has_its_number_share_and_source(tmp_path: Path) -> None:
    text = list(report_text(report_of({1: 500, 10: 300, 12: 200}, tmp_path), PLAIN))
    (row,) = [line for line in text if "statement_10()" in line]
    assert row.split()[:2] == ["10", "30.0"]
    (neighbour,) = [line for line in text if "statement_11()" in line]
    assert neighbour.split() == ["11", "statement_11()"]
    assert any(line.startswith("CPU % is the share") for line in text)


points_lists = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**9)), min_size=1, max_size=400)


@given(points_lists, st.integers(3, 100))
def test_reduced_points_keep_the_ends_and_the_peak(raw: list[tuple[int, int]], limit: int) -> None:
    points = [(float(t), float(y)) for t, y in sorted(raw)]
    reduced = reduce_points(points, limit)
    assert len(reduced) <= max(limit, 3)
    assert (reduced[0], reduced[-1]) == (points[0], points[-1])
    assert max(y for _, y in reduced) == max(y for _, y in points)
    assert set(reduced) <= set(points) and reduced == sorted(reduced, key=lambda point: point[0])


def test_a_straight_line_needs_its_ends_only() -> None:
    assert reduce_points([(float(t), 2.0 * t) for t in range(1_000)]) == [(0.0, 0.0), (999.0, 1998.0)]


def test_a_hundred_points_follow_a_saw_of_forty_teeth_closely() -> None:
    points = [(float(t), float(t % 25 * 1_000_003)) for t in range(1_000)]
    kept = dict(reduce_points(points))
    assert len(kept) <= 100
    assert all(points[tooth * 25 + 24][0] in kept for tooth in range(40))


def test_long_series_are_thinned_without_losing_the_peak() -> None:
    draw = random.Random(5)
    points = [(float(t), draw.random()) for t in range(20_000)]
    points[12_345] = (12_345.0, 7.0)
    assert (12_345.0, 7.0) in reduce_points(points)


def test_steps_hold_until_the_next_value() -> None:
    assert steps([(0, 5), (SECOND, 9), (SECOND, 7)]) == [(0.0, 5), (0.999999999, 5), (1.0, 9), (1.0, 7)]
