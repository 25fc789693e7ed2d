"""Text for a terminal or a pipe: widths, colours, bars and sparklines. Text of a trace may contain anything: see
:func:`clean`."""

from __future__ import annotations

import bisect
import itertools
import os
import unicodedata
from collections.abc import Sequence
from typing import IO

from ...formats.dataclass import dataclass
from ...formats.units import counted

_STYLES = {
    "python": "94",
    "native": "93",
    "unclassified": "90",
    "system": "91",
    "bold": "1",
    "dim": "2",
    "error": "1;91",
    "loss": "93",
    "info": "96",
    "memory": "92",
}
#: The classes of CPU time, in the order of :func:`cpu_parts`: words for people, and the names of fields and styles.
CLASS_WORDS = ("Python", "native", "unclassified", "system")
_CLASSES = tuple(map(str.lower, CLASS_WORDS))
#: Glyphs of these classes in a bar, with and without Unicode. They differ without colour too.
_BAR = {True: "█▓?░", False: "#=?-"}
#: Stands for a bar that would be shorter than half a column.
_TRACE = {True: "▏", False: "."}
_SPARKS = {True: "▁▂▃▄▅▆▇█", False: "_.-=+*%#"}
#: Width if the output is not a terminal and $COLUMNS is not set.
_PIPE_WIDTH = 120


@dataclass(frozen=True)
class Screen:
    """Where the text goes: width in columns; whether it shows colours and Unicode, and cuts lines to the width."""

    width: int = _PIPE_WIDTH
    has_color: bool = False
    has_unicode: bool = True
    is_cut: bool = False

    def paint(self, text: str, style: str) -> str:
        """``text`` in one of the styles, if the screen has colours."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.has_color and text.strip() else text

    def glyph(self, fancy: str, plain: str) -> str:
        """``fancy`` if the output can show it, else ``plain``."""
        return fancy if self.has_unicode else plain


def screen_for(stream: IO[str], color: str = "auto") -> Screen:
    """The screen of ``stream``. ``color``: auto, always or never."""
    is_terminal = stream.isatty()
    has_unicode = (getattr(stream, "encoding", None) or "").lower().replace("-", "").startswith("utf")
    import shutil  # here, because scalene-record needs no screen

    width = shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns
    return Screen(max(width, 60), _has_color(color, is_terminal), has_unicode, is_terminal)


def _has_color(color: str, is_terminal: bool) -> bool:
    """With auto, only on a terminal and not if TERM=dumb. NO_COLOR, then FORCE_COLOR, decide if they are not empty."""
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (is_terminal and os.environ.get("TERM") != "dumb")


def clean(text: str) -> str:
    """``text`` with escapes for characters that could move the cursor, change colours, break or reorder the line."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_clean_character(each) for each in text.replace("\t", "    "))


def clean_name(text: str) -> str:
    """``text``, cleaned as a name in a table: a tab would look like a gap between two columns, and a blank like nothing."""
    return clean(text.replace("\t", "\\t")) if text.strip() or not text else f"'{clean(text)}'"


def clean_lines(text: str) -> str:
    """``text``, cleaned except for its line feeds and tabs. For files, where a text may have several lines."""
    return "\n".join("\t".join(map(clean, line.split("\t"))) for line in text.split("\n"))


def _clean_character(character: str) -> str:
    if character.isprintable():
        return character
    if unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape").decode("ascii")


def not_shown(number: int, one: str, many: str) -> str:
    """The beginning of a sentence about what a table leaves out."""
    return f"{counted(number, one, many)} {'is' if number == 1 else 'are'} not shown"


def cells(text: str) -> int:
    """Width of cleaned ``text`` in columns."""
    if text.isascii():
        return len(text)
    return sum(_cells_of(character) for character in text)


def _cells_of(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int, ellipsis: str = "…") -> str:
    """``text``, cut to at most ``width`` columns."""
    if cells(text) <= width:
        return text
    taken, used = [], cells(ellipsis)
    for character in text:
        used += _cells_of(character)
        if used > width:
            break
        taken.append(character)
    return "".join(taken) + ellipsis if width > 0 else ""


