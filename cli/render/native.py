"""Native code as text: the libraries with their functions, and the note beside a line that works in one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from ...analyze.results.base import Table
from ...analyze.results.libraries import LibraryRow
from ...analyze.results.report import Line
from ...formats.units import counted, percent, seconds
from .recording import trace_lines
from .table import wrap
from .text import Screen, bar, cells, clean, fit, fit_left, not_shown

#: Least share of the native time that a shown library or function has, in percent; most functions of a library.
_LEAST_LIBRARY, _MOST_FUNCTIONS = 1.0, 8
_OUTSIDE = "(code generated at run time)"
_BAR = 12
#: Names as compilers of C++ and Rust write them.
_MANGLED = re.compile(r"_Z[A-Z0-9]|_R[A-Z]")

#: The note names a library from this share of the line's CPU time on, and cores from this share of its native time on.
_LEAST_NATIVE, _LEAST_PARALLEL = 0.25, 0.1
_COLLECTION = "garbage collection"

#: The source keeps this many columns beside a note, if it has them.
_LEAST_SOURCE = 40


def notes_legend(notes: Sequence[str], screen: Screen) -> list[str]:
    """The explanation of the parts that these notes have; empty without notes."""
    arrow, times = screen.glyph("←", "<-"), screen.glyph("×", "x")
    shown = [note for note in notes if note]
    texts = []
    if any(note.strip().split(" ")[1][:1] != times and "() " not in note and _COLLECTION not in note for note in shown):
        texts.append(f"{arrow} library: where most of the line's native time was spent, and its share of it")
    if any("() " in note for note in shown):
        texts.append(
            f"{arrow} function(): the native function that the line called, and its share of the line's CPU time"
        )
    if any(_COLLECTION in note for note in shown):
        texts.append(f"{arrow} {_COLLECTION}: its share of the line's CPU time")
    if any(f" {times}" in note for note in shown):
        texts.append(
            f"{times}3.8: CPU seconds per second of the calling thread, where a library used threads of its own"
        )
    return [f"{'; '.join(texts)}."] if texts else []


def libraries_text(table: Table, screen: Screen) -> Iterator[str]:
    """The libraries with their functions, most native time first, and the lines that they worked for."""
    for trace in table.traces:
        yield from trace_lines(trace, screen)
    yield ""
    rows: list[LibraryRow] = table.rows
    if not rows:
        yield "No native time was recorded."
        return
    yield from wrap(_headline(rows), screen.width)
    yield ""
    titles = f"{'native %':>8} {'':{_BAR}} {'native':>8} {'threads':>8}  library, function, line"
    yield screen.paint(fit(titles, screen.width, screen), "dim")
    if table.query["sort"]:
        yield from (_library_row(row, [row], 100.0, screen, _whole_name(row)) for row in rows)
        yield from _mangled(rows, screen)
        return
    pieces = [list(own) for _, own in groupby(rows, key=lambda row: row.library)]
    shown = [own for own in pieces if sum(row.native_percent for row in own) >= _LEAST_LIBRARY] or pieces[:1]
    longest = max(sum(row.native_percent for row in own) for own in shown)
    for own in shown:
        yield from _piece(own, longest, screen)
    if len(shown) < len(pieces):
        hidden = not_shown(len(pieces) - len(shown), "library under 1 %", "libraries under 1 %")
        yield screen.paint(f"{hidden}; --json lists all of them.", "dim")
    yield from _mangled([row for own in shown for row in _named(own)], screen)


def _named(own: list[LibraryRow]) -> list[LibraryRow]:
    """The functions of a library that are shown."""
    has_functions = len(own) > 1 or own[0].symbol is not None
    return [row for row in own if has_functions and row.native_percent >= _LEAST_LIBRARY][:_MOST_FUNCTIONS]


def _mangled(rows: Sequence[LibraryRow], screen: Screen) -> Iterator[str]:
    """A remark if shown names of C++ or Rust are those of the linker."""
    number = sum(bool(_MANGLED.match(row.symbol or "")) for row in rows)
    if number:
        yield ""
        names = counted(number, "name of C++ or Rust is", "names of C++ or Rust are")
        text = f"{names} as in the file: the recorder could not read {'it' if number == 1 else 'them'}. It needs the extra demangle, and an interpreter that it can start."
        yield from wrap(text, screen.width)


def _headline(rows: Sequence[LibraryRow]) -> str:
    native_s, parallel_s = (sum(getattr(row, name) for row in rows) for name in ("native_s", "parallel_native_s"))
    threads = f", of which {seconds(parallel_s)} in threads that libraries started" if parallel_s else ""
    return f"{seconds(native_s)} of native code{threads}."


def _piece(own: list[LibraryRow], longest: float, screen: Screen) -> Iterator[str]:
    """A library and its functions."""
    yield _library_row(own[0], own, longest, screen, clean(own[0].library or _OUTSIDE), is_title=True)
    for row in _named(own):
        yield _library_row(row, [row], 0.0, screen, "  " + clean(row.symbol or "(no name)"))


def _whole_name(row: LibraryRow) -> str:
    return clean(f"{row.library or _OUTSIDE} {row.symbol or '(no name)'}")


def _library_row(
    most: LibraryRow, rows: list[LibraryRow], longest: float, screen: Screen, name: str, is_title: bool = False
) -> str:
    share, native_s, parallel_s = (
        sum(getattr(row, column) for row in rows) for column in ("native_percent", "native_s", "parallel_native_s")
    )
    shown = bar(screen, (0.0, share, 0.0, 0.0), longest, _BAR) if longest else " " * _BAR
    text = f"{share:8.1f} {shown} {seconds(native_s):>8} {seconds(parallel_s) if parallel_s else '':>8}  "
    room = screen.width - 8 - _BAR - 8 - 8 - 5
    place = "" if len(rows) > 1 or most.file is None else f"  {clean(most.file)}:{most.line}"
    name = fit(name, room, screen)
    if screen.is_cut:
        place = f"  {fit_left(place.strip(), room - cells(name) - 2, screen)}" if room - cells(name) >= 14 else ""
    return (text + (screen.paint(name, "bold") if is_title else name) + screen.paint(place, "dim")).rstrip()


def line_note(line: Line, source: str, room: int, screen: Screen) -> str:
    """The note after ``source`` in ``room`` columns: garbage collection, library or function, and cores; only cores if there is no more room,
    or ""."""
    library, factor = _collection(line) or _main_library(line) or _main_callee(line), _cores(line, screen)
    arrow = screen.glyph("←", "<-")
    for parts in ((library, factor), (factor,)):
        words = " ".join(part for part in parts if part)
        note = f"  {arrow} {words}" if words else ""
        if not screen.is_cut or cells(note) <= room - min(cells(source), max(_LEAST_SOURCE, room * 2 // 3)):
            return note
    return ""


def _collection(line: Line) -> str:
    if not line.cpu_s or not line.gc_s or line.gc_s < _LEAST_NATIVE * line.cpu_s:
        return ""
    return f"{_COLLECTION} {percent(line.gc_s, line.cpu_s):.0f} %"


def _main_library(line: Line) -> str:
    most = line.native_libraries[0] if line.native_libraries else None
    if most is None or most.library is None or most.image != "extension":
        return ""  # for a builtin it is the interpreter or the C library, which explains nothing
    if not line.cpu_s or most.native_s < _LEAST_NATIVE * line.cpu_s:
        return ""
    return f"{clean(most.library)} {percent(most.native_s, line.native_s):.0f} %"


def _main_callee(line: Line) -> str:
    """The function of most time, unless the line runs Python code only: then it is one of the interpreter's own, such as that of
    an addition, which no line calls."""
    most = line.callees[0] if line.callees else None
    if most is None or most.name is None or not line.cpu_s or most.cpu_s < _LEAST_NATIVE * line.cpu_s:
        return ""
    if (line.native_s or 0.0) + (line.system_s or 0.0) < _LEAST_NATIVE * line.cpu_s:
        return ""
    return f"{clean(most.name)}() {percent(most.cpu_s, line.cpu_s):.0f} %"


def _cores(line: Line, screen: Screen) -> str:
    """CPU seconds of the line per second of the threads that called it: "×3.8"; "" where libraries had no threads."""
    own_s = (line.cpu_s or 0.0) - (line.parallel_native_s or 0.0)
    if (
        not line.parallel_native_s
        or line.parallel_native_s < _LEAST_PARALLEL * (line.native_s or 0.0)
        or own_s <= 0
        or not line.cpu_s
    ):
        return ""
    return f"{screen.glyph('×', 'x')}{line.cpu_s / own_s:.1f}"
