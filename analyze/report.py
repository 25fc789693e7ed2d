"""The report: what every line and function costs, over one trace or several.

Several traces are reduced one at a time and then merged: a hundred of them need no more memory than one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import queries
from .info import trace_info
from .open import REPORT_TABLES, Traces, open_traces
from .results import Function, Line, Report, Totals, TraceInfo
from .selection import Selection
from .timeline import Memory, memory_over_time
from .trend import Point, reduce_points, steps

Row = dict[str, Any]
Key = tuple[Any, ...]

_SUMMED = ("ticks", "cpu_s", "python_s", "native_s", "system_s", "gc_s", "cumulative_cpu_s")
_SUMMED_MEMORY = ("memory_samples", "growth_bytes", "allocated_bytes", "python_allocated_bytes")
_NEWLINE = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Reduction:
    """One trace, reduced: rows by key with the columns of lines.sql and functions.sql, and growth over time by key."""

    info: TraceInfo
    memory: Memory | None
    lines: dict[Key, Row]
    functions: dict[Key, Row]
    unattributed: Row
    trends: dict[Key, list[tuple[int, int]]]
    sources: dict[str, list[str]]


def build_report(
    paths: Sequence[Path], selection: Selection, sort: str | None = None, limit: int | None = None
) -> Report:
    """The report over the traces at ``paths``.

    ``sort`` names a field of :class:`Line`, by default CPU time, then growth; ``limit`` cuts lines and functions.
    Raises the errors of :func:`open_traces`.
    """
    reductions = []
    for path in paths:
        with open_traces([path], selection, REPORT_TABLES) as traces:
            reductions.append(reduce_trace(traces, selection))
    return _report(reductions, query_of(selection, sort, limit), sort, limit)


def query_of(selection: Selection, sort: str | None = None, limit: int | None = None) -> dict[str, Any]:
    """The ``query`` part of the JSON: what was asked."""
    return {
        "include": list(selection.include),
        "exclude": list(selection.exclude),
        "all": selection.all_files,
        "from_s": selection.from_s,
        "to_s": selection.to_s,
        "process": list(selection.processes),
        "thread": list(selection.threads),
        "sort": sort,
        "limit": limit,
    }


def reduce_trace(traces: Traces, selection: Selection) -> Reduction:
    """The one opened trace, reduced to rows by line and by function."""
    connection, info = traces.connection, trace_info(traces)
    lines = _by_key(queries.rows(connection, "lines"), line_key)
    functions = _by_key(queries.rows(connection, "functions"), function_key)
    return Reduction(
        info=info,
        memory=memory_over_time(connection, selection) if info.events["memory"] is not None else None,
        lines=lines,
        functions=functions,
        unattributed=queries.rows(connection, "unattributed")[0],
        trends=_trends(queries.rows(connection, "line_trends")),
        sources=_sources(traces, {row["file"] for row in (*lines.values(), *functions.values())}),
    )


def line_key(row: Row) -> Key:
    return row["file"], row["line"]


def function_key(row: Row) -> Key:
    return row["file"], row["function"], row["first_line"]


def _by_key(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, Row]:
    return {key(row): row for row in rows}


def _trends(rows: Iterable[Row]) -> dict[Key, list[tuple[int, int]]]:
    """Growth so far (ns, bytes) at each sample, by line and by function."""
    trends: dict[Key, list[tuple[int, int]]] = {}
    for row in rows:
        for key in (line_key(row), function_key(row)):
            points = trends.setdefault(key, [])
            before = points[-1][1] if points else 0
            points.append((row["t_ns"], before + row["net_bytes"]))
    return trends


def _sources(traces: Traces, files: set[str]) -> dict[str, list[str]]:
    rows = queries.run(traces.connection, "sources_of", files=sorted(files))
    return {file: _NEWLINE.split(text) for file, text, _ in rows if text is not None}


def _report(reductions: list[Reduction], query: dict[str, Any], sort: str | None, limit: int | None) -> Report:
    unattributed = _merged_row([each.unattributed for each in reductions])
    maker = _Maker(reductions, unattributed)
    lines = [maker.line(key, row) for key, row in _merged([each.lines for each in reductions]).items()]
    functions = [maker.function(key, row) for key, row in _merged([each.functions for each in reductions]).items()]
    return Report(
        query=query,
        traces=[each.info for each in reductions],
        totals=maker.totals,
        timeline=maker.timeline(),
        lines=sorted_rows(lines, sort)[:limit],
        unattributed=maker.unattributed(unattributed),
        functions=sorted_rows(functions, sort)[:limit],
        sources=maker.sources,
    )


def _merged(tables: list[dict[Key, Row]]) -> dict[Key, Row]:
    if len(tables) == 1:
        return tables[0]
    groups: dict[Key, list[Row]] = {}
    for table in tables:
        for key, row in table.items():
            groups.setdefault(key, []).append(row)
    return {key: _merged_row(rows) for key, rows in groups.items()}


def _merged_row(rows: list[Row]) -> Row:
    sums = {name: sum(row[name] for row in rows) for name in (*_SUMMED, *_SUMMED_MEMORY) if name in rows[0]}
    return rows[0] | sums


class _Maker:
    """Makes results of merged rows; knows the totals and which samplers were on."""

    def __init__(self, reductions: list[Reduction], unattributed: Row) -> None:
        self._reductions = reductions
        self.has_cpu = any(each.info.events["cpu"] is not None for each in reductions)
        self.has_memory = any(each.memory is not None for each in reductions)
        self.sources: dict[str, list[str]] = {}
        for each in reductions:
            self.sources = each.sources | self.sources
        self.totals = self._totals(unattributed)

    def _totals(self, unattributed: Row) -> Totals:
        rows = [row for each in self._reductions for row in each.lines.values()] + [unattributed]
        names = ("cpu_s", "python_s", "native_s", "system_s", "gc_s")
        cpu = {name: sum(row[name] for row in rows) if self.has_cpu else None for name in names}
        memories = [each.memory for each in self._reductions if each.memory is not None]
        return Totals(
            **cpu,
            peak_bytes=max((m.peak_bytes for m in memories), default=None),
            python_peak_bytes=max((m.python_peak_bytes for m in memories), default=None),
            peak_rss_bytes=max((m.peak_rss_bytes for m in memories if m.peak_rss_bytes is not None), default=None),
        )

    def timeline(self) -> list[Point] | None:
        """That of the trace with the highest peak."""
        memories = [each.memory for each in self._reductions if each.memory is not None]
        return max(memories, key=lambda memory: memory.peak_bytes).timeline if memories else None

    def line(self, key: Key, row: Row) -> Line:
        source = self._source(row["file"], row["line"])
        return Line(row["file"], row["line"], row["function"], row["first_line"], source, **self._figures(row, key))

    def function(self, key: Key, row: Row) -> Function:
        source = self._source(row["file"], row["first_line"])
        cumulative = row["cumulative_cpu_s"] if self.has_cpu else None
        names = (row["file"], row["first_line"], row["function"], row["first_line"], source)
        return Function(*names, **self._figures(row, key), cumulative_cpu_s=cumulative)

    def unattributed(self, row: Row) -> Line:
        return Line(None, None, None, None, **self._figures(row, ()))

    def _source(self, file: str, line: int) -> str | None:
        lines = self.sources.get(file, [])
        return lines[line - 1] if 0 < line <= len(lines) else None

    def _figures(self, row: Row, key: Key) -> Row:
        figures: Row = {}
        if self.has_cpu:
            figures = {name: row[name] for name in ("ticks", "cpu_s", "python_s", "native_s", "system_s", "gc_s")}
            figures["cpu_percent"] = 100 * row["cpu_s"] / self.totals.cpu_s if self.totals.cpu_s else 0.0
        if self.has_memory:
            allocated = row["allocated_bytes"]
            figures["growth_bytes"] = row["growth_bytes"]
            figures["python_alloc_fraction"] = row["python_allocated_bytes"] / allocated if allocated else None
            figures["trend"] = self._trend(key)
        return figures

    def _trend(self, key: Key) -> list[Point]:
        """That of the trace in which the growth is largest."""
        trends = [each.trends[key] for each in self._reductions if key in each.trends]
        return reduce_points(steps(max(trends, key=lambda events: abs(events[-1][1])))) if trends else []


def sorted_rows(rows: list[Any], sort: str | None) -> list[Any]:
    """Rows by the field ``sort``: numbers from the largest, texts from A, None last. Ties keep their order."""
    if sort is None:
        return sorted(rows, key=_default_order)
    known = [row for row in rows if getattr(row, sort) is not None]
    unknown = [row for row in rows if getattr(row, sort) is None]
    is_name = sort in ("file", "line", "function", "first_line", "source")
    return sorted(known, key=lambda row: getattr(row, sort), reverse=not is_name) + unknown


def _default_order(row: Line) -> tuple[Any, ...]:
    cumulative = row.cumulative_cpu_s if isinstance(row, Function) else 0
    names = (row.file or "", row.line or 0, row.function or "")
    return -(row.cpu_s or 0), -(cumulative or 0), -(row.growth_bytes or 0), *names
