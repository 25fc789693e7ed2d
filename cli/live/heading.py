"""The lines above the table: what is recorded, for how long, and what it costs as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from ...analyze.results.report import WAIT_WORDS
from ...analyze.results.trace import TraceInfo
from ...formats.units import counted, megabytes, percent, seconds
from ..render.recording import command_line
from ..render.report.columns import time_range
from ..render.report.remarks import outside_cpu
from ..render.table import joined, wrap
from ..render.text import CLASS_WORDS, Screen, clean, cpu_parts, cut, sparkline
from .following import ENDED
from .reading import Reading
from .tables import of_core

_LEAST_SPARKS, _MOST_SPARKS = 10, 60


@dataclass(frozen=True)
class Shown:
    """How the table is asked for. ``sort``: the title of a column; ``text``: the filter."""

    sort: str
    is_reversed: bool = False
    text: str = ""
    is_frozen: bool = False


def heading(reading: Reading, asked: Shown, screen: Screen) -> list[str]:
    """What is recorded; CPU time and waits in the window; memory over time; losses, where there are any."""
    report = reading.report
    lines = [screen.paint(cut(command_line(report.traces[0]), screen.width), "bold")]
    separator = screen.glyph(" · ", " | ")
    lines += joined(list(_facts(reading, asked)), separator, screen.width)
    lines += joined(list(_cpu(reading)), separator, screen.width)
    lines += [cut(each, screen.width) for each in [outside_cpu(report)] if each]
    lines += _memory(reading, screen)
    lines += [screen.paint(line, "error") for line in wrap(clean(reading.status.note), screen.width) if line]
    return [*lines, *_losses(report.traces[0], screen)]


def _facts(reading: Reading, asked: Shown) -> Iterator[str]:
    status, trace = reading.status, reading.report.traces[0]
    yield f"{status.state}{' (display frozen)' if asked.is_frozen else ''}"
    yield f"pid {status.pid}" if status.state != ENDED and status.pid else clean(PurePath(status.trace).name)
    yield f"{seconds(trace.wall_s)} recorded"
    since = "since the start"
    yield f"last {seconds(reading.window_s)}" if reading.report.query["from_s"] is not None else since
    if reading.of_rows is not reading.report:
        yield f"table: {since}"
    yield (
        counted(trace.processes, "process", "processes")
        + ", "
        + counted(trace.threads, "thread", "threads")
        + " so far"
    )
    yield f"sorted by {asked.sort}{', reversed' if asked.is_reversed else ''}"
    if asked.text:
        yield f"filter {clean(asked.text)!r}"


def _cpu(reading: Reading) -> Iterator[str]:
    totals = reading.report.totals
    whole = of_core(totals.cpu_s, reading.window_s)
    if whole is None:
        yield "CPU not recorded" if totals.cpu_s is None else "CPU 0 %"
    else:
        parts = zip(CLASS_WORDS, cpu_parts(totals), strict=True)
        shares = [f"{name} {percent(part, totals.cpu_s):.0f}" for name, part in parts if part]
        yield f"CPU {whole:,.0f} %{' of a processor: ' if shares else ''}{', '.join(shares)}"
    named = {word: getattr(totals.waits, f"{name}_s") for name, word in WAIT_WORDS.items()}
    found = [f"{word} {of_core(time_s, reading.window_s) or 0:,.0f} %" for word, time_s in named.items() if time_s]
    if found:
        yield f"waits of all threads: {', '.join(found)}"


def _memory(reading: Reading, screen: Screen) -> Iterator[str]:
    points, totals = reading.report.timeline, reading.report.totals
    if not points:
        return
    text = f"memory {megabytes(points[-1][1])}, peak {megabytes(totals.peak_bytes)}"
    room = min(screen.width - len(text) - 2, _MOST_SPARKS)
    sparks = sparkline(screen, points, *time_range(reading.report), room) if room >= _LEAST_SPARKS else ""
    yield f"{text}  {screen.paint(sparks, 'memory')}".rstrip()


def _losses(trace: TraceInfo, screen: Screen) -> Iterator[str]:
    found = [loss for loss in trace.losses if loss.severity != "info"]
    if found:
        more = f" ({len(found) - 1} more: scalene-analyze info)" if found[1:] else ""
        first = cut(f"{clean(found[0].severity)}: {clean(found[0].text)}", screen.width - len(more))
        yield screen.paint(first + more, "error" if found[0].severity == "error" else "loss")
