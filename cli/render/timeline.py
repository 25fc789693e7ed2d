"""The footprint over time as a chart, with the points below it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ...analyze.results.timeline import GcEvent, Timeline, TimelinePoint
from ...formats.units import megabytes, seconds
from .gpu import gpu_track
from .recording import marks_table, trace_lines
from .table import columns_text, wrap
from .text import Screen, resample

_CHART_ROWS = 10


def timeline_text(table: Timeline, screen: Screen) -> Iterator[str]:
    """For each trace a chart of the footprint with the full garbage collections below it, then the points and marks."""
    for index, trace in enumerate(table.traces, start=1):
        yield from trace_lines(trace, screen)
        points = [point for point in table.rows if point.trace == index]
        yield ""
        yield from _chart(points, trace.wall_s or 0.0, screen, table.collections[index - 1])
        yield from gpu_track([point for point in table.gpu if point.trace == index], trace.wall_s or 0.0, screen)
        if not points:
            continue
        names = ["time", "footprint", "of it Python's", "resident"]
        yield from columns_text(names, [_timeline_row(point) for point in _moments(points)], screen, {0, 1, 2, 3})
        yield from marks_table([mark for mark in table.marks if mark.trace == index], screen)


def _moments(points: list[TimelinePoint]) -> list[TimelinePoint]:
    """The points, without those that only repeat a value just before it changes."""
    pairs = itertools.pairwise(points)
    return [point for point, following in pairs if following.t_s - point.t_s > 2e-9] + points[-1:]


def _timeline_row(point: TimelinePoint) -> list[str]:
    sizes = (point.footprint_bytes, point.python_footprint_bytes, point.rss_bytes)
    return [f"{point.t_s:.3f} s", *map(megabytes, sizes)]


def _chart(points: list[TimelinePoint], wall_s: float, screen: Screen, collections: list[GcEvent]) -> Iterator[str]:
    values = [(p.t_s, p.footprint_bytes if p.footprint_bytes is not None else p.rss_bytes or 0) for p in points]
    top = max((value for _, value in values), default=0)
    if top <= 0:
        yield "No memory was recorded."
        return
    start_s, end_s = min(values[0][0], 0.0), max(wall_s, values[-1][0])
    columns = (
        resample(values, start_s, end_s, min(screen.width - 12 - len(seconds(end_s)), 100)) if end_s > start_s else []
    )
    for row in range(_CHART_ROWS, 0, -1):
        label = megabytes(top) if row == _CHART_ROWS else ""
        yield f"{label:>10} " + screen.paint(
            "".join(_cell(value / top * _CHART_ROWS - row + 1, screen) for value in columns), "memory"
        )
    yield f"{'0':>10} {screen.glyph('─', '-') * len(columns)} {seconds(end_s)}"
    yield from _collections(collections, start_s, end_s, len(columns), screen)
    yield ""


def _collections(collections: list[GcEvent], start_s: float, end_s: float, width: int, screen: Screen) -> Iterator[str]:
    """A line with a glyph at each full garbage collection, and a line that counts all collections."""
    counts = [sum(count for _, generation, count in collections if generation == each) for each in range(3)]
    if not any(counts) or not width:
        return
    places = {int((t_s - start_s) / (end_s - start_s) * width) for t_s, generation, _ in collections if generation == 2}
    glyph = screen.glyph("▲", "^")
    if places:
        yield f"{'':10} " + "".join(glyph if column in places else " " for column in range(width)).rstrip()
    full = f"; {glyph} {counts[2]:,} full" if counts[2] else ""
    text = f"Garbage collections: {counts[0]:,} of the youngest objects, {counts[1]:,} of the young{full}"
    yield from wrap(text, screen.width)


def _cell(height: float, screen: Screen) -> str:
    """The character for a cell that is filled from 0 (empty) to 1 (full)."""
    if not screen.has_unicode:
        return "#" if height >= 0.5 else " "
    return " ▁▂▃▄▅▆▇█"[max(0, min(8, round(height * 8)))]
