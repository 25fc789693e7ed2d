"""The processed profile of the Firefox Profiler: CPU samples, waits, allocations, memory and GPU tracks, collections, marks.

The file has version 60 of the format, which the profiler upgrades on loading. All threads share the tables. Times are in
milliseconds. https://github.com/firefox-devtools/profiler/blob/main/docs-developer/CHANGELOG-formats.md
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from ..results.report import WAIT_WORDS
from ..results.trace import TraceInfo
from ..trace import queries
from ..trace.info import settings, trace_info
from ..trace.selection import Selection
from ..trace.traces import Traces, open_traces
from .firefox_tables import CATEGORIES, GREY, MARKER_SCHEMAS, SharedTables, Table, ThreadTables, gpu_display
from .shared.profile import METRICS, TABLES, Profile, Rounder, Stacks, TraceStacks, title, trace_values
from .shared.text import json_bytes, plain
from .timed_events import ExportedProcess, ExportedThread, GpuTrack, TimedEvents, read_timed_events

FORMAT_VERSION = 60
_GECKO_VERSION = 32
_MS = 1_000_000
_DIRECTIONS = {
    "h2d": "host to device",
    "d2h": "device to host",
    "d2d": "device to device",
    "h2h": "host to host",
    "unified": "not told by the call",
}
_NO_PROCESS = ExportedProcess(0, 0, "0", "no process", 0, None, {})
#: A placeholder for a trace without threads: the profiler needs one to show anything.
_NO_THREAD = ExportedThread(0, 0, "no thread", _NO_PROCESS, True, 0, None)


class Writer:
    """Collects traces, one after the other, and writes the document."""

    def __init__(self, selection: Selection, several: bool) -> None:
        self.profile = Profile([], Stacks(), {})
        self._selection = selection
        self._several = several
        self._shared = SharedTables(self.profile.stacks)
        self._rounders = {name: Rounder(METRICS[name].scale) for name in ("cpu", "allocated")}
        self._threads: list[ThreadTables] = []
        self._counters: list[Table] = []
        self._interval_ns = 10 * _MS

    def add(self, traces: Traces) -> None:
        """Adds the one opened trace."""
        self.profile.traces.append(trace_info(traces))
        trace, connection = len(self.profile.traces), traces.connection
        self._interval_ns = _interval_ns(settings(connection)) or self._interval_ns
        timed = read_timed_events(connection, trace, self._several)
        stacks = TraceStacks(connection, self.profile.stacks)
        tables = _thread_tables(timed, self._window_ns(self.profile.traces[-1]))
        self._add_samples(traces, stacks, tables, trace)
        self._add_allocations(traces, stacks, tables)
        self._add_markers(timed, stacks, tables)
        self._counters += _counters(timed, tables, len(self._threads))
        self._threads += tables.values()

    def document(self) -> dict[str, Any]:
        """The document of the file."""
        threads = [each.document() for each in self._threads]
        return {
            "meta": _meta(self.profile.traces, self._interval_ns, title(self.profile)),
            "libs": self._shared.libs,
            "counters": self._counters,
            "threads": threads,
            "shared": self._shared.document(),
        }

    def _window_ns(self, info: TraceInfo) -> tuple[int, int]:
        """Start and end of the selection in ns."""
        from_ns, to_ns = self._selection.from_ns or 0, self._selection.to_ns
        wall_ns = round((info.wall_s or 0.0) * 1e9)
        return max(from_ns, 0), wall_ns if to_ns is None else min(to_ns, wall_ns)

    def _add_samples(self, traces: Traces, stacks: TraceStacks, tables: dict[int, ThreadTables], trace: int) -> None:
        values = trace_values(traces.connection, "cpu", stacks, trace, self._rounders["cpu"], by_time=True)
        for each in values:
            _table_of(tables, each.thread).sample(each.t_ns, self._shared.stack(each.stack), each.value)

    def _add_allocations(self, traces: Traces, stacks: TraceStacks, tables: dict[int, ThreadTables]) -> None:
        """Adds each sampled block from its allocation to its free, with an address of its own."""
        for row in queries.rows(traces.connection, "allocation_list"):
            stack = self._shared.stack(stacks.index(row["stack"]))
            table, size = _table_of(tables, row["thread"]), self._rounders["allocated"].round(row["alloc_bytes"])
            freed = row["end_t_ns"]
            free_stack = self._shared.stack(stacks.index(row["free_stack"]))
            table.block(row["t_ns"], stack, size, freed, free_stack)

    def _add_markers(self, timed: TimedEvents, stacks: TraceStacks, tables: dict[int, ThreadTables]) -> None:
        for row in timed.waits:
            stack = self._shared.stack(stacks.index(row["stack"]))
            what = WAIT_WORDS.get(row["class"], plain(str(row["class"])))
            data = {"type": "wait", "what": what, "cause": {"stack": stack}}
            table = _table_of(tables, row["thread"])
            table.marker(self._shared.text(f"wait: {what}"), row["t_ns"], row["end_ns"], data)
        for row in timed.collections:
            data = {"type": "gc", "generation": row["generation"], "collections": row["collections"]}
            name = self._shared.text(f"garbage collection, generation {row['generation']}")
            _table_of(tables, row["thread"]).marker(name, row["t_ns"], None, data)
        self._add_marks(timed, tables)
        self._add_calls(timed, stacks, tables)

    def _add_calls(self, timed: TimedEvents, stacks: TraceStacks, tables: dict[int, ThreadTables]) -> None:
        """Adds copies by, and waits for, CUDA libraries."""
        for row in timed.calls:
            stack = self._shared.stack(stacks.index(row["stack"]))
            is_copy = row["what"] == "copy"
            data = {"type": f"device-{row['what']}", "calls": row["calls"], "inside": row["inside_s"] * 1e3}
            if is_copy:
                data |= {"direction": _DIRECTIONS.get(row["direction"], plain(str(row["direction"])))}
                data |= {"bytes": row["bytes"]}
            name = self._shared.text(f"device copy: {data['direction']}" if is_copy else "device wait")
            end_ns = max(row["end_ns"], row["t_ns"])
            _table_of(tables, row["thread"]).marker(name, row["t_ns"], end_ns, data | {"cause": {"stack": stack}})

    def _add_marks(self, timed: TimedEvents, tables: dict[int, ThreadTables]) -> None:
        for row in timed.marks:
            data = {"type": "mark", "text": plain(row["text"])}
            start_ns, end_s = round(row["t_s"] * 1e9), row["end_s"]
            end_ns = None if end_s is None else max(round(end_s * 1e9), start_ns)
            first = next((key for key, each in timed.threads.items() if each.process.pid == row["pid"]), 0)
            _table_of(tables, first).marker(self._shared.text(plain(row["what"] or "mark")), start_ns, end_ns, data)


def firefox(paths: Sequence[Path], selection: Selection) -> tuple[bytes, list[TraceInfo]]:
    """The contents of the file, and the metadata of the traces. Raises the errors of :func:`open_traces`."""
    writer = Writer(selection, len(paths) > 1)
    for path in paths:
        with open_traces([path], selection, TABLES) as traces:
            writer.add(traces)
    return json_bytes(writer.document()), writer.profile.traces


def _interval_ns(values: dict[str, str]) -> int | None:
    text = values.get("cpu_interval_ns") or ""
    return int(text) if text.isdecimal() and 0 < int(text) < 10**15 else None


def _thread_tables(timed: TimedEvents, window_ns: tuple[int, int]) -> dict[int, ThreadTables]:
    from_ns, to_ns = window_ns
    tables = {}
    for id_, thread in timed.threads.items():
        end_ns = to_ns if thread.end_ns is None else min(thread.end_ns, to_ns)
        tables[id_] = ThreadTables(thread, (max(thread.start_ns, from_ns), end_ns))
    return tables or {0: ThreadTables(_NO_THREAD, window_ns)}


def _table_of(tables: dict[int, ThreadTables], thread: int | None) -> ThreadTables:
    """The tables of a thread; those of the first thread if the trace does not describe it."""
    return tables[thread] if thread in tables else next(iter(tables.values()))


def _counters(timed: TimedEvents, tables: dict[int, ThreadTables], first: int) -> list[Table]:
    """A memory track for each series of each process, and the tracks of GPUs."""
    main = {each.thread.process.id: first + at for at, each in reversed(list(enumerate(tables.values())))}
    names = {"footprint": "allocated minus freed", "rss": "resident set"}
    found = [
        _counter(process, names[series], points, main.get(process.id, first))
        for process in timed.processes.values()
        for series, points in process.series.items()
    ]
    return found + [each for track in timed.gpus for each in _gpu_counters(track, main.get(track.process.id, first))]


def _gpu_counters(track: GpuTrack, main: int) -> Iterable[Table]:
    """The tracks of a device: utilization and memory. The profiler divides counts by the time since the previous sample."""
    about = f", {track.about}" if track.about else ""
    if track.busy:
        samples, last_ns = [(track.busy[0][0], 0.0)], track.busy[0][0]
        for from_ns, to_ns, busy_ns in track.busy:
            samples += [(from_ns, 0.0)] if from_ns > last_ns else []
            samples.append((to_ns, busy_ns / _MS))
            last_ns = to_ns
        times, counts = [t_ns / _MS for t_ns, _ in samples], [count for _, count in samples]
        name = f"{track.name} busy"
        table = _counter_table(track.process, name, "GPU", about, (times, counts), main)
        yield table | {"display": gpu_display(name, is_memory=False)}
    if track.memory:
        name = f"{track.name} memory"
        table = _counter(track.process, name, track.memory, main, about)
        yield table | {"display": gpu_display(name, is_memory=True)}


def _counter(
    process: ExportedProcess, name: str, points: Iterable[tuple[int, int]], main: int, about: str = ""
) -> Table:
    """A memory track. Its samples are differences, beginning at 0."""
    points = list(points)
    sizes = [0] + [size for _, size in points]
    times = [points[0][0] / _MS] + [t_ns / _MS for t_ns, _ in points]
    counts = [0] + [after - before for before, after in itertools.pairwise(sizes)]
    return _counter_table(process, name, "Memory", about, (times, counts), main)


def _counter_table(
    process: ExportedProcess,
    name: str,
    category: str,
    about: str,
    samples: tuple[list[float], Sequence[float]],
    main: int,
) -> Table:
    times, counts = samples
    return {
        "name": name,
        "category": category,
        "description": f"{name}, {process.name}{about}",
        "pid": process.key,
        "mainThreadIndex": main,
        "samples": {"time": times, "count": counts, "length": len(times)},
    }


def _meta(traces: Sequence[TraceInfo], interval_ns: int, product: str) -> dict[str, Any]:
    return {
        "interval": interval_ns / _MS,
        "startTime": _started_ms(traces[0].started_at),
        "processType": 0,
        "product": product,
        "importedFrom": "scalene-trace",
        "stackwalk": 0,
        "version": _GECKO_VERSION,
        "preprocessedProfileVersion": FORMAT_VERSION,
        "symbolicated": True,
        "usesOnlyOneStackType": True,
        "sourceCodeIsNotOnSearchfox": True,
        "categories": CATEGORIES,
        "defaultCategory": GREY,
        "markerSchema": MARKER_SCHEMAS,
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "\u00b5s"},
    }


def _started_ms(started_at: str | None) -> float:
    """Milliseconds since 1970; 0 if the text is not a time."""
    try:
        return datetime.fromisoformat(started_at or "").timestamp() * 1e3
    except (ValueError, OverflowError):
        return 0.0
