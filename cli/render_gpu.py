"""GPU time and memory in the report; nothing at all where there was no GPU, or it was not used."""

from __future__ import annotations

from collections.abc import Iterator

from scalene_trace.analyze.results import Line, Report

from .render import Screen, fit, megabytes, percent, seconds

GPU_LEGEND = (
    "GPU %: share of all GPU time, ~ where the line was shorter than what the driver averages over; GPU mem: most memory on "
    "the GPU while the line was at it."
)


def gpu_widths(report: Report, width: int) -> tuple[int, ...]:
    """Widths of the columns; none without GPU time and GPU memory, or where the screen is narrow."""
    has_gpu = bool(report.totals.gpu_s or report.totals.gpu_peak_bytes)
    return (6, 8) if has_gpu and width >= 90 else (6,) if has_gpu else ()


def gpu_titles(widths: tuple[int, ...]) -> list[str]:
    """Titles of the columns."""
    return [f"{title:>{width}}" for title, width in zip(("GPU %", "GPU mem"), widths, strict=False)]


def gpu_columns(figures: Line | None, widths: tuple[int, ...]) -> list[str]:
    """The columns of a line or function (None = a neighbour without samples)."""
    share, peak = "", ""
    if figures and figures.gpu_s:
        share = f"{'~' * bool(figures.gpu_short)}{figures.gpu_percent:.1f}"
    if figures and figures.gpu_peak_bytes:
        peak = megabytes(figures.gpu_peak_bytes)
    return [f"{text:>{width}}" for text, width in zip((share, peak), widths, strict=False)]


def gpu_summary(report: Report, screen: Screen) -> Iterator[str]:
    """One line beside the totals: GPU time, how busy that is, and the peak of memory."""
    totals = report.totals
    if not (totals.gpu_s or totals.gpu_peak_bytes):
        return
    is_whole = report.query["from_s"] is None and report.query["to_s"] is None
    wall_s = sum(trace.wall_s or 0.0 for trace in report.traces) if is_whole else 0.0
    facts = [f"{percent(totals.gpu_s or 0.0, wall_s):.0f} % of the time" if wall_s else ""]
    facts += [f"GPU memory {megabytes(totals.gpu_peak_bytes)} at most"]
    yield fit(f"GPU      {seconds(totals.gpu_s or 0.0):>9}  {', '.join(filter(None, facts))}", screen.width, screen)
