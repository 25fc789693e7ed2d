"""The source around a row, with what each line costs."""

from __future__ import annotations

from collections.abc import Iterator

from ..render.text import Screen, clean, cut
from .reading import Reading
from .tables import of_core

_AROUND = 6


def source_lines(reading: Reading, file: str, line: int, screen: Screen) -> Iterator[str]:
    """The file's name, then the lines around ``line``, each with its CPU time in percent of the window."""
    texts = reading.report.sources.get(file, [])
    yield screen.paint(cut(f"{clean(file)}:{line}", screen.width), "bold")
    if not 0 < line <= len(texts):
        yield "The trace does not have this source."
        return
    costs = {each.line: of_core(each.cpu_s, reading.window_s) for each in reading.report.lines if each.file == file}
    for number in range(max(line - _AROUND, 1), min(line + _AROUND, len(texts)) + 1):
        cost = costs.get(number)
        mark = ">" if number == line else " "
        text = f"{mark}{number:6} {f'{cost:.1f}' if cost else '':>7}  {clean(texts[number - 1])}"
        shown = cut(text, screen.width)
        yield screen.paint(shown, "bold") if number == line else shown
