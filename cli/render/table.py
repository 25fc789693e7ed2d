"""Tables and paragraphs: columns as wide as they need, text wrapped or cut to the screen."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from .text import Screen, cells, clean, fit, fit_left, pad


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


def align_right(text: str, width: int) -> str:
    """``text`` after blanks that fill it up to ``width`` columns."""
    return " " * (width - cells(text)) + text


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """``text`` in lines of at most ``width`` columns, the later ones indented; long words are not broken."""
    lines: list[str] = []
    current = ""
    for word in text.split(" "):
        if current and cells(current) + 1 + cells(word) > width:
            lines.append(current)
            current = indent + word
        else:
            current = f"{current} {word}" if current else word
    return [*lines, current]


def place(file: str, line: int | None, text: str, used: int, screen: Screen) -> str:
    """``file:line``, then a text, in the room that ``used`` columns leave. A long path loses its start."""
    place, rest = f"{clean(file)}:{line}", clean(text)
    room = screen.width - used - 1
    place = fit_left(place, max(room * 3 // 5, room - cells(rest) - 2), screen)
    return f"{place}  {fit(rest, room - cells(place) - 2, screen)}".rstrip()
