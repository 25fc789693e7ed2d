"""Native time by library and by function of the library."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from ..results.base import Table, sorted_rows
from ..results.libraries import CalleeTime, LibraryRow, LibraryTime, SymbolTime
from ..trace import queries
from ..trace.info import trace_info
from ..trace.selection import Selection
from ..trace.traces import REPORT_TABLES, open_traces

Row = dict[str, Any]
Key = tuple[Any, ...]

#: Name of a function, library and image.
_Callee = tuple[str | None, str | None, str | None]

#: The number of libraries that a line names, and of functions that each library names.
MOST_NAMED = 3


def library_times(rows: Sequence[Row], keys: Iterable[Callable[[Row], Key]]) -> dict[Key, list[LibraryTime]]:
    """The libraries with the most native time by key.

    ``rows``: rows of library_figures.sql. Each function of ``keys`` maps a row to a key that the row counts for.
    """
    groups: dict[Key, list[Row]] = defaultdict(list)
    for key in keys:
        for row in rows:
            groups[key(row)].append(row)
    return {key: _most(group) for key, group in groups.items()}


def _most(rows: list[Row]) -> list[LibraryTime]:
    by_library: dict[str | None, list[Row]] = defaultdict(list)
    for row in rows:
        by_library[row["library"]].append(row)
    times = [
        LibraryTime(name, sum(row["native_s"] for row in own), _symbols(own), own[0]["class"])
        for name, own in by_library.items()
    ]
    return sorted(times, key=lambda each: (round(-each.native_s, 9), each.library or ""))[:MOST_NAMED]


def _symbols(rows: list[Row]) -> list[SymbolTime]:
    sums: dict[str, float] = defaultdict(float)
    for row in rows:
        if row["symbol"] is not None:
            sums[row["symbol"]] += row["native_s"]
    largest = sorted(sums.items(), key=lambda each: (round(-each[1], 9), each[0]))[:MOST_NAMED]
    return [SymbolTime(name, native_s) for name, native_s in largest]


def callee_times(rows: Sequence[Row], keys: Iterable[Callable[[Row], Key]]) -> dict[Key, list[CalleeTime]]:
    """The native functions that took most CPU time by key, as in :func:`library_times`. ``rows``: rows of
    line_callee_figures.sql."""
    groups: dict[Key, dict[_Callee, float]] = defaultdict(lambda: defaultdict(float))
    for key in keys:
        for row in rows:
            groups[key(row)][row["symbol"], row["library"], row["image"]] += row["cpu_s"]
    return {key: _largest(sums) for key, sums in groups.items()}


def _largest(sums: dict[_Callee, float]) -> list[CalleeTime]:
    order = sorted(sums, key=lambda each: (-round(sums[each], 9), each[0] or "", each[1] or ""))
    return [CalleeTime(name, library, image, sums[name, library, image]) for name, library, image in order[:MOST_NAMED]]


def build_libraries(
    paths: Sequence[Path], selection: Selection, query: dict[str, Any], sort: str | None, limit: int | None
) -> Table:
    """Rows of :class:`LibraryRow`: native time of the traces at ``paths`` by library and function.

    By default libraries are ordered by native time, and the functions of each library stay together. ``sort`` names a field
    of LibraryRow and orders all rows by it. ``query`` is copied into the result. Raises the errors of :func:`open_traces`.
    """
    infos, rows = [], []
    for path in paths:
        with open_traces([path], selection, REPORT_TABLES) as traces:
            infos.append(trace_info(traces))
            rows += queries.rows(traces.connection, "library_figures")
    made = _rows(rows)
    return Table("libraries", query, infos, (sorted_rows(made, sort) if sort else _in_pieces(made))[:limit])


def _rows(rows: list[Row]) -> list[LibraryRow]:
    groups: dict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["library"], row["symbol"]].append(row)
    whole_s = sum(row["native_s"] for row in rows)
    return [_row(group, whole_s) for group in groups.values()]


def _row(group: list[Row], whole_s: float) -> LibraryRow:
    by_line: dict[Key, float] = defaultdict(float)
    for row in group:
        by_line[row["file"], row["line"], row["function"]] += row["native_s"]
    file, line, function = max(by_line, key=lambda each: by_line[each])
    most, native_s = max(group, key=lambda row: row["native_s"]), sum(row["native_s"] for row in group)
    return LibraryRow(
        library=most["library"],
        symbol=most["symbol"],
        image=most["class"],
        path=most["path"],
        ticks=sum(row["ticks"] for row in group),
        native_s=native_s,
        parallel_native_s=sum(row["parallel_native_s"] for row in group),
        native_percent=100 * native_s / whole_s if whole_s else 0.0,
        file=file,
        line=line,
        function=function,
    )


def _in_pieces(rows: list[LibraryRow]) -> list[LibraryRow]:
    sums: dict[str | None, float] = defaultdict(float)
    for row in rows:
        sums[row.library] += row.native_s
    return sorted(rows, key=lambda row: (-sums[row.library], row.library or "", -row.native_s, row.symbol or ""))
