"""Results about a fleet of traces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .base import to_json


@dataclass(frozen=True)
class Coverage:
    """What an answer is about. ``folder``: the fleet's; ``traces``: the selected ones that were read; ``hosts``, ``versions``:
    how many different ones they have; ``exposure``: their recorded hours, or with ``per`` the number of marks with that
    text; ``first_day``, ``last_day``: of their starts, in UTC; ``unreadable``: files of the fleet that could not be read;
    ``without_exposure``: selected traces without that mark, or of unknown duration, which are in no figure per exposure."""

    folder: str
    traces: int
    hosts: int
    versions: int
    exposure: float | None
    per: str | None
    first_day: str | None
    last_day: str | None
    unreadable: int
    without_exposure: int = 0


@dataclass(frozen=True)
class FleetTable:
    """A list of rows over a fleet, with the options of the request (``query``).

    ``name`` names the JSON schema (scalene-trace/fleet-NAME/1); ``rows_name`` is the key of the rows, by default ``name``.
    """

    name: str
    query: dict[str, Any]
    fleet: Coverage
    rows: list[Any]
    rows_name: str = ""


def fleet_json(table: FleetTable) -> dict[str, Any]:
    """The JSON document of a table."""
    document: dict[str, Any] = {"schema": f"scalene-trace/fleet-{table.name}/1", "query": table.query}
    return document | {"fleet": to_json(table.fleet), table.rows_name or table.name: to_json(table.rows)}


@dataclass(frozen=True)
class FleetTrace:
    """A trace of a fleet, or a file that could not be read (``reason``). ``recorded_s``: ``wall_s`` without pauses; ``value``: of the asked figure in it; None = no
    figure was asked for."""

    path: str
    trace_id: str
    host: str | None
    labels: dict[str, str]
    started_at: str | None
    wall_s: float | None
    python: str | None
    program: str | None
    processes: int | None
    lost_events: int | None
    reason: str | None
    value: float | None = None
    recorded_s: float | None = None


@dataclass(frozen=True)
class Indexed:
    """What an indexer did. ``files``: that it found; ``known``: of these, those that had a summary; ``traces``: that got one;
    ``unreadable``: those that could not be read; ``batches``: that it published; ``merged``: that it merged into others;
    ``left``: files that the next run reads, because the system failed (no space, no permission) or they changed."""

    folder: str
    files: int
    known: int
    traces: int
    unreadable: int
    batches: int
    merged: int
    seconds: float
    left: int = 0


@dataclass(frozen=True)
class FleetFigures:
    """Figures of several traces together. Sums are of :class:`..report.Line`, and named as there; None = in no trace.

    ``cpu_s_per``: CPU time for each recorded hour, or for each mark that was asked for, in the traces that have it. ``samples``: ticks behind ``cpu_s``.
    """

    cpu_s: float | None = None
    cpu_percent: float | None = None
    cpu_error_s: float | None = None
    cpu_s_per: float | None = None
    samples: int | None = None
    python_s: float | None = None
    native_s: float | None = None
    unclassified_s: float | None = None
    system_s: float | None = None
    gc_s: float | None = None
    parallel_native_s: float | None = None
    wait_s: float | None = None
    sleep_s: float | None = None
    disk_s: float | None = None
    runnable_s: float | None = None
    gil_s: float | None = None
    suspended_s: float | None = None
    growth_bytes: int | None = None
    growth_error_bytes: int | None = None
    alloc_bytes: int | None = None
    alloc_error_bytes: int | None = None
    live_at_peak_bytes: int | None = None
    live_at_peak_error_bytes: int | None = None
    live_at_end_bytes: int | None = None
    live_at_end_error_bytes: int | None = None
    copy_bytes: int | None = None
    gpu_s: float | None = None
    gpu_peak_bytes: int | None = None
    device_copy_bytes: int | None = None
    device_copy_s: float | None = None
    device_sync_s: float | None = None
    device_alloc_bytes: int | None = None
    device_live_at_peak_bytes: int | None = None


@dataclass(frozen=True)
class FleetTotals(FleetFigures):
    """Sums over the selected traces, and the highest of their peaks."""

    peak_bytes: int | None = None
    python_peak_bytes: int | None = None
    peak_rss_bytes: int | None = None
    device_peak_bytes: int | None = None


@dataclass(frozen=True)
class FleetLine(FleetFigures):
    """A line, or what is on no line of the user's (``file`` None). ``line`` and ``first_line`` are those of the last day;
    ``traces``, ``hosts``: how many have the figure that the rows are sorted by (None = not counted)."""

    file: str | None = None
    line: int | None = None
    function: str | None = None
    first_line: int | None = None
    source: str | None = None
    traces: int | None = None
    hosts: int | None = None


@dataclass(frozen=True)
class FleetFunction(FleetLine):
    """A function; ``line`` is its first line. Cumulative figures include what it calls."""

    cumulative_cpu_s: float | None = None
    cumulative_cpu_error_s: float | None = None
    cumulative_wait_s: float | None = None
    cumulative_alloc_bytes: int | None = None
    cumulative_alloc_error_bytes: int | None = None
    cumulative_live_at_peak_bytes: int | None = None
    cumulative_live_at_end_bytes: int | None = None


@dataclass(frozen=True)
class FleetReport:
    """Lines, or functions, with the totals; ``unattributed``: what is on no line of the user's. ``name``: report, functions or
    memory; ``by``: the figure that the rows are sorted by."""

    name: str
    query: dict[str, Any]
    fleet: Coverage
    by: str
    totals: FleetTotals
    rows: list[FleetLine]
    unattributed: FleetLine | None = None


def fleet_report_json(report: FleetReport) -> dict[str, Any]:
    """The JSON document of lines or functions."""
    document: dict[str, Any] = {"schema": f"scalene-trace/fleet-{report.name}/1", "query": report.query}
    document |= {"fleet": to_json(report.fleet), "totals": to_json(report.totals)}
    document["functions" if report.name == "functions" else "lines"] = to_json(report.rows)
    if report.unattributed is not None:
        document["unattributed"] = to_json(report.unattributed)
    return document


@dataclass(frozen=True)
class FleetLeak:
    """A line that leaks in ``traces`` traces, on ``hosts`` hosts. ``bytes_per_s``: mean rate in these traces; ``most_``: the
    highest; counts are of the judged samples of all of them together."""

    file: str
    line: int
    function: str | None
    first_line: int | None
    source: str | None
    traces: int
    hosts: int
    probability: float
    bytes_per_s: float
    error_bytes_per_s: float
    most_bytes_per_s: float
    live_at_end_bytes: int
    live_at_end_error_bytes: int
    mallocs: int
    frees: int


@dataclass(frozen=True)
class FleetStack:
    """A stack: its frames from the outermost on, as collapsed stacks have them, and its CPU time; ``traces``: how many have it
    as a row of its own."""

    stack: str
    cpu_s: float
    traces: int
