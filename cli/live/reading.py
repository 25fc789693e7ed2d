"""What the tables show of one snapshot: the figures of a window of time that ends with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

from ...analyze.report.processes import build_processes
from ...analyze.report.report import build_report
from ...analyze.report.threads import build_threads
from ...analyze.results.report import Report
from ...analyze.results.threads import ThreadInfo
from ...analyze.results.trace import ProcessInfo
from ...analyze.trace.info import build_info
from ...analyze.trace.selection import Selection
from .following import Status


@dataclass(frozen=True)
class Process:
    """A process of the recording; ``threads``: its threads in the window, and their CPU time there."""

    info: ProcessInfo
    threads: Sequence[ThreadInfo]

    @property
    def cpu_s(self) -> float:
        """CPU time in the window, in seconds."""
        return sum(each.cpu_s or 0.0 for each in self.threads)


@dataclass(frozen=True)
class Reading:
    """The figures of a window. ``window_s``: its length in seconds; ``rows``: those of the ``view``; ``of_rows``: the report that
    has the totals of these, which is since the start for memory, because what is alive may be older than the window."""

    status: Status
    report: Report
    window_s: float
    view: str
    rows: Sequence[Any]
    of_rows: Report

    @cached_property
    def longest_s(self) -> float:
        """The most CPU time of a row, in seconds."""
        return max((row.cpu_s or 0.0 for row in self.rows), default=0.0)

    @cached_property
    def shared_names(self) -> set[str]:
        """Names that several files of the rows have, in different folders."""
        names = Counter(PurePath(file).name for file in {row.file for row in self.rows if row.file})
        return {name for name, count in names.items() if count > 1}


def read(status: Status, selection: Selection, window_s: float | None, view: str) -> Reading:
    """Reads the rows of ``view``, a key of ROWS, in the last ``window_s`` seconds of the snapshot; None = all of it. Raises
    what opening a trace raises."""
    whole, end_s = selection, status.recorded_s
    if end_s is None and window_s is not None:
        end_s = build_info([status.trace], {}).traces[0]["wall_s"]
    if window_s is not None and end_s is not None and end_s > window_s:
        selection = replace(whole, from_s=end_s - window_s)
    report = of_rows = build_report([status.trace], selection)
    if view == "memory" and selection != whole:
        of_rows = build_report([status.trace], whole)
    length_s = max((report.traces[0].wall_s or 0.0) - (selection.from_s or 0.0), 0.0)
    return Reading(status, report, length_s, view, ROWS[view](status.trace, selection, of_rows), of_rows)


def _lines(trace: Path, selection: Selection, report: Report) -> Sequence[Any]:
    return report.lines


def _functions(trace: Path, selection: Selection, report: Report) -> Sequence[Any]:
    return report.functions


def _memory(trace: Path, selection: Selection, report: Report) -> Sequence[Any]:
    """Lines that have allocated, or whose memory has grown."""
    return [row for row in report.lines if row.alloc_bytes or row.growth_bytes]


def _threads(trace: Path, selection: Selection, report: Report) -> Sequence[Any]:
    """The threads that live in the window."""
    from_s = selection.from_s or 0.0
    return [row for row in build_threads([trace], selection, {}).rows if (row.end_s or from_s) >= from_s]


def _processes(trace: Path, selection: Selection, report: Report) -> Sequence[Any]:
    threads: dict[int, list[ThreadInfo]] = {}
    for row in _threads(trace, selection, report):
        threads.setdefault(row.process, []).append(row)
    found = build_processes([trace], selection.processes, {}, None, None).rows
    return [Process(info, threads.get(info.process, [])) for info in found]


#: By view: its rows.
ROWS: dict[str, Callable[[Path, Selection, Report], Sequence[Any]]] = {
    "lines": _lines,
    "functions": _functions,
    "memory": _memory,
    "threads": _threads,
    "processes": _processes,
}
