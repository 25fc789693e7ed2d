"""Builds the document of the page, which has an entry for each trace (docs/design/html.md)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...formats.units import counted
from ..report.libraries import library_times
from ..report.memory import base_interval
from ..report.reduction import line_key
from ..report.report import query_of, report_of
from ..report.threads import thread_infos
from ..report.timeline import footprint_events
from ..results.base import to_json
from ..results.estimates import unseen_bytes
from ..results.threads import ThreadInfo
from ..results.trace import TraceInfo
from ..trace import info, queries
from ..trace.selection import Selection
from ..trace.sources import sources_of
from ..trace.traces import REPORT_TABLES, Traces, open_traces
from . import calls, cuda, series, texts
from .bins import MAX_BINS, Bins, bins_for, highest

if TYPE_CHECKING:
    from ..trace.connection import Connection

SCHEMA = "scalene-trace/html/1"
#: The most characters of figures in a page. If there are more, the time bins become wider.
MAX_FIGURES = 5_500_000

Json = dict[str, Any]


@dataclass(frozen=True)
class _Figures:
    """Figures by time bin: packed series, memory, threads and GPUs, and the call tree that the series refer to."""

    packed: Json
    memory: Json
    calls: calls.Calls
    threads: list[Json]
    gpu: Json | None


def build_document(paths: Sequence[Path], selection: Selection) -> Json:
    """The document of the traces at ``paths``. Raises the errors of :func:`open_traces`."""
    entries = []
    for path in paths:
        with open_traces([path], selection, REPORT_TABLES) as traces:
            report = report_of(traces, selection)
            said = {"leaks": to_json(report.leaks), "findings": to_json(report.findings)}
            entries.append(entry(traces, selection) | said)
    return {"schema": SCHEMA, "made_by": made_by(), "query": query_of(selection), "traces": entries}


def made_by() -> str:
    """The name and version of this program."""
    return f"scalene-trace {version('scalene-trace')}"


def entry(traces: Traces, selection: Selection, most: int = MAX_BINS) -> Json:
    """The entry of the one opened trace, with at most ``most`` time bins; without what the report says of it."""
    connection, trace = traces.connection, info.trace_info(traces)
    queries.ahead(connection, "thread_list", "process_list")
    bins, figures = _fitting(traces, trace, _time_range(connection, trace, selection), most)
    lines = texts.sampled_lines(figures.calls.locations)
    user_files = _user_files(connection)
    sources = sources_of(connection, lines.keys() & user_files)
    return {
        "info": to_json(trace),
        "settings": info.settings(connection),
        "bins": {"origin_s": bins.origin_ns / 1e9, "width_s": bins.width_ns / 1e9, "count": bins.count},
        **texts.places(figures.calls.locations),
        "user_files": sorted(lines.keys() & user_files),
        "sources": texts.source_pieces(sources, lines),
        "nodes": calls.packed_calls(figures.calls),
        "short_stacks": figures.calls.short,
        "lacks_stacks": trace.lacks_stacks,
        **figures.packed,
        "memory": figures.memory,
        **({"gpu": figures.gpu | {"short": cuda.short_places(connection)}} if figures.gpu else {}),
        "threads": figures.threads,
        "processes": to_json(info.process_infos(traces, 1)),
        "marks": to_json(info.mark_infos(traces, 1)),
        "unseen_bytes": unseen_bytes(base_interval(connection)),
        "libraries": _libraries(connection),
    }


def _libraries(connection: Connection) -> Json:
    """By file and line, the libraries with most of the line's native time: [name (None = unknown), seconds]."""
    times = library_times(queries.rows(connection, "library_figures"), [line_key])
    found: Json = {}
    for (file, line), libraries in times.items():
        if file is not None:
            found.setdefault(file, {})[str(line)] = [[each.library, round(each.native_s, 3)] for each in libraries]
    return found


def _user_files(connection: Connection) -> set[str]:
    return {file for (file,) in connection.execute("SELECT file FROM user_files").fetchall()}


