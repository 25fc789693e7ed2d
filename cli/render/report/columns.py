"""The columns beside the source: which ones there are, and which of them a narrow screen leaves out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ....analyze.results.estimates import at_most
from ....analyze.results.report import Line, Report
from ....analyze.results.trend import GROWING, SAWTOOTH, SPIKE
from ....formats.units import megabytes, per_second, percent, seconds
from ..gpu import gpu_columns
from ..table import align_right, estimated
from ..text import Screen, bar, cpu_parts, pad, sparkline

#: Width of a line number, and of the gap before the source.
LINE, GAP = 6, 2
#: The source gets as many characters at least, if it has them.
LEAST_SOURCE = 40
#: What is left out, or made narrower, until the source has its characters: first what the totals or other tables say too.
_STEPS = (
    ("shape", 0),
    ("split", 0),
    ("bar", 10),
    ("trend", 7),
    ("py", 0),
    ("copied", 0),
    ("leaks", 0),
    ("allocated", 0),
    ("error", 0),
    ("GPU mem", 0),
    ("at peak", 0),
    ("trend", 0),
    ("bar", 6),
    ("at end", 0),
    ("growth", 0),
    ("wait", 0),
    ("GPU %", 0),
    ("bar", 0),
)
#: Trends that are named beside their sparkline. A flat one needs no name.
_NAMED = (GROWING, SAWTOOTH, SPIKE)


@dataclass(frozen=True)
class Column:
    """A column. ``text`` makes the cell of a line, in the given width; "" = the line has no such figure."""

    name: str
    width: int
    text: Callable[[Line, int], str]
    title: str
    is_left: bool = False
    style: str = ""

    def head(self) -> str:
        """The title, as wide as the column."""
        return pad(self.title, self.width) if self.is_left else align_right(self.title, self.width)

    def cell(self, line: Line | None, screen: Screen) -> str:
        """The cell of a line (None: a neighbour without figures), as wide as the column."""
        text = self.text(line, self.width) if line is not None else ""
        if self.is_left:
            return screen.paint(text, self.style) if text and self.style else text or " " * self.width
        style = self.style if text.strip() else ""
        return screen.paint(align_right(text, self.width), style) if style else align_right(text, self.width)


def columns_for(report: Report, shown: Sequence[Line], longest_source: int, screen: Screen) -> list[Column]:
    """The columns in which a shown line has a figure, without those that do not fit beside the source."""
    columns = [
        each for each in _all(report, shown, screen) if any(each.text(line, each.width).strip() for line in shown)
    ]
    room = min(LEAST_SOURCE, longest_source)
    for name, width in _STEPS:
        if screen.width - used(columns) >= room:
            break
        narrower = [replace(each, width=min(width, each.width)) if each.name == name else each for each in columns]
        columns = [each for each in narrower if each.width]
        if name == "error" and any(each.name == "CPU %" for each in columns):
            columns = [replace(each, text=_marked_share(report)) if each.name == "CPU %" else each for each in columns]
    return columns


def used(columns: Sequence[Column]) -> int:
    """The width of line number and columns, with the gaps."""
    return LINE + sum(1 + each.width for each in columns) + GAP


def _all(report: Report, shown: Sequence[Line], screen: Screen) -> Iterator[Column]:
    """Every column that the recording has, in the order of the table, as wide as a wide screen shows it."""
    totals, width = report.totals, screen.width
    longest_s = max((line.cpu_s or 0.0 for line in shown), default=0.0)
    bar_width, trend = (24, 16) if width >= 150 else (16, 12) if width >= 110 else (10, 7)
    if totals.cpu_s is not None:
        yield Column("CPU %", 6, _share(report), "CPU %")
        yield Column("error", 5, lambda line, _: _error(line, screen), "error", style="dim")
        yield Column("bar", bar_width, lambda line, width: _bar(line, longest_s, width, screen), "", is_left=True)
        if width >= 150:
            is_open = bool(totals.unclassified_s)
            titles = f" Python native{' unclassified' * is_open} system"
            yield Column("split", len(titles), lambda line, _: _split(line, report, is_open), titles)
    yield Column("wait", 8, lambda line, _: seconds(line.wait_s) if line.wait_s else "", "wait")
    if totals.gpu_s or totals.gpu_peak_bytes:
        yield Column("GPU %", 6, lambda line, _: gpu_columns(line, (6, 8))[0].strip(), "GPU %")
        yield Column("GPU mem", 8, lambda line, _: gpu_columns(line, (6, 8))[1].strip(), "GPU mem")
    yield from _memory(report)
    yield Column("trend", trend, lambda line, width: _trend(line, report, width, screen), "trend", True, "memory")
    if width >= 150:
        yield Column("shape", 8, lambda line, _: line.trend_class if line.trend_class in _NAMED else "", "", True)


def _memory(report: Report) -> Iterator[Column]:
    if report.totals.alloc_bytes is None:
        yield Column("growth", 9, lambda line, _: megabytes(line.growth_bytes) if line.trend else "", "growth")
    else:
        yield Column("at end", 8, lambda line, _: held(line, report), "at end")
        yield Column("at peak", 8, lambda line, _: at_peak(line, report), "at peak")
        yield Column("allocated", 9, lambda line, _: allocated(line, report), "allocated")
    yield Column(
        "copied", 9, lambda line, _: per_second(line.copy_bytes_per_s) if line.copy_bytes_per_s else "", "copied"
    )
    yield Column(
        "leaks", 9, lambda line, _: per_second(line.leak_bytes_per_s) if line.leak_bytes_per_s else "", "leaks"
    )
    if report.totals.alloc_bytes is not None:
        yield Column("py", 4, lambda line, _: _python_share(line), "py")


def _python_share(line: Line) -> str:
    return f"{100 * line.python_alloc_fraction:.0f}%" if line.python_alloc_fraction is not None else ""


def _share(report: Report) -> Callable[[Line, int], str]:
    return lambda line, _: f"{percent(line.cpu_s, report.totals.cpu_s):.1f}" if line.cpu_s else ""


def _marked_share(report: Report) -> Callable[[Line, int], str]:
    """The share, with a mark if it is uncertain: where there is no column for its error."""
    return lambda line, _: f"{uncertain(line)}{_share(report)(line, 0)}" if line.cpu_s else ""


def uncertain(figures: Line) -> str:
    """A mark for a share whose standard error is more than a quarter of it."""
    return "~" if 4 * (figures.cpu_error_s or 0.0) > (figures.cpu_s or 0.0) else ""


def _error(line: Line, screen: Screen) -> str:
    if not line.cpu_s:
        return ""
    error = line.cpu_percent_error or 0.0
    return screen.glyph("±", "~") + (f"{error:.1f}" if error < 99.95 else f"{min(error, 999):.0f}")


def _bar(line: Line, longest_s: float, width: int, screen: Screen) -> str:
    return bar(screen, cpu_parts(line), longest_s, width) if line.cpu_s else ""


def _split(line: Line, report: Report, is_open: bool) -> str:
    """The share of each class; ``is_open``: unclassified time, which is rare, has a column too."""
    shares = [f"{percent(part, report.totals.cpu_s):7.1f}" for part in cpu_parts(line)] if line.cpu_s else []
    shares[2:3] = [f"{share:>13}" for share in shares[2:3] if is_open]
    return "".join(shares)


def _trend(line: Line, report: Report, width: int, screen: Screen) -> str:
    return sparkline(screen, line.trend, *time_range(report), width) if line.trend else ""


def held(figures: Line, report: Report) -> str:
    """What it had allocated and was alive at the end: an estimate, not above that of the whole program."""
    size = at_most(figures.live_at_end_bytes or 0, report.totals.live_at_end_bytes) or None
    return estimated(size, figures.live_at_end_error_bytes, figures.live_unseen_bytes)


def at_peak(figures: Line, report: Report) -> str:
    """What it had allocated and was alive at the peak: an estimate, not above the peak, which is counted. Of several traces,
    only the highest peak is known, which says nothing about a sum over all of them."""
    most = report.totals.peak_bytes if len(report.traces) == 1 else None
    size = at_most(figures.live_at_peak_bytes or 0, most) or None
    return estimated(size, figures.live_at_peak_error_bytes, figures.live_unseen_bytes)


def allocated(figures: Line, report: Report) -> str:
    """All that it allocated."""
    return estimated(figures.alloc_bytes or None, figures.alloc_error_bytes, figures.alloc_unseen_bytes)


def time_range(report: Report) -> tuple[float, float]:
    """Start and end of what the sparklines show, in seconds from the start of the recording."""
    points = report.timeline or []
    end_s = max([trace.wall_s or 0.0 for trace in report.traces] + [point[0] for point in points], default=0.0)
    return report.query["from_s"] or 0.0, report.query["to_s"] or end_s
