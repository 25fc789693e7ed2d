"""What the analysis returns: plain frozen records, named and ordered as in the JSON output (docs/json.md).

Times end in ``_s`` (seconds), sizes in ``_bytes``. None means: not recorded, or not known; never zero.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .trend import Point


@dataclass(frozen=True)
class Loss:
    """Something that was not recorded. ``severity``: info, loss or error."""

    name: str
    severity: str
    count: int
    text: str


@dataclass(frozen=True)
class TraceInfo:
    """One trace. ``events``: number of samples by sampler, None = the sampler was off or does not exist yet."""

    path: str
    trace_id: str
    format_version: str
    started_at: str | None
    wall_s: float | None
    command: list[str] | None
    python: str | None
    processes: int
    threads: int
    events: dict[str, int | None]
    losses: list[Loss]


@dataclass(frozen=True)
class Totals:
    """Sums over all samples of the selection, attributed or not; peaks of the process tree."""

    cpu_s: float | None = None
    python_s: float | None = None
    native_s: float | None = None
    system_s: float | None = None
    gc_s: float | None = None
    wait_s: float | None = None
    peak_bytes: int | None = None
    python_peak_bytes: int | None = None
    peak_rss_bytes: int | None = None
    alloc_bytes: int | None = None
    copy_bytes: int | None = None
    gpu_s: float | None = None
    gpu_peak_bytes: int | None = None


@dataclass(frozen=True)
class Waits:
    """Waiting time by what was waited for."""

    sleep_s: float | None = None
    disk_s: float | None = None
    runnable_s: float | None = None
    gil_s: float | None = None


@dataclass(frozen=True)
class Line:
    """What a line costs. ``file`` and what follows up to ``source`` are None for samples without a line."""

    file: str | None
    line: int | None
    function: str | None
    first_line: int | None
    source: str | None = None
    ticks: int | None = None
    cpu_s: float | None = None
    python_s: float | None = None
    native_s: float | None = None
    system_s: float | None = None
    gc_s: float | None = None
    parallel_native_s: float | None = None
    wait_s: float | None = None
    waits: Waits = Waits()
    cpu_percent: float | None = None
    growth_bytes: int | None = None
    python_alloc_fraction: float | None = None
    alloc_bytes: int | None = None
    alloc_error_bytes: int | None = None
    live_at_peak_bytes: int | None = None
    live_at_end_bytes: int | None = None
    copy_bytes: int | None = None
    copy_bytes_per_s: float | None = None
    gpu_s: float | None = None
    gpu_percent: float | None = None
    gpu_peak_bytes: int | None = None
    leak_probability: float | None = None
    leak_bytes_per_s: float | None = None
    trend: list[Point] | None = None


@dataclass(frozen=True)
class Function(Line):
    """What a function costs; ``line`` is its first line. Cumulative: with all that it calls, recursion counted once."""

    cumulative_cpu_s: float | None = None


@dataclass(frozen=True)
class Report:
    """The report. ``sources`` (file -> lines of text) serves renderers and is not part of the JSON."""

    query: dict[str, Any]
    traces: list[TraceInfo]
    totals: Totals
    timeline: list[Point] | None
    lines: list[Line]
    unattributed: Line
    functions: list[Function]
    leaks: list[Any] | None = None
    sources: Mapping[str, list[str]] = field(default_factory=dict, metadata={"json": False})


@dataclass(frozen=True)
class TimelinePoint:
    """Memory of the process tree at a moment; ``trace`` counts the given files from 1."""

    trace: int
    t_s: float
    footprint_bytes: int | None
    python_footprint_bytes: int | None
    rss_bytes: int | None


@dataclass(frozen=True)
class ProcessInfo:
    """A process, or rather an image: exec starts a new one. ``cpu_s`` is exact."""

    trace: int
    process: int
    pid: int | None
    parent: int | None
    cause: str | None
    command: list[str] | None
    executable: str | None
    python: str | None
    start_s: float | None
    end_s: float | None
    end: str | None
    exit_status: int | None
    threads: int
    ticks: int
    cpu_s: float
    peak_rss_bytes: int | None


@dataclass(frozen=True)
class Table:
    """One list of rows with its surroundings. ``name`` names the schema (scalene-trace/NAME/1), ``rows_name`` the list."""

    name: str
    query: dict[str, Any]
    traces: list[Any]
    rows: list[Any]
    rows_name: str = ""


def to_json(result: Any) -> Any:
    """``result`` as plain dicts, lists, numbers and strings, keys in the order of the fields."""
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return {
            f.name: to_json(getattr(result, f.name)) for f in dataclasses.fields(result) if f.metadata.get("json", True)
        }
    if isinstance(result, (list, tuple)):
        return [to_json(each) for each in result]
    if isinstance(result, dict):
        return {key: to_json(value) for key, value in result.items()}
    return result


def report_json(report: Report) -> dict[str, Any]:
    """The document of ``scalene-analyze --json``."""
    document: dict[str, Any] = {"schema": "scalene-trace/report/1"}
    document |= to_json(report)
    return document


def table_json(table: Table) -> dict[str, Any]:
    """The document of the other commands' ``--json``."""
    document: dict[str, Any] = {"schema": f"scalene-trace/{table.name}/1", "query": table.query}
    return document | {"traces": to_json(table.traces), table.rows_name or table.name: to_json(table.rows)}
