"""The smaller answers as text: timeline, info, SQL results and the list of views."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from ...analyze.results.report import Report
from ...analyze.results.timeline import GcEvent, Timeline, TimelinePoint
from ...analyze.results.trace import Info, MarkInfo
from ...analyze.trace.views import ViewColumn
from .gpu import gpu_track
from .native import process_table
from .report import columns_text, function_table, trace_lines, wrap
from .text import Screen, clean, megabytes, resample, seconds

_CHART_ROWS = 10
_MOST_MARKS = 40


def functions_text(report: Report, screen: Screen) -> Iterator[str]:
    """All functions of the report."""
    for trace in report.traces:
        yield from trace_lines(trace, screen)
    if not report.functions:
        yield "No function of the program's own code has a sample; --all shows library code too."
    yield from function_table(report.functions, report, screen, everything=True)


def timeline_text(table: Timeline, screen: Screen) -> Iterator[str]:
    """A chart of the footprint over time for each trace, with full garbage collections below it, then the figures."""
    for index, trace in enumerate(table.traces, start=1):
        yield from trace_lines(trace, screen)
        points = [point for point in table.rows if point.trace == index]
        yield ""
        yield from _chart(points, trace.wall_s or 0.0, screen, table.collections[index - 1])
        yield from gpu_track([point for point in table.gpu if point.trace == index], trace.wall_s or 0.0, screen)
        names = ["time", "footprint", "of it Python's", "resident"]
        yield from columns_text(names, [_timeline_row(point) for point in _moments(points)], screen, {0, 1, 2, 3})
        yield from _marks([mark for mark in table.marks if mark.trace == index], screen)


def _marks(marks: list[MarkInfo], screen: Screen) -> Iterator[str]:
    """What was said while recording, with the length of blocks and pauses."""
    if not marks:
        return
    yield ""
    rows = [
        [
            seconds(mark.t_s),
            seconds(None if mark.end_s is None else mark.end_s - mark.t_s),
            clean(mark.what),
            clean(mark.text),
        ]
        for mark in marks[:_MOST_MARKS]
    ]
    yield from columns_text(["marked at", "for", "what", "text"], rows, screen, {0, 1})
    if len(marks) > _MOST_MARKS:
        yield f"{len(marks) - _MOST_MARKS:,} more marks; --json lists them all."


def _moments(points: list[TimelinePoint]) -> list[TimelinePoint]:
    """The points without those that only hold a value until the next change."""
    pairs = itertools.pairwise(points)
    return [point for point, following in pairs if following.t_s - point.t_s > 2e-9] + points[-1:]


def _timeline_row(point: TimelinePoint) -> list[str]:
    sizes = (point.footprint_bytes, point.python_footprint_bytes, point.rss_bytes)
    return [f"{point.t_s:.3f} s", *map(megabytes, sizes)]


def _chart(points: list[TimelinePoint], wall_s: float, screen: Screen, marks: list[GcEvent]) -> Iterator[str]:
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
            "".join(_mark(value / top * _CHART_ROWS - row + 1, screen) for value in columns), "memory"
        )
    yield f"{'0':>10} {screen.glyph('─', '-') * len(columns)} {seconds(end_s)}"
    yield from _collections(marks, start_s, end_s, len(columns), screen)
    yield ""


def _collections(marks: list[GcEvent], start_s: float, end_s: float, width: int, screen: Screen) -> Iterator[str]:
    """A line with a mark where there were full garbage collections, and one that counts all of them."""
    counts = [sum(count for _, generation, count in marks if generation == each) for each in range(3)]
    if not any(counts) or not width:
        return
    places = {int((t_s - start_s) / (end_s - start_s) * width) for t_s, generation, _ in marks if generation == 2}
    glyph = screen.glyph("▲", "^")
    if places:
        yield f"{'':10} " + "".join(glyph if column in places else " " for column in range(width)).rstrip()
    full = f"; {glyph} {counts[2]:,} full" if counts[2] else ""
    text = f"Garbage collections: {counts[0]:,} of the youngest objects, {counts[1]:,} of the young{full}"
    yield from wrap(text, screen.width)


def _mark(height: float, screen: Screen) -> str:
    """The character for a cell that is filled from 0 (empty) to 1 (full)."""
    if not screen.has_unicode:
        return "#" if height >= 0.5 else " "
    return " ▁▂▃▄▅▆▇█"[max(0, min(8, round(height * 8)))]


def info_text(table: Info, screen: Screen) -> Iterator[str]:
    """Settings, events, losses, processes and marks of each trace."""
    for index, trace in enumerate(table.traces, start=1):
        yield screen.paint(clean(trace["path"]), "bold")
        facts = {
            "trace id": trace["trace_id"],
            "format": trace["format_version"],
            "size": f"{trace['size_bytes']:,} bytes",
        }
        facts |= trace["settings"]
        facts["events"] = ", ".join(f"{name} {count:,}" for name, count in trace["events"].items() if count is not None)
        yield from columns_text(["", ""], [[clean(name), clean(value)] for name, value in facts.items()], screen, set())
        yield from _losses(trace["losses"], screen)
        yield ""
        yield from process_table([row for row in table.rows if row.trace == index], screen)
        yield from _marks([mark for mark in table.marks if mark.trace == index], screen)


def _losses(losses: list[Any], screen: Screen) -> Iterator[str]:
    yield ""
    if not losses:
        yield "Nothing was lost."
    for loss in losses:
        text = f"{clean(loss.severity)}: {clean(loss.name)} x{loss.count:,}: {clean(loss.text)}"
        yield from wrap(text, screen.width, indent="  ")


def sql_text(names: list[str], rows: list[tuple[Any, ...]], screen: Screen) -> Iterator[str]:
    """A result as a table; cells are cleaned, NULL shows as such."""
    numbers = {i for i in range(len(names)) if any(isinstance(row[i], (int, float)) for row in rows)}
    texts = [[clean(_cell(value)) for value in row] for row in rows]
    yield from columns_text([clean(name) for name in names], texts, screen, numbers)
    yield screen.paint(f"({len(rows):,} {'row' if len(rows) == 1 else 'rows'})", "dim")


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def csv_text(names: list[str], rows: list[tuple[Any, ...]], is_terminal: bool) -> str:
    """A result as CSV, NULL as an empty cell; on a terminal the cells are cleaned."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        cells = ["" if value is None else str(value) for value in row]
        writer.writerow([clean(cell) for cell in cells] if is_terminal else cells)
    return buffer.getvalue()


def schema_text(views: Iterable[tuple[str, str, list[ViewColumn]]], screen: Screen) -> Iterator[str]:
    """Every view with its columns, types, units and meaning."""
    for name, text, columns in views:
        yield screen.paint(name, "bold")
        yield from (screen.paint(line, "dim") for line in wrap(f"  {text}", screen.width, indent="  "))
        for column in columns:
            kind = f"{column.type} " if column.type else ""
            unit = f"[{column.unit}] " if column.unit else ""
            yield from wrap(f"  {column.name:24} {kind}{unit}{column.text}", screen.width, indent=" " * 27)
        yield ""
