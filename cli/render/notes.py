"""What is said of native code beside a line: the library that it works in, and how many cores that keeps busy."""

from __future__ import annotations

from ...analyze.results.report import Line
from .text import Screen, cells, clean, percent

#: A library is named from this share of the line's CPU time on, cores from this share of its native time.
_LEAST_SHARE, _LEAST_PARALLEL = 0.25, 0.1

NOTES_LEGEND = (
    "{arrow} library: where most of the line's native time went, in percent of it; {times}3.8: CPU seconds for each one of the"
    " calling thread, where a library had threads of its own."
)


def line_note(line: Line, source: str, room: int, screen: Screen) -> str:
    """What to say behind ``source`` in ``room`` columns: library and cores, cores alone where that is all there is room
    for, or ""."""
    library, factor = _main_library(line), _cores(line, screen)
    arrow = screen.glyph("←", "<-")
    for parts in ((library, factor), (factor,)):
        words = " ".join(part for part in parts if part)
        note = f"  {arrow} {words}" if words else ""
        if not screen.is_cut or cells(note) <= max(room // 3, room - cells(source)):
            return note
    return ""


def _main_library(line: Line) -> str:
    most = line.native_libraries[0] if line.native_libraries else None
    if most is None or most.library is None or most.image != "extension":
        return ""  # that a builtin is the interpreter's, or the C library's, tells nobody anything
    if not line.cpu_s or most.native_s < _LEAST_SHARE * line.cpu_s:
        return ""
    return f"{clean(most.library)} {percent(most.native_s, line.native_s):.0f} %"


def _cores(line: Line, screen: Screen) -> str:
    """CPU seconds of the line for each one of the threads that called it: "×3.8"; "" where libraries had no threads."""
    own_s = (line.cpu_s or 0.0) - (line.parallel_native_s or 0.0)
    if (line.parallel_native_s or 0.0) < _LEAST_PARALLEL * (line.native_s or 0.0) or own_s <= 0 or not line.cpu_s:
        return ""
    return f"{screen.glyph('×', 'x')}{line.cpu_s / own_s:.1f}"
