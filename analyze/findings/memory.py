"""Findings about memory: leaks, growth, what was alive at the peak, copies."""

from __future__ import annotations

from dataclasses import dataclass

from ...formats.units import megabytes, per_second
from ..results.findings import Finding
from ..results.report import Leak, Line, Report
from ..results.trend import GROWING
from .words import Places, fraction, located

_CERTAIN = 0.25  #: the largest standard error that a size may have, as a part of it
#: The least peak, and the least share of it, that is worth a sentence.
_LEAST_PEAK, _LEAST_SHARE = 20_000_000, 0.2
#: Copies are worth a sentence if memory moves 2 GB per second and they took 5 % of the CPU time, and if they are enough
#: samples (one per 20 MB by default) to say where.
_LEAST_COPIES, _LEAST_RATE, _LEAST_COPY_SHARE = 200_000_000, 100_000_000, 0.3


@dataclass(frozen=True)
class Peaks:
    """``together_bytes``: the peaks of all traces together, of which a line's memory is a part: it is added up over the
    traces. ``low_rss_bytes``: the peak of the resident set, if much of what was allocated was never in it."""

    together_bytes: int = 0
    low_rss_bytes: int | None = None


def memory_findings(report: Report, peaks: Peaks, places: Places) -> list[Finding]:
    """The leak that grows fastest, then lines that grow without being a certain leak, then the peak."""
    found = _leaks(report, places)
    grown = _growing(report, peaks.together_bytes)
    if grown is not None:
        found.append(_growth(grown, places))
    peak = _at_peak(report, peaks.together_bytes)
    is_said = peak is None or peak is grown or any(_is_at(leak, peak) for leak in report.leaks or [])
    if not is_said or peaks.low_rss_bytes is not None:
        found.append(_peak(report, None if is_said else peak, peaks, places))
    return found


def _is_at(leak: Leak, line: Line) -> bool:
    return (leak.file, leak.line) == (line.file, line.line)


def _leaks(report: Report, places: Places) -> list[Finding]:
    leaks = sorted(report.leaks or [], key=lambda leak: -leak.bytes_per_s)
    if not leaks:
        return []
    first, others = leaks[0], leaks[1:]
    about = "about " if first.error_bytes_per_s > _CERTAIN * first.bytes_per_s else ""
    more = ""
    if others:
        rate = per_second(sum(leak.bytes_per_s for leak in others))
        more = f"; {len(others)} more {'line leaks' if len(others) == 1 else 'lines leak'} {rate}"
    sure = min(int(100 * first.probability), 99)
    found = Finding(
        kind="leak",
        text=f"Memory grows by {about}{per_second(first.bytes_per_s)} at {places.said(first)}, {sure} % sure{more}.",
        value=first.bytes_per_s,
        unit="bytes/s",
        error=first.error_bytes_per_s,
        probability=first.probability,
    )
    return [located(found, first)]


def _growing(report: Report, peaks_bytes: int) -> Line | None:
    """The line that grew most until the end, if that is a good part of the peak and no leak is found there."""
    leaking = [line for line in report.lines if line.leak_bytes_per_s]
    rows = [line for line in report.lines if line.trend_class == GROWING and line not in leaking]
    top = max(rows, key=lambda line: line.growth_bytes or 0, default=None)
    if top is None or (report.totals.peak_bytes or 0) < _LEAST_PEAK:
        return None
    growth = top.growth_bytes or 0
    is_much = growth >= _LEAST_SHARE * peaks_bytes and (top.growth_error_bytes or 0) <= _CERTAIN * growth
    # What the line still held at the end must bear it: other lines may have freed what it allocated.
    is_held = top.live_at_end_bytes is None or top.live_at_end_bytes >= growth / 2
    return top if is_much and is_held else None


def _growth(line: Line, places: Places) -> Finding:
    growth = line.growth_bytes or 0
    text = f"Memory grew by {megabytes(growth)} at {places.said(line)} until the end; whether it leaks is not certain."
    return located(Finding("growth", text, growth, "bytes", line.growth_error_bytes), line)


def _at_peak(report: Report, peaks_bytes: int) -> Line | None:
    """The line that held most at the peak, if that is a good part of it."""
    top = max(report.lines, key=lambda line: line.live_at_peak_bytes or 0, default=None)
    if top is None or (report.totals.peak_bytes or 0) < _LEAST_PEAK:
        return None
    held = top.live_at_peak_bytes or 0
    is_certain = (top.live_at_peak_error_bytes or 0) <= _CERTAIN * held
    return top if held >= _LEAST_SHARE * peaks_bytes and is_certain else None


def _peak(report: Report, line: Line | None, peaks: Peaks, places: Places) -> Finding:
    """The peak, with the line that held most if there is one, and with the resident set where that was much smaller."""
    peak, rss = report.totals.peak_bytes or 0, peaks.low_rss_bytes
    part = min((line.live_at_peak_bytes or 0) / peaks.together_bytes, 1.0) if line is not None else None
    most = f", {fraction(part)} of it from {places.said(line)}" if line is not None and part is not None else ""
    unused = "the rest was allocated but never touched, or was swapped out"
    resident = f" The resident set peaks at {megabytes(rss)}: {unused}." if rss is not None else ""
    text = f"Memory peaks at {megabytes(peak)}{most}.{resident}"
    name = "untouched" if rss is not None else None
    return located(Finding("peak", text, peak, "bytes", name=name, part=part), line)


def copy_findings(report: Report, places: Places) -> list[Finding]:
    """The line that copies most, if copying may have taken a notable part of the CPU time."""
    whole, cpu_s = report.totals.copy_bytes or 0, report.totals.cpu_s
    top = max(report.lines, key=lambda line: line.copy_bytes or 0, default=None)
    if top is None or whole < _LEAST_COPIES or (cpu_s and whole < _LEAST_RATE * cpu_s):
        return []
    part = (top.copy_bytes or 0) / whole
    if part < _LEAST_COPY_SHARE:
        return []
    text = f"{megabytes(whole)} were copied in memory, {fraction(part)} of it at {places.said(top)}."
    return [located(Finding("copy", text, whole, "bytes", part=part), top)]