def cut_left(text: str, width: int, ellipsis: str = "…") -> str:
    """``text``, cut to its last ``width`` columns. For paths, whose end tells more than their start."""
    return text if cells(text) <= width else cut(text[::-1], width, ellipsis)[::-1]


def fit(text: str, width: int, screen: Screen) -> str:
    """``text``, cut to ``width`` columns if the screen cuts lines."""
    return cut(text, max(width, 0), screen.glyph("…", "~")) if screen.is_cut else text


def fit_left(text: str, width: int, screen: Screen) -> str:
    """``text``, cut to its last ``width`` columns if the screen cuts lines."""
    return cut_left(text, max(width, 0), screen.glyph("…", "~")) if screen.is_cut else text


def pad(text: str, width: int) -> str:
    """``text``, then blanks up to ``width`` columns."""
    return text + " " * (width - cells(text))


def cpu_parts(row: object) -> tuple[float, ...]:
    """The classes of a row's CPU time, for :func:`bar`; 0 = none, or not recorded."""
    return tuple(getattr(row, f"{name}_s") or 0.0 for name in _CLASSES)


def bar(screen: Screen, parts: Sequence[float], whole: float, width: int) -> str:
    """Python, native, unclassified and system time as one bar. A bar of ``width`` columns stands for ``whole``."""
    lengths = _bar_lengths(parts, whole, width)
    if not any(lengths):
        return (_TRACE[screen.has_unicode] if sum(parts) > 0 else "").ljust(width)
    glyphs = _BAR[screen.has_unicode]
    painted = zip(lengths, glyphs, _CLASSES, strict=True)
    text = "".join(screen.paint(glyph * length, style) for length, glyph, style in painted)
    return text + " " * (width - sum(lengths))


def _bar_lengths(parts: Sequence[float], whole: float, width: int) -> list[int]:
    """Columns for each part; the largest remainders are rounded up."""
    total = sum(parts)
    if whole <= 0 or total <= 0:
        return [0] * len(parts)
    columns = min(width, round(width * total / whole))
    exact = [columns * part / total for part in parts]
    lengths = [int(each) for each in exact]
    by_remainder = sorted(range(len(parts)), key=lambda index: lengths[index] - exact[index])
    for index in by_remainder[: columns - sum(lengths)]:
        lengths[index] += 1
    return lengths


def sparkline(screen: Screen, points: Sequence[Sequence[float]], start_s: float, end_s: float, width: int) -> str:
    """Bytes over time (points [s, bytes], joined by straight lines) in ``width`` columns, each with the extreme value of
    its part of the time."""
    if not points or end_s <= start_s or width == 0:
        return " " * width
    extremes = resample(points, start_s, end_s, width)
    low, high = min(0.0, *extremes), max(0.0, *extremes)
    glyphs = _SPARKS[screen.has_unicode]
    if high <= low:
        return glyphs[0] * width
    return "".join(glyphs[min(len(glyphs) - 1, int((value - low) / (high - low) * len(glyphs)))] for value in extremes)


def resample(points: Sequence[Sequence[float]], start_s: float, end_s: float, width: int) -> list[float]:
    """The value furthest from zero in each of ``width`` equal parts of the time from start_s to end_s."""
    edges = [start_s + (end_s - start_s) * column / width for column in range(width + 1)]
    found = [
        [_value_at(points, left), _value_at(points, right - 2e-9)]  # just before: a step belongs to the next part
        for left, right in itertools.pairwise(edges)
    ]
    for t_s, value in points:
        found[max(0, min(width - 1, int((t_s - start_s) / (end_s - start_s) * width)))].append(value)
    return [max(values, key=abs) for values in found]


def _value_at(points: Sequence[Sequence[float]], t_s: float) -> float:
    """The value at ``t_s`` between the neighbouring points; 0 before the first point, the last value after the last."""
    index = bisect.bisect_right(points, t_s, key=lambda point: point[0])
    if index == 0:
        return 0.0
    (before_s, before), (after_s, after) = points[index - 1], points[min(index, len(points) - 1)]
    return before + (after - before) * (t_s - before_s) / (after_s - before_s) if after_s > before_s else before
