"""Curves reduced to a hundred points keep every peak within 1 %; the description of a curve's course."""

from __future__ import annotations

import bisect
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.results.trend import Point, classify, peaks, reduce_points, steps
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.cli.render.report import report_text
from scalene_trace.cli.render.text import Screen
from tests.support.trace_builder import MS, SECOND, TraceBuilder


def value_at(points: list[Point], t_s: float) -> float:
    """On the straight lines between the points."""
    after = bisect.bisect_right(points, (t_s, float("inf")))
    (t_0, y_0), (t_1, y_1) = points[max(after - 1, 0)], points[min(after, len(points) - 1)]
    return y_0 + (y_1 - y_0) * (t_s - t_0) / (t_1 - t_0) if t_1 > t_0 else y_0


def high_points(values: list[int], least: float) -> list[int]:
    """A second computation: maxima with a lower value on either side, by more than ``least``, before a higher one."""
    found = []
    for index, value in enumerate(values):
        left = next((i for i in range(index - 1, -1, -1) if values[i] >= value), -1)
        right = next((i for i in range(index + 1, len(values)) if values[i] > value), len(values))
        before, after = values[left + 1 : index + 1], values[index:right]
        if value - min(before) > least and value - min(after) > least:
            found.append(index)
    return found


noisy = st.lists(st.integers(0, 1_000), min_size=2, max_size=120)


@settings(max_examples=300)
@given(st.lists(st.tuples(noisy, st.integers(1, 6)), min_size=1, max_size=8))
def test_every_peak_is_kept_within_1_percent(parts: list[tuple[list[int], int]]) -> None:
    """Pieces of noise of different sizes, as footprints with steps: up to 960 samples, 1,900 points."""
    values = [value * 10 ** (size - 1) for part, size in parts for value in part]
    points = steps([(index * MS, value) for index, value in enumerate(values)])
    reduced = reduce_points(points)
    assert len(reduced) <= 100
    least = 0.01 * (max(values) - min(values))
    tops = high_points(values, least)
    missed = [i for i in tops if abs(value_at(reduced, i / 1e3) - values[i]) > least]
    if len(tops) <= 97:
        assert not missed
    assert max(y for _, y in reduced) == max(values)


def test_of_more_peaks_than_points_the_highest_are_kept() -> None:
    draw = random.Random(4)
    values = [draw.randrange(1_000_003) if index % 2 else 0 for index in range(1_001)]
    points = [(float(index), float(value)) for index, value in enumerate(values)]
    kept = dict(reduce_points(points))
    highest = sorted(values, reverse=True)[:90]
    assert all(float(values.index(value)) in kept for value in highest)


def test_peaks_are_those_that_stand_out() -> None:
    points = [(float(t), float(y)) for t, y in enumerate([0, 50, 49, 51, 0, 100, 99, 100, 30, 31, 5])]
    assert peaks(points, 0.05) == [3, 5]
    assert peaks(points, 0.005) == [9, 1, 3, 5, 7]


def saw(teeth: int, rise: float = 0.0) -> list[Point]:
    """Teeth of 100 MB, each in ten steps, whose valleys rise."""
    return [(tooth + step / 10, 1e7 * step + tooth * rise) for tooth in range(teeth) for step in range(10)]


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([(float(t), 1e7 * t) for t in range(10)], "growing"),
        ([(1.0, 1e8)], "flat"),
        ([(1.0, 1e6), (5.0, 2e6)], "flat"),
        ([(1.0, 1e8), (1.5, 2e8), (1.9, 2.5e8)], "flat"),
        ([(9.0, 1e8)], "growing"),
        ([(float(t), -1e7 * t) for t in range(10)], "flat"),
        (saw(10), "sawtooth"),
        (saw(3), "sawtooth"),
        (saw(10, rise=5e7), "growing"),
        ([(1.0, 1e7), (4.0, 3e8), (4.1, 1e7)], "spike"),
        ([(4.0, 3e8), (4.1, 0.0)], "spike"),
        ([(4.0, 3e8), (4.1, 2.5e8)], "flat"),
    ],
)
def test_a_trend_has_a_name(points: list[Point], expected: str) -> None:
    assert classify(points, 0.0, 10.0, least_bytes=5e6) == expected


def test_the_name_is_in_the_report(tmp_path: Path) -> None:
    builder = TraceBuilder()
    process = builder.process()
    thread = builder.thread(process, cpu_ns=0)
    growing, saws, once = (builder.stack(("/home/me/app.py", "main", 1, line)) for line in (2, 3, 4))
    footprint = 0
    for index in range(18):
        nets = [(growing, 11_000_003), (saws, 40_000_003 if index % 6 < 3 else -40_000_003)]
        for stack, net in nets + [(once, 90_000_001)] * (index == 1):
            footprint += net
            builder.memory(index * SECOND // 2 + stack, process, thread, stack, net, footprint)
    path = builder.write(tmp_path / "t.parquet")
    report = build_report([path], Selection())
    assert {line.line: line.trend_class for line in report.lines} == {2: "growing", 3: "sawtooth", 4: "flat"}
    assert report.functions[0].trend_class == "sawtooth"
    assert report.unattributed.trend_class is None
    rows = {text.split()[0]: text for text in report_text(report, Screen(160)) if text[:6].strip().isdigit()}
    assert "growing" in rows["2"] and "sawtooth" in rows["3"] and "flat" not in rows["4"]
    assert not [text for text in report_text(report, Screen(120)) if "sawtooth" in text]
