"""Text of the sums over a fleet: lines, functions, leaks, stacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ....analyze.fleet.report import collapsed_lines
from ....analyze.results.fleet import FleetFunction, FleetLeak, FleetLine, FleetReport, FleetTable
from ....formats.units import megabytes, per_second, percent, seconds
from ..table import columns_text, estimated
from ..text import CLASS_WORDS, Screen, clean, cpu_parts, cut_left, fit, not_shown
from .heading import fleet_heading

#: Rows that are shown unless --limit says otherwise, and the least share of the figure they are sorted by.
_MOST_ROWS, _LEAST_SHARE = 30, 0.001
#: Width of a place.
_PLACE = 40

Cell = Callable[[FleetLine], str]


def fleet_report_text(report: FleetReport, screen: Screen) -> Iterator[str]:
    """The text of ``fleet report``, ``fleet functions`` and ``fleet memory``."""
    yield from fleet_heading(report.fleet, screen)
    yield ""
    yield from _totals(report)
    rows = report.rows
    if report.query["limit"] is None:
        most = sum(abs(getattr(each, report.by, None) or 0.0) for each in rows)
        rows = [each for each in rows if abs(getattr(each, report.by, None) or 0.0) >= _LEAST_SHARE * most][:_MOST_ROWS]
    if not rows:
        yield f"No {'function' if report.name == 'functions' else 'line'} of the programs' own code has a sample."
        return
    yield ""
    columns = [(name, cell) for name, cell in _columns(report, screen) if any(cell(each) for each in rows)]
    names = [*(name for name, _ in columns), *(["function"] if report.name == "functions" else ["line", "source"])]
    table = [[cell(each) for _, cell in columns] + _place(each, report, screen) for each in rows]
    yield from columns_text(names, table, screen, set(range(len(columns))))
    if hidden := len(report.rows) - len(rows):
        are = not_shown(hidden, "line", "lines")
        are = not_shown(hidden, "function", "functions") if report.name == "functions" else are
        yield screen.paint(f"({are}; --limit shows more)", "dim")


def _totals(report: FleetReport) -> Iterator[str]:
    totals = report.totals
    if totals.cpu_s is not None:
        parts = zip(CLASS_WORDS, cpu_parts(totals), strict=True)
        shares = [f"{name} {percent(part, totals.cpu_s):.0f} %" for name, part in parts if part]
        yield f"CPU      {seconds(totals.cpu_s):>9}  {'  '.join(shares)}"
        if totals.cpu_s_per is not None:
            unit = "recorded hour" if report.fleet.per is None else f"mark {clean(report.fleet.per)}"
            yield f"         {seconds(totals.cpu_s_per):>9}  for each {unit}"
    if totals.wait_s is not None:
        yield f"Waiting  {seconds(totals.wait_s):>9}"
    if totals.peak_bytes is not None:
        facts = ["the highest peak of a trace"]
        facts += [f"RSS {megabytes(totals.peak_rss_bytes)}"] if totals.peak_rss_bytes else []
        facts += [f"{megabytes(totals.alloc_bytes)} allocated"] if totals.alloc_bytes is not None else []
        yield f"Memory   {megabytes(totals.peak_bytes):>9}  {'; '.join(facts)}"


def _columns(report: FleetReport, screen: Screen) -> Iterator[tuple[str, Cell]]:
    if report.name != "memory":
        yield "CPU", lambda row: seconds(row.cpu_s) if row.cpu_s else ""
        yield "%", lambda row: f"{row.cpu_percent:.1f}" if row.cpu_s else ""
        yield screen.glyph("±", "+-"), _error
        if report.name == "functions":
            yield "CPU all", lambda row: seconds(getattr(row, "cumulative_cpu_s", None))
        yield "wait", lambda row: seconds(row.wait_s) if row.wait_s else ""
    if report.name == "memory":
        yield "at peak", lambda row: _size(row, "live_at_peak")
    yield "at end", lambda row: _size(row, "live_at_end")
    yield "allocated", lambda row: _size(row, "alloc")
    if report.name == "memory":
        yield "growth", lambda row: megabytes(row.growth_bytes) if row.growth_bytes else ""
    else:
        yield "copied", lambda row: megabytes(row.copy_bytes) if row.copy_bytes else ""
        yield "GPU", lambda row: seconds(row.gpu_s) if row.gpu_s else ""
    yield "traces", lambda row: f"{row.traces:,}" if row.traces else ""
    yield "hosts", lambda row: f"{row.hosts:,}" if row.hosts else ""


def _error(row: FleetLine) -> str:
    return f"{percent(row.cpu_error_s, row.cpu_s):.0f} %" if row.cpu_s else ""


def _size(row: FleetLine, name: str) -> str:
    size, error = getattr(row, f"{name}_bytes"), getattr(row, f"{name}_error_bytes")
    return estimated(size, error, 0) if size else ""


def _place(row: FleetLine, report: FleetReport, screen: Screen) -> list[str]:
    ellipsis = screen.glyph("…", "~")
    place = cut_left(clean(f"{row.file}:{row.line}"), _PLACE, ellipsis)
    if report.name == "functions" and isinstance(row, FleetFunction):
        return [f"{clean(row.function or '')}  {place}"]
    return [place, clean(row.source or row.function or "")]


def fleet_leaks_text(table: FleetTable, screen: Screen) -> Iterator[str]:
    """The text of ``fleet leaks``."""
    yield from fleet_heading(table.fleet, screen)
    yield ""
    rows: list[FleetLeak] = table.rows
    if not rows:
        yield "No leak was found."
        return
    shown = rows if table.query["limit"] is not None else rows[:_MOST_ROWS]
    names = ["rate", screen.glyph("±", "+-"), "highest", "sure", "at end", "traces", "hosts", "line", "source"]
    cells = [
        [
            per_second(each.bytes_per_s),
            f"{percent(each.error_bytes_per_s, each.bytes_per_s):.0f} %",
            per_second(each.most_bytes_per_s),
            f"{100 * each.probability:.1f} %",
            megabytes(each.live_at_end_bytes),
            f"{each.traces:,}",
            f"{each.hosts:,}",
            cut_left(clean(f"{each.file}:{each.line}"), _PLACE, screen.glyph("…", "~")),
            clean(each.source or each.function or ""),
        ]
        for each in shown
    ]
    yield from columns_text(names, cells, screen, set(range(7)))
    if len(shown) < len(rows):
        yield screen.paint(f"({not_shown(len(rows) - len(shown), 'line', 'lines')}; --limit shows more)", "dim")


def fleet_flame_text(table: FleetTable, screen: Screen) -> Iterator[str]:
    """The stacks as collapsed lines, cleaned and cut on a terminal."""
    for line in collapsed_lines(table.rows):
        yield fit(clean(line.rstrip("\n")), screen.width, screen)
