"""The report as text: bars, sparklines, widths, which lines are shown; and the reduction of points."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalene_trace.analyze.report import build_report
from scalene_trace.analyze.reported import shown_files
from scalene_trace.analyze.results import Report
from scalene_trace.analyze.selection import Selection
from scalene_trace.analyze.trend import reduce_points, steps
from scalene_trace.cli.render import Screen, bar, cells, clean, cut, cut_left, megabytes, seconds, sparkline
from scalene_trace.cli.render_report import report_text
from trace_builder import MS, SECOND, TraceBuilder

PLAIN = Screen()
APP = "/home/me/app.py"


def test_a_bar_shows_python_native_and_system_in_proportion() -> None:
    assert bar(PLAIN, [4, 3, 1], 16, 16) == "████▓▓▓░        "
    assert bar(PLAIN, [1, 1, 1], 3, 10) == "████▓▓▓░░░"
    assert bar(PLAIN, [0.001, 0, 0], 100, 10) == "▏         "
    assert bar(PLAIN, [0, 0, 0], 100, 4) == "    "
    assert bar(Screen(has_unicode=False), [2, 1, 1], 4, 4) == "##=-"
    assert bar(Screen(has_color=True), [1, 0, 0], 1, 2) == "\x1b[94m██\x1b[0m"


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
    report = report_of({1: 500, 10: 300, 12: 180, 30: 10, 35: 9, 40: 1}, tmp_path)
    (file,) = shown_files(report)
    # 30 has just 1 %; 35 and 40 have less; 11 is a neighbour of two
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


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int, tmp_path: Path) -> None:
    report = report_of({1: 500, 10: 300, 12: 180}, tmp_path)
    for has_color in (False, True):
        screen = Screen(width, has_color=has_color, is_cut=True)
        for line in report_text(report, screen):
            assert cells(re.sub(r"\x1b\[[0-9;]*m", "", line)) <= width, line


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
