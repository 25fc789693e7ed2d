"""Figures of Scalene's rows that the report does not have: numbers of allocations, cores in use, asyncio tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..report.memory import MemoryQuery, build_memory
from ..report.tasks import build_tasks
from ..results.report import Function, Line, Report
from ..results.threads import TaskRow
from ..trace import queries
from ..trace.info import settings
from ..trace.selection import Selection
from ..trace.traces import REPORT_TABLES, open_traces
from .shared.text import plain

_MIB = 1_048_576
#: A line by file and number, a function by file, name and first line.
Key = tuple[Any, ...]
#: The most task names of a line, as in Scalene.
_MOST_NAMES = 100


@dataclass(frozen=True)
class ExtraFigures:
    """By key: ``mallocs`` (estimated number of allocations), ``tasks`` (names of tasks that were suspended there), and
    ``gpu_bytes`` (mean GPU memory over the observations of all traces). ``coroutines``: keys of functions."""

    cpus: int = 1
    has_tasks: bool = False
    mallocs: dict[Key, int] = field(default_factory=dict)
    tasks: dict[Key, set[str]] = field(default_factory=dict)
    coroutines: set[Key] = field(default_factory=set)
    gpu_bytes: dict[Key, float] = field(default_factory=dict)

    def row(self, known: Line, report: Report) -> dict[str, Any]:
        """The additional fields of a row."""
        key = key_of(known)
        own_s = (known.cpu_s or 0.0) - (known.parallel_native_s or 0.0)
        cores = (known.cpu_s or 0.0) / own_s if own_s > 0 else 0.0
        whole_s = report.totals.suspended_s or 0.0
        return {
            "n_mallocs": self.mallocs.get(key, 0),
            "n_gpu_avg_memory_mb": min(self.gpu_bytes.get(key, 0.0), known.gpu_peak_bytes or 0) / _MIB,
            "n_core_utilization": min(cores / self.cpus, 1.0),
            "n_async_await_percent": min(100 * (known.suspended_s or 0.0) / whole_s, 100.0) if whole_s > 0 else 0.0,
            "async_task_names": sorted(self.tasks.get(key, ()))[:_MOST_NAMES],
            "is_coroutine": (known.file, known.function, known.first_line) in self.coroutines,
        }


def key_of(known: Line) -> Key:
    """The key of a line or function."""
    if isinstance(known, Function):
        return known.file, known.function, known.first_line
    return known.file, known.line


def extra_figures(paths: Sequence[Path], selection: Selection, report: Report) -> ExtraFigures:
    """The additional figures of the traces of ``report``. Raises the errors of :func:`open_traces`."""
    events = [trace.events for trace in report.traces]
    found = ExtraFigures(_cpus(paths[0]), any(each.get("task") for each in events), _mallocs(paths, selection))
    if report.totals.gpu_peak_bytes:
        found.gpu_bytes.update(_gpu_bytes(paths, selection))
    if found.has_tasks:
        for task in build_tasks(paths, selection, {}).rows:
            _add(found, task)
    return found


def _cpus(path: Path) -> int:
    with open_traces([path]) as traces:
        text = settings(traces.connection).get("cpu_count") or ""
    return max(int(text), 1) if text.isascii() and text.isdigit() and len(text) < 9 else 1


def _mallocs(paths: Sequence[Path], selection: Selection) -> dict[Key, int]:
    lines = build_memory(paths, selection, MemoryQuery("line"), {}).memory
    functions = build_memory(paths, selection, MemoryQuery("function"), {}).memory
    found: dict[Key, int] = {(row.file, row.line): row.allocations for row in lines}
    return found | {(row.file, row.function, row.first_line): row.allocations for row in functions}


def _gpu_bytes(paths: Sequence[Path], selection: Selection) -> dict[Key, float]:
    """Mean GPU memory by key: the mean of the traces' means."""
    found: dict[Key, list[float]] = {}
    for path in paths:
        with open_traces([path], selection, REPORT_TABLES) as traces:
            for row in queries.rows(traces.connection, "gpu_figures"):
                places = {"line": ("file", "line"), "function": ("file", "function", "first_line")}[row["level"]]
                if row["gpu_mean_bytes"] is not None:
                    found.setdefault(tuple(row[name] for name in places), []).append(row["gpu_mean_bytes"])
    return {key: sum(means) / len(means) for key, means in found.items()}


def _add(found: ExtraFigures, task: TaskRow) -> None:
    for key in ((task.file, task.line), (task.file, task.function, task.first_line)):
        found.tasks.setdefault(key, set()).add(plain(task.name or "?"))
    found.coroutines.add((task.file, task.function, task.first_line))
