"""GPU time and memory, and calls of CUDA libraries (copies, memory and waits), in the report; nothing if there were none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...analyze.report.line_filter import reaches
from ...analyze.results.report import DeviceCopies, Line, Report
from ...analyze.results.timeline import GpuPoint
from ...formats.units import megabytes, percent, seconds
from .table import place
from .text import Screen, fit, sparkline

_MEANINGS = {
    "GPU %": "GPU %: share of all GPU time (~: the line ran for less than the interval over which the driver averages)",
    "GPU mem": "GPU mem: highest GPU memory while the line ran",
}
_MOST_LINES = 10
_TITLES = ("to device", "from device", "other", "at peak", "waiting")


def gpu_widths(report: Report, width: int) -> tuple[int, ...]:
    """Widths of the columns; none without GPU time and GPU memory, one on a narrow screen."""
    has_gpu = bool(report.totals.gpu_s or report.totals.gpu_peak_bytes)
    return (6, 8) if has_gpu and width >= 80 else (6,) if has_gpu else ()


def gpu_legend(names: Sequence[str]) -> list[str]:
    """The explanation of the shown columns, by their titles."""
    texts = [_MEANINGS[name] for name in names]
    return [f"{'; '.join(texts)}."] if texts else []


def gpu_titles(widths: tuple[int, ...]) -> list[str]:
    """Titles of the columns."""
    return [f"{title:>{width}}" for title, width in zip(("GPU %", "GPU mem"), widths, strict=False)]


def gpu_columns(figures: Line | None, widths: tuple[int, ...]) -> list[str]:
    """The cells of a line or function (None = a neighbour without samples)."""
    share, peak = "", ""
    if figures and figures.gpu_s:
        share = f"{'~' * bool(figures.gpu_short)}{figures.gpu_percent:.1f}"
    if figures and figures.gpu_peak_bytes:
        peak = megabytes(figures.gpu_peak_bytes)
    return [f"{text:>{width}}" for text, width in zip((share, peak), widths, strict=False)]


def gpu_summary(report: Report, screen: Screen) -> Iterator[str]:
    """One line of the totals: GPU time, its share of the recorded time, and the peak of GPU memory."""
    totals = report.totals
    if not (totals.gpu_s or totals.gpu_peak_bytes):
        return
    is_whole = report.query["from_s"] is None and report.query["to_s"] is None
    wall_s = sum(trace.recorded_s or 0.0 for trace in report.traces) if is_whole else 0.0
    facts = [f"{percent(totals.gpu_s or 0.0, wall_s):.0f} % of the time" if wall_s else ""]
    facts += [f"GPU memory {megabytes(totals.gpu_peak_bytes)} at most"]
    yield fit(f"GPU      {seconds(totals.gpu_s or 0.0):>9}  {', '.join(filter(None, facts))}", screen.width, screen)


def gpu_track(points: list[GpuPoint], wall_s: float, screen: Screen) -> Iterator[str]:
    """Utilisation of the GPUs and their memory over time, each as one row of blocks; nothing if they were not used."""
    tracks = {
        "GPU busy": [(each.t_s, each.gpu_percent or 0.0) for each in points],
        "GPU memory": [(each.t_s, float(each.gpu_memory_bytes or 0)) for each in points],
    }
    width = min(screen.width - 30, 100)
    for name, track in tracks.items():
        top = max((value for _, value in track), default=0.0)
        if top > 0:
            most = f"{top:.0f} % at most" if name == "GPU busy" else f"{megabytes(top)} at most"
            shown = sparkline(screen, track, track[0][0], max(wall_s, track[-1][0]), width)
            yield f"{name:>10} {screen.paint(shown, 'memory')}  {most}"
    if points:
        yield ""


# ---- calls of CUDA libraries ----


def device_facts(report: Report, screen: Screen) -> Iterator[str]:
    """One line of sums; nothing if no call of a CUDA library was recorded."""
    totals = report.totals
    if totals.device_copy_bytes is None:
        return
    copies = totals.device_copies
    facts = [
        (copies.h2d_bytes, f"{megabytes(copies.h2d_bytes)} to"),
        (copies.d2h_bytes, f"{megabytes(copies.d2h_bytes)} from"),
        (copies.d2d_bytes, f"{megabytes(copies.d2d_bytes)} within"),
        (_other(copies, within=False), f"{megabytes(_other(copies, within=False))} elsewhere"),
        (totals.device_sync_s, f"{seconds(totals.device_sync_s)} waiting"),
    ]
    text = ", ".join(text for value, text in facts if value)
    yield fit(
        f"Devices  {megabytes(totals.device_peak_bytes or 0):>9}  peak; copies and waits: {text}", screen.width, screen
    )


def device_table(report: Report, screen: Screen) -> Iterator[str]:
    """The lines that copied or held most, after an empty line; nothing if no call was recorded."""
    totals = report.totals
    asked = [
        line
        for line in report.lines
        if line.file is not None
        and (
            reaches(line.device_copy_bytes, totals.device_copy_bytes)
            or reaches(line.device_live_at_peak_bytes, totals.device_peak_bytes)
            or reaches(line.device_sync_s, totals.device_sync_s)
        )
    ]
    if not asked:
        return
    yield ""
    yield screen.paint("Devices", "bold") + fit(
        "  copies, memory at its peak, waits for a device", screen.width - 7, screen
    )
    yield screen.paint(" ".join(f"{title:>11}" for title in _TITLES) + "  where", "dim")
    for line in sorted(asked, key=_weight)[:_MOST_LINES]:
        yield _row(line, screen)


def _weight(line: Line) -> tuple[float, ...]:
    return -(line.device_copy_bytes or 0) - (line.device_live_at_peak_bytes or 0), -(line.device_sync_s or 0.0)


def _other(copies: DeviceCopies, within: bool = True) -> int:
    parts = (copies.d2d_bytes if within else 0, copies.h2h_bytes, copies.unified_bytes)
    return sum(part or 0 for part in parts)


def _row(line: Line, screen: Screen) -> str:
    copies = line.device_copies
    sizes = (copies.h2d_bytes, copies.d2h_bytes, _other(copies), line.device_live_at_peak_bytes)
    texts = [*(megabytes(size or None) for size in sizes), seconds(line.device_sync_s or None)]
    columns = " ".join(f"{text:>11}" for text in texts)
    return f"{columns}  {place(line.file or '', line.line, (line.source or '').strip(), len(columns) + 1, screen)}"
