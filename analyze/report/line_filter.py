"""Chooses the lines that a report shows to people: lines with notable figures and their neighbours."""

from __future__ import annotations

from dataclasses import dataclass

from ..results.estimates import at_most
from ..results.report import Line, Report
from ..results.trend import SAWTOOTH, SPIKE

#: A line is shown if it has at least this share of a total.
LEAST_SHARE = 0.01
#: The most lines that are shown, neighbours included, unless all lines are wanted.
MAX_LINES = 300


@dataclass(frozen=True)
class ShownLine:
    """A line of a file: its figures (None for a neighbour without samples) and its text (None if not in the trace)."""

    number: int
    figures: Line | None
    source: str | None


@dataclass(frozen=True)
class ShownFile:
    """A file with the lines to show in order, and the sums over all of its lines (None if the sampler was off)."""

    file: str
    lines: list[ShownLine]
    cpu_s: float | None
    growth_bytes: int | None
    live_at_end_bytes: int | None


def shown_files(report: Report, all_lines: bool = False) -> list[ShownFile]:
    """The lines to show, by file; files in the order of their first line in the report.

    A line is shown if it took 1 % of the CPU time, waiting time or GPU time, grew or shrank by 1 % of the peak, held 1 % of
    the peak, allocated or copied 1 % of all bytes, leaks, or has a trend of sawtooth or spike. The lines before and after it
    are shown too; at most 300 lines in total. ``all_lines`` shows every line with a sample.
    """
    numbers: dict[str, set[int]] = {}
    count = 0
    for line in report.lines:
        if line.file is None or line.line is None or not (all_lines or _matters(line, report)):
            continue
        found = numbers.setdefault(line.file, set())
        new = set(_with_neighbours(line, report)) - found
        if not all_lines and count + len(new) > MAX_LINES:
            break
        found |= new
        count += len(new)
    by_file: dict[str, list[Line]] = {}
    for line in report.lines:
        by_file.setdefault(line.file or "", []).append(line)
    return [_shown_file(file, sorted(found), by_file[file], report) for file, found in numbers.items() if found]


def _matters(line: Line, report: Report) -> bool:
    totals = report.totals
    return matters(line, report) or reaches(line.cpu_s, totals.cpu_s) or reaches(line.wait_s, totals.wait_s)


def matters(line: Line, report: Report) -> bool:
    """Does the line, or function, have notable memory or GPU figures?"""
    totals = report.totals
    return (
        reaches(abs(line.growth_bytes or 0), totals.peak_bytes)
        or reaches(line.live_at_peak_bytes, totals.peak_bytes)
        or reaches(line.alloc_bytes, totals.alloc_bytes)
        or reaches(line.copy_bytes, totals.copy_bytes)
        or reaches(line.gpu_s, totals.gpu_s)
        or reaches(line.device_copy_bytes, totals.device_copy_bytes)
        or reaches(line.device_live_at_peak_bytes, totals.device_peak_bytes)
        or bool(line.leak_bytes_per_s)
        or line.trend_class in (SAWTOOTH, SPIKE)
    )


def reaches(part: float | None, whole: float | None) -> bool:
    """Is ``part`` at least 1 % of ``whole``? False if either is missing or zero."""
    return bool(part and whole and part >= LEAST_SHARE * whole > 0)


def _with_neighbours(line: Line, report: Report) -> list[int]:
    assert line.file is not None and line.line is not None
    last = len(report.sources.get(line.file, []))
    return [n for n in range(line.line - 1, line.line + 2) if n == line.line or 0 < n <= last]


def _shown_file(file: str, numbers: list[int], found: list[Line], report: Report) -> ShownFile:
    source, most_held = report.sources.get(file, []), report.totals.live_at_end_bytes
    figures = {line.line: line for line in found}
    texts = (source[n - 1] if 0 < n <= len(source) else None for n in numbers)
    lines = [ShownLine(n, figures.get(n), text) for n, text in zip(numbers, texts, strict=True)]
    cpu = [line.cpu_s for line in figures.values() if line.cpu_s is not None]
    growth = [line.growth_bytes for line in figures.values() if line.growth_bytes is not None]
    held = [line.live_at_end_bytes for line in figures.values() if line.live_at_end_bytes is not None]
    held_bytes = at_most(sum(held), most_held) if held else None
    return ShownFile(file, lines, sum(cpu) if cpu else None, sum(growth) if growth else None, held_bytes)
