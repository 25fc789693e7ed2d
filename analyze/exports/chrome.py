"""Trace-event JSON for Perfetto and chrome://tracing: memory, CPU and GPUs as counters, waits as slices, collections, marks.

Times are in microseconds from the start of the recording. Slices of a thread must not overlap, because Perfetto drops
overlapping ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..results.report import WAIT_WORDS
from ..results.trace import TraceInfo
from ..trace import queries
from ..trace.info import trace_info
from ..trace.selection import Selection
from ..trace.traces import Traces, open_traces
from .shared.profile import TABLES, Stacks, TraceStacks
from .shared.size import Size
from .shared.text import json_bytes, plain
from .timed_events import ExportedThread, Row, TimedEvents, read_timed_events

Event = dict[str, Any]

#: CPU time is counted in bins: their least width, and the most bins.
_BIN_NS, _BINS = 10_000_000, 10_000
_MAX_TIME_NS = 2**62
_PARTS = ("python", "native", "unclassified", "system")
_COUNTERS = {"footprint": "allocated minus freed", "rss": "resident set"}
#: Distance between the pids of different traces; the viewers limit the size of a pid.
_PIDS_PER_TRACE = 10_000_000


def chrome(paths: Sequence[Path], selection: Selection) -> bytes:
    """The contents of the file. Raises the errors of :func:`open_traces`."""
    events: list[Event] = []
    infos: list[TraceInfo] = []
    size = Size("chrome")
    for number, path in enumerate(paths, start=1):
        with open_traces([path], selection, TABLES) as traces:
            infos.append(trace_info(traces))
            events += _Events(traces, number, len(paths) > 1, infos[-1], size).all()
    about = {"recordedBy": "scalene-trace", "startedAt": [plain(info.started_at or "") for info in infos]}
    return json_bytes({"traceEvents": events, "displayTimeUnit": "ms", "otherData": about})


class _Events:
    """The events of one opened trace."""

    def __init__(self, traces: Traces, number: int, several: bool, info: TraceInfo, size: Size) -> None:
        self._size = size
        self._connection = traces.connection
        self._timed: TimedEvents = read_timed_events(traces.connection, number, several)
        self._stacks = Stacks()
        self._trace_stacks = TraceStacks(traces.connection, self._stacks)
        self._pids = _pids(self._timed, number)
        wall_ns = round((info.wall_s or 0.0) * 1e9)
        self._bin_ns = max(_BIN_NS, wall_ns // _BINS)

    def all(self) -> list[Event]:
        """Names, counters, slices and instants."""
        found = [*self._names(), *self._memory(), *self._cpu(), *self._gpus()]
        found += [*self._waits(), *self._collections(), *self._marks(), *self._calls()]
        return [event for event in found if abs(event.get("ts", 0)) < _MAX_TIME_NS / 1e3]

    def _names(self) -> Iterator[Event]:
        for process in self._timed.processes.values():
            yield _event("M", "process_name", self._pids[process.id], args={"name": process.name})
        for thread in self._timed.threads.values():
            yield _event("M", "thread_name", self._pids[thread.process.id], thread.tid, args={"name": thread.name})

    def _memory(self) -> Iterator[Event]:
        for process in self._timed.processes.values():
            for series, points in process.series.items():
                for t_ns, size in points:
                    args = {"bytes": size}
                    yield _event("C", _COUNTERS[series], self._pids[process.id], t_ns=t_ns, args=args)

    def _cpu(self) -> Iterator[Event]:
        """CPUs in use, one value for each bin with samples; 0 after a bin that is followed by an empty one."""
        ends: dict[int, int] = {}
        rows = queries.rows(self._connection, "process_cpu", piece_ns=self._bin_ns)
        # Each value has the same parts: a part that is missing would keep its last value.
        parts = [each for each in _PARTS if each != "unclassified" or any(row["unclassified_s"] for row in rows)]
        for row in rows:
            pid, t_ns = self._pids.get(row["process"], 0), row["t_ns"]
            if pid in ends and ends[pid] < t_ns:
                yield self._cpus(pid, ends[pid], dict.fromkeys(parts, 0.0))
            ends[pid] = t_ns + self._bin_ns
            yield self._cpus(pid, t_ns, {part: row[f"{part}_s"] for part in parts})
        for pid, t_ns in ends.items():
            yield self._cpus(pid, t_ns, dict.fromkeys(parts, 0.0))

    def _cpus(self, pid: int, t_ns: int, times: dict[str, float]) -> Event:
        args = {name: round(value * 1e9 / self._bin_ns, 6) for name, value in times.items()}
        return _event("C", "CPUs in use", pid, t_ns=t_ns, args=args)

    def _gpus(self) -> Iterator[Event]:
        """Utilization of a device in percent until the next value, and its memory in bytes."""
        for track in self._timed.gpus:
            pid = self._pids[track.process.id]
            end_ns = None
            for from_ns, to_ns, busy_ns in track.busy:
                if end_ns is not None and end_ns < from_ns:
                    yield _event("C", f"{track.name} busy", pid, t_ns=end_ns, args={"percent": 0})
                share = round(100 * busy_ns / (to_ns - from_ns), 3)
                yield _event("C", f"{track.name} busy", pid, t_ns=from_ns, args={"percent": share})
                end_ns = to_ns
            if end_ns is not None:
                yield _event("C", f"{track.name} busy", pid, t_ns=end_ns, args={"percent": 0})
            for t_ns, size in track.memory:
                yield _event("C", f"{track.name} memory", pid, t_ns=t_ns, args={"bytes": size})

    def _calls(self) -> Iterator[Event]:
        """Calls of CUDA libraries as asynchronous slices: they overlap the waits of the thread, which sleeps during a call."""
        for number, row in enumerate(self._timed.calls):
            place, is_copy = self._place(row), row["what"] == "copy"
            name = f"device copy: {plain(str(row['direction']))}" if is_copy else "device wait"
            args = {"calls": row["calls"], "inside_s": row["inside_s"], "stack": self._stack(row["stack"])}
            about = {"id": f"call {number}", "cat": "device"}
            yield _event("b", name, *place, row["t_ns"], args | ({"bytes": row["bytes"]} if is_copy else {})) | about
            yield _event("e", name, *place, max(row["end_ns"], row["t_ns"])) | about

    def _waits(self) -> Iterator[Event]:
        """Waits of each thread as slices; if two overlap, the later one begins at the end of the earlier one."""
        ends: dict[tuple[int, int], int] = {}
        for row in self._timed.waits:
            place = self._place(row)
            start_ns = max(row["t_ns"], ends.get(place, row["t_ns"]))
            if row["end_ns"] > start_ns:
                ends[place] = row["end_ns"]
                args = {"stack": self._stack(row["stack"]), "waited_s": row["wait_s"]}
                length_us = (row["end_ns"] - start_ns) / 1e3
                name = f"wait: {WAIT_WORDS.get(row['class'], plain(str(row['class'])))}"
                yield _event("X", name, *place, start_ns, args) | {"dur": length_us, "cat": "wait"}

    def _collections(self) -> Iterator[Event]:
        for row in self._timed.collections:
            args = {"collections": row["collections"]}
            name = f"garbage collection, generation {row['generation']}"
            yield _event("i", name, *self._place(row), row["t_ns"], args) | {"s": "t", "cat": "gc"}

    def _marks(self) -> Iterator[Event]:
        """The user's marks, for a whole process: asynchronous slices, or instants if they have no end."""
        pids = {each.pid: self._pids[each.id] for each in self._timed.processes.values()}
        for number, row in enumerate(self._timed.marks):
            pid, start_ns = pids.get(row["pid"], min(pids.values(), default=0)), round(row["t_s"] * 1e9)
            name = f"{plain(row['what'] or 'mark')}: {plain(row['text'])}"
            if row["end_s"] is None:
                yield _event("i", name, pid, t_ns=start_ns) | {"s": "p", "cat": "mark"}
                continue
            end_ns = max(round(row["end_s"] * 1e9), start_ns)
            yield _event("b", name, pid, t_ns=start_ns) | {"id": number, "cat": "mark"}
            yield _event("e", name, pid, t_ns=end_ns) | {"id": number, "cat": "mark"}

    def _place(self, row: Row) -> tuple[int, int]:
        """Pid and tid of a row; pid 0 if the trace does not describe the thread."""
        thread: ExportedThread | None = self._timed.threads.get(row["thread"])
        return (self._pids[thread.process.id], thread.tid) if thread else (0, row["thread"] or 0)

    def _stack(self, stack: int | None) -> list[str]:
        """The frames of a stack as text, the innermost first."""
        frames = self._stacks.of(self._trace_stacks.index(stack))
        self._size.add(sum(len(frame.function) + len(frame.file) for frame in frames))
        return [f"{f.function} ({f.file}:{f.line})" if f.file else f.function for f in reversed(frames)]


def _pids(timed: TimedEvents, number: int) -> dict[int, int]:
    """A pid for each process image: its own, or one derived from it if another image or trace already has that pid."""
    found: dict[int, int] = {}
    taken, free = set[int](), dict[int, int]()
    for process in timed.processes.values():
        first = process.pid + (number - 1) * _PIDS_PER_TRACE
        pid = free.get(first, first)
        while pid in taken:
            pid += 1_000_000
        taken.add(pid)
        free[first] = pid + 1_000_000
        found[process.id] = pid
    return found


def _event(
    phase: str, name: str, pid: int, tid: int = 0, t_ns: int | None = None, args: dict[str, Any] | None = None
) -> Event:
    time = {} if t_ns is None else {"ts": t_ns / 1e3}
    return {"ph": phase, "name": name, "pid": pid, "tid": tid} | time | ({"args": args} if args else {})
