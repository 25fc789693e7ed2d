"""Native libraries with their functions, and process trees, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from ...analyze.results.base import Table
from ...analyze.results.libraries import LibraryRow
from ...analyze.results.trace import ProcessInfo
from .report import trace_lines, wrap
from .text import Screen, bar, cells, clean, fit, fit_left, megabytes, seconds

_LEAST_LIBRARY, _MOST_FUNCTIONS = 1.0, 8  #: of what is shown: percent of the native time, functions of a library
_BAR_FROM, _PEAK_FROM = 90, 120  #: widths from which processes have these columns
_OUTSIDE = "(code made while running)"
_BAR = 12


def libraries_text(table: Table, screen: Screen) -> Iterator[str]:
    """The libraries with their functions, most native time first, and the lines that they work for."""
    for trace in table.traces:
        yield from trace_lines(trace, screen)
    yield ""
    rows: list[LibraryRow] = table.rows
    if not rows:
        yield "No native time was sampled."
        return
    yield from wrap(_headline(rows), screen.width)
    yield ""
    titles = f"{'native %':>8} {'':{_BAR}} {'native':>8} {'threads':>8}  library, function, line"
    yield screen.paint(fit(titles, screen.width, screen), "dim")
    if table.query["sort"]:
        yield from (_library_row(row, [row], 100.0, screen, _whole_name(row)) for row in rows)
        return
    pieces = [list(own) for _, own in groupby(rows, key=lambda row: row.library)]
    shown = [own for own in pieces if sum(row.native_percent for row in own) >= _LEAST_LIBRARY] or pieces[:1]
    longest = max(sum(row.native_percent for row in own) for own in shown)
    for own in shown:
        yield from _piece(own, longest, screen)
    if len(shown) < len(pieces):
        yield screen.paint(f"{len(pieces) - len(shown):,} libraries under 1 % are not shown; --json has them.", "dim")


def _headline(rows: Sequence[LibraryRow]) -> str:
    native_s, parallel_s = (sum(getattr(row, name) for row in rows) for name in ("native_s", "parallel_native_s"))
    threads = f", {seconds(parallel_s)} of it in threads that libraries started for lines" if parallel_s else ""
    return f"{seconds(native_s)} of native code{threads}."


def _piece(own: list[LibraryRow], longest: float, screen: Screen) -> Iterator[str]:
    """A library and its functions."""
    yield _library_row(own[0], own, longest, screen, clean(own[0].library or _OUTSIDE), is_title=True)
    has_functions = len(own) > 1 or own[0].symbol is not None
    named = [row for row in own if has_functions and row.native_percent >= _LEAST_LIBRARY]
    for row in named[:_MOST_FUNCTIONS]:
        yield _library_row(row, [row], 0.0, screen, "  " + clean(row.symbol or "(no name)"))


def _whole_name(row: LibraryRow) -> str:
    return clean(f"{row.library or _OUTSIDE} {row.symbol or '(no name)'}")


def _library_row(
    most: LibraryRow, rows: list[LibraryRow], longest: float, screen: Screen, name: str, is_title: bool = False
) -> str:
    share, native_s, parallel_s = (
        sum(getattr(row, column) for row in rows) for column in ("native_percent", "native_s", "parallel_native_s")
    )
    shown = bar(screen, (0.0, share, 0.0), longest, _BAR) if longest else " " * _BAR
    text = f"{share:8.1f} {shown} {seconds(native_s):>8} {seconds(parallel_s) if parallel_s else '':>8}  "
    room = screen.width - 8 - _BAR - 8 - 8 - 5
    place = "" if len(rows) > 1 or most.file is None else f"  {clean(most.file)}:{most.line}"
    name = fit(name, room, screen)
    if screen.is_cut:
        place = f"  {fit_left(place.strip(), room - cells(name) - 2, screen)}" if room - cells(name) >= 14 else ""
    return (text + (screen.paint(name, "bold") if is_title else name) + screen.paint(place, "dim")).rstrip()


def processes_text(table: Table, screen: Screen) -> Iterator[str]:
    """The process tree of each trace."""
    for index, trace in enumerate(table.traces, start=1):
        yield from trace_lines(trace, screen)
        yield ""
        yield from process_table([row for row in table.rows if row.trace == index], screen, table.query["sort"] is None)
        yield ""
    texts = ["The bar is CPU time: Python, native, system."] * (screen.width >= _BAR_FROM)
    texts += ["peak: highest footprint."] * (screen.width >= _PEAK_FROM)
    texts += ["RSS: highest resident set, with what a forked process shares with its parent. exec starts a new row."]
    yield from (screen.paint(line, "dim") for line in wrap(" ".join(texts), screen.width))


def process_table(rows: Sequence[ProcessInfo], screen: Screen, is_tree: bool = True) -> Iterator[str]:
    """Two or three facts on each process on a narrow screen, all on a wide one; commands indented by their depth."""
    columns = _columns(rows, screen)
    widths = [max(cells(text) for text in (title, *texts)) for title, texts in columns]
    titles = (_right(title, width) for (title, _), width in zip(columns, widths, strict=True))
    yield screen.paint("  ".join(titles) + "  command", "dim")
    room = screen.width - sum(widths) - 2 * len(widths)
    for number, row in enumerate(rows):
        cells_of_row = (_right(texts[number], width) for (_, texts), width in zip(columns, widths, strict=True))
        indent = "  " * min(row.depth, 12) * is_tree
        yield "  ".join(cells_of_row) + "  " + fit(indent + _command(row), room, screen)


def _right(text: str, width: int) -> str:
    return " " * (width - cells(text)) + text


def _columns(rows: Sequence[ProcessInfo], screen: Screen) -> list[tuple[str, list[str]]]:
    """Titles and texts of the columns that fit the screen."""
    longest_s = max((row.cpu_s for row in rows), default=0.0)
    columns = [
        (0, "id", [str(row.process) for row in rows]),
        (0, "pid", ["" if row.pid is None else str(row.pid) for row in rows]),
        (90, "parent", ["" if row.parent is None else str(row.parent) for row in rows]),
        (0, "by", [clean(row.cause or "") for row in rows]),
        (110, "Python", [clean(row.python or "") for row in rows]),
        (100, "start", [seconds(row.start_s) for row in rows]),
        (100, "end", [seconds(row.end_s) for row in rows]),
        (0, "status", ["exec" if row.end == "exec" else _number(row.exit_status) for row in rows]),
        (120, "threads", [f"{row.threads:,}" for row in rows]),
        (160, "ticks", [f"{row.ticks:,}" for row in rows]),
        (0, "CPU", [seconds(row.cpu_s) for row in rows]),
        (_BAR_FROM, "", [_split(row, longest_s, screen) for row in rows]),
        (140, "growth", [megabytes(row.growth_bytes) for row in rows]),
        (_PEAK_FROM, "peak", [megabytes(row.peak_bytes) for row in rows]),
        (0, "RSS", [megabytes(row.peak_rss_bytes) for row in rows]),
    ]
    return [(title, texts) for least, title, texts in columns if screen.width >= least and any(texts)]


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _split(row: ProcessInfo, longest_s: float, screen: Screen) -> str:
    if row.python_s is None:
        return ""
    parts = row.python_s, row.native_s or 0.0, row.system_s or 0.0
    return bar(replace(screen, has_color=False), parts, longest_s, 10)


def _command(row: ProcessInfo) -> str:
    """The command, its program by its last name alone."""
    words = row.command or ([row.executable] if row.executable else [])
    return clean(" ".join([words[0].rpartition("/")[2], *words[1:]])) if words else "(not known)"
