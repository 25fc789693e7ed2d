"""Tables and paragraphs: columns as wide as they need, text wrapped or cut to the screen."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from ...formats.units import megabytes
from .text import Screen, cells, clean, fit, fit_left, pad

#: Where a line may end: not between a number and its unit.
_BREAK = re.compile(r"(?<!\d) | (?!(?:%|[nµu]?s|ms|min|h|B|[KMGT]i?B|bytes|GPUs?|CPUs?)(?:/s)?(?![\w%]))")


def columns_text(
    names: Sequence[str], rows: Sequence[Sequence[str]], screen: Screen, right: Collection[int]
) -> Iterator[str]:
    """A table: the names, then the rows. ``right`` lists the columns that hold numbers and are aligned to the right."""
    widths = [max(map(cells, column)) for column in zip(names, *rows, strict=True)]
    for index, row in enumerate([names, *rows]):
        texts = [
            align_right(text, width) if column in right else pad(text, width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        line = fit("  ".join(texts).rstrip(), screen.width, screen)
        yield screen.paint(line, "dim") if index == 0 else line


def fitting(names: Sequence[str], rows: Sequence[Sequence[str]], screen: Screen, spare: Sequence[str]) -> list[int]:
    """The columns that a table has on the screen. Where lines are cut, those of ``spare`` are left out, the first ones first,
    until the others fit."""
    widths = [max(map(cells, column)) for column in zip(names, *rows, strict=True)]
    kept = list(range(len(names)))
    for name in spare if screen.is_cut else ():
        if sum(widths[place] + 2 for place in kept) - 2 <= screen.width:
            break
        kept = [place for place in kept if names[place] != name]
    return kept


def align_right(text: str, width: int) -> str:
    """``text`` after blanks that fill it up to ``width`` columns."""
    return " " * (width - cells(text)) + text


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """``text`` in lines of at most ``width`` columns, the later ones indented; long words are not broken, and a number keeps
    its unit."""
    lines: list[str] = []
    current = ""
    for word in _BREAK.split(text):
        if current and cells(current) + 1 + cells(word) > width:
            lines.append(current)
            current = indent + word
        else:
            current = f"{current} {word}" if current else word
    return [*lines, current]


def joined(facts: Sequence[str], separator: str, width: int) -> list[str]:
    """``facts`` with ``separator`` between them, in lines of at most ``width`` columns; no line ends within a fact."""
    lines: list[str] = []
    for fact in facts:
        if lines and cells(lines[-1] + separator + fact) + len(separator.rstrip()) <= width:
            lines[-1] += separator + fact
        else:
            lines[-1:] = [*(line + separator.rstrip() for line in lines[-1:]), fact]
    return lines


def place(file: str, line: int | None, text: str, used: int, screen: Screen) -> str:
    """``file:line``, then a text, in the room that ``used`` columns leave. A long path loses its start."""
    place, rest = f"{clean(file)}:{line}", clean(text)
    room = screen.width - used - 1
    place = fit_left(place, max(room * 3 // 5, room - cells(rest) - 2), screen)
    return f"{place}  {fit(rest, room - cells(place) - 2, screen)}".rstrip()


#: What the marks of estimates mean.
MARKS = {
    "<": "<: no sample, so less than this in 95 % of the cases",
    "~": "~: its standard error is more than a quarter of it",
}


def estimated(size_bytes: float | None, error_bytes: float | None, unseen_bytes: float | None) -> str:
    """A size in MB with its mark. ``unseen_bytes``: what may be there without any sample; 0 or None = nothing."""
    if size_bytes is None:
        return ""
    if not size_bytes and unseen_bytes:
        return f"<{megabytes(max(unseen_bytes, 1e5))}"
    return ("~" if 4 * (error_bytes or 0) > size_bytes else "") + megabytes(size_bytes)
