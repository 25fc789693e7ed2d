"""Calls of CUDA libraries as text: copies, memory and waits."""

from __future__ import annotations

from collections.abc import Iterator

from ...analyze.report.line_filter import reaches
from ...analyze.results.report import DeviceCopies, Line, Report
from ...formats.units import megabytes, seconds
from .table import place
from .text import Screen, fit

_MOST_LINES = 10
_TITLES = ("to device", "from device", "other", "at peak", "waiting")


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