def _time_range(connection: Connection, trace: TraceInfo, selection: Selection) -> tuple[int, int]:
    """Start and end of the page's time axis, in ns from the start of the recording."""
    (last_ns,) = connection.execute("SELECT max(greatest(t_ns, end_ns)) FROM processes").fetchall()[0]
    end_ns = round(trace.wall_s * 1e9) if trace.wall_s else last_ns or 1
    from_ns = max(selection.from_ns or 0, 0)
    return from_ns, end_ns if selection.to_ns is None else max(min(selection.to_ns, end_ns), from_ns + 1)


def _fitting(traces: Traces, trace: TraceInfo, time_range: tuple[int, int], most: int) -> tuple[Bins, _Figures]:
    """The figures in as many time bins as fit into a page."""
    while True:
        bins = bins_for(*time_range, most)
        figures = _figures(traces, trace, bins)
        if len(json.dumps(figures.packed)) <= MAX_FIGURES or most < 20:
            return bins, figures
        most //= 2


def _figures(traces: Traces, trace: TraceInfo, bins: Bins) -> _Figures:
    connection = traces.connection
    queries.ahead(connection, *series.BINNED, **bins.parameters)
    memory, peaks_ns = _memory(connection, trace, bins)
    by_stack, by_thread = series.cpu_and_wait_figures(connection, bins)
    by_stack.append(series.memory_figures(connection, bins))
    found = cuda.device_figures(connection, trace, bins)
    by_stack += found.sums
    allocations = series.allocation_figures(connection, bins, peaks_ns)
    tree = calls.calls_of(connection, [*by_stack, allocations])
    threads, index = _threads(thread_infos(traces, trace, 1))
    packed = {
        "series": series.packed_by_name(by_stack, tree.nodes),
        "halves": series.packed_by_name([allocations], tree.nodes),
        "thread_series": series.packed_by_name(by_thread, index, other=series.MAX_THREADS),
    }
    if found.peaks:
        packed["peaks"] = series.packed_peaks(found.peaks, tree.nodes)
    return _Figures(packed, memory, tree, threads, found.track)


def _threads(infos: Sequence[ThreadInfo]) -> tuple[list[Json], series.Index]:
    """Rows of the threads with the most time, one row for all others, and the index of a thread's row by its id."""
    by_time = sorted(infos, key=lambda each: -((each.cpu_s or 0) + (each.wait_s or 0)))
    shown = by_time[: series.MAX_THREADS]
    places = {each.thread: place for place, each in enumerate(shown) if each.thread is not None}
    index = series.Index.of_pairs(np.array([*places], np.int64), np.array([*places.values()], np.int64))
    names = ("process", "thread", "tid", "name", "start_s", "end_s")
    rows: list[Json] = [{name: getattr(each, name) for name in names} | {"name": each.shown_name} for each in shown]
    if len(by_time) > series.MAX_THREADS:
        rows.append(dict.fromkeys(names) | {"name": counted(len(by_time) - series.MAX_THREADS, "other", "others")})
    return rows, index


def _memory(connection: Connection, trace: TraceInfo, bins: Bins) -> tuple[Json, list[int]]:
    """Footprint, Python's part of it and resident set by bin (None = not recorded), and the time of each bin's peak in ns."""
    rows = footprint_events(connection)[1] if trace.events["memory"] is not None else []
    footprint = highest([(t_ns, value) for t_ns, value, _ in rows], bins)
    python = highest([(t_ns, value) for t_ns, _, value in rows], bins)
    (mark,) = connection.execute("SELECT max(peak_rss_bytes) FROM processes").fetchall()[0]
    levels = {"footprint": footprint if rows else None, "python": python if rows else None}
    memory: Json = {name: level and [value for _, value in level] for name, level in levels.items()}
    return memory | {"rss": _resident(connection, bins), "peak_rss_mark": mark}, [t_ns for t_ns, _ in footprint]


def _resident(connection: Connection, bins: Bins) -> list[int | None] | None:
    """The resident set by bin; bins before its first observation are None. None if it was never observed."""
    found = connection.execute("SELECT t_ns, rss_bytes FROM rss_events ORDER BY trace, t_ns").fetchall()
    if not found:
        return None
    levels = [value for _, value in highest(found, bins)]
    return [value if bins.edge_ns(index + 1) > found[0][0] else None for index, value in enumerate(levels)]
