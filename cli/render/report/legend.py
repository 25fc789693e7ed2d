"""What the columns and marks of the report mean: only those that are shown, at its end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from ....analyze.results.report import Report
from ....formats.units import size_text
from ..gpu import gpu_legend
from ..native import notes_legend
from ..table import wrap
from ..text import Screen

_UNCLASSIFIED = ", ? unclassified (it is unknown which of these two; the losses say why)"
_MEANINGS = {
    "at end": "at end: memory that the line had allocated and that was alive at the end",
    "at peak": "at peak: the same at the program's peak",
    "allocated": "allocated: all that it allocated, freed or not",
    "growth": "growth: allocated minus freed by the line",
    "copied": "copied: memcpy and memmove per second of the recording",
    "leaks": "leaks: rate of the leak on the line",
    "py": "py: share of its allocations that Python's allocators made",
    "trend": "trend: allocated minus freed by it, over time",
}
#: Columns that hold sizes of memory, and of those the estimated ones.
_SIZES, _ESTIMATES = ("at end", "at peak", "allocated", "growth"), ("at end", "at peak", "allocated")


def legend(
    names: Collection[str], notes: Sequence[str], marks: Collection[str], report: Report, screen: Screen
) -> Iterator[str]:
    """The explanation, after an empty line. ``names``: of the shown columns; ``notes``: those after the source; ``marks``:
    what ~ stands before, "share" or "size"."""
    texts = [*_cpu(names, marks, bool(report.totals.unclassified_s), screen), *notes_legend(notes, screen)]
    if "wait" in names:
        texts.append(
            "wait: how long threads waited there, summed over all threads: in sleep (locks, sockets, sleep), for the disk, runnable"
            " (ready, but without a CPU), for the GIL."
        )
    texts += gpu_legend([name for name in ("GPU %", "GPU mem") if name in names])
    texts += _memory(names, marks, report)
    yield from ([""] if texts else [])
    for line in (line for text in texts for line in wrap(text, screen.width)):
        yield _painted(line, screen)


def _cpu(names: Collection[str], marks: Collection[str], is_open: bool, screen: Screen) -> Iterator[str]:
    """``is_open``: some time is unclassified."""
    if "CPU %" in names:
        text = "CPU % is the share of all CPU time."
        if "bar" in names:
            glyphs = screen.glyph("█▓░", "#=-")
            text += (
                f" Its bar: {glyphs[0]} Python code, {glyphs[1]} native code (builtins and extensions)"
                f"{_UNCLASSIFIED * is_open}, {glyphs[2]} kernel; the busiest line has the longest bar."
            )
        yield text
    if "error" in names:
        yield "error: its standard error, in percent of all CPU time; two of them hold 95 % of true values."
    if "share" in marks:
        yield "~ before a share: its standard error is more than a quarter of it."


def _memory(names: Collection[str], marks: Collection[str], report: Report) -> Iterator[str]:
    meanings = [text for name, text in _MEANINGS.items() if name in names]
    if not meanings:
        return
    text = "; ".join(meanings) + "."
    if any(name in names for name in _SIZES):
        text += " 1 MB is 1,000,000 bytes."
    yield text + _unseen(names, marks, report)


def _unseen(names: Collection[str], marks: Collection[str], report: Report) -> str:
    """What an empty cell about allocations means, and what the mark of estimates does."""
    unseen = min((each.alloc_unseen_bytes or 0 for each in (*report.lines, report.unattributed)), default=0)
    texts = []
    if unseen and any(name in names for name in _ESTIMATES):
        verb = "allocated" if "allocated" in names else "had"
        texts.append(f"lines without a figure {verb} less than {size_text(unseen)} each in 95 % of the cases")
    if "size" in marks:
        texts.append("~ before a size: its standard error is more than a quarter of it")
    return f" Memory is sampled: {'; '.join(texts)}." if texts else ""


def _painted(line: str, screen: Screen) -> str:
    """The glyphs of the bar in their colours."""
    for glyph, style in zip(screen.glyph("█▓░", "#=-"), ("python", "native", "system"), strict=True):
        line = line.replace(f" {glyph} ", f" {screen.paint(glyph, style)} ")
    return line


def marks_in(texts: Iterable[str], kind: str) -> set[str]:
    """``kind``, if one of the cells has the mark of an uncertain figure."""
    return {kind} if any(text.strip().startswith("~") for text in texts) else set()
