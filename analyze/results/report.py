"""Results of the report: totals, lines, functions and leaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .base import to_json
from .findings import Finding
from .libraries import CalleeTime, LibraryTime, NativeFunction
from .trace import TraceInfo
from .trend import Point

#: The word for each class of waiting, in every text. Names in the trace, the views and the JSON are these too, in lower case.
WAIT_WORDS = {"sleep": "sleep", "disk": "disk", "runnable": "runnable", "gil": "GIL"}


@dataclass(frozen=True)
class Waits:
    """Waiting time by its class."""

    sleep_s: float | None = None
    disk_s: float | None = None
    runnable_s: float | None = None
    gil_s: float | None = None


@dataclass(frozen=True)
class DeviceCopies:
    """Bytes that CUDA libraries were asked to copy, by direction (h = host, d = device; unified = the call does not say)."""

    h2d_bytes: int | None = None
    d2h_bytes: int | None = None
    d2d_bytes: int | None = None
    h2h_bytes: int | None = None
    unified_bytes: int | None = None


@dataclass(frozen=True)
class Totals:
    """Sums over all selected samples, attributed or not, and the peaks of the process tree."""

    cpu_s: float | None = None
    python_s: float | None = None
    native_s: float | None = None
    system_s: float | None = None
    gc_s: float | None = None
    wait_s: float | None = None
    waits: Waits = Waits()
    peak_bytes: int | None = None
    python_peak_bytes: int | None = None
    peak_rss_bytes: int | None = None
    alloc_bytes: int | None = None
    copy_bytes: int | None = None
    gpu_s: float | None = None
    gpu_peak_bytes: int | None = None
    suspended_s: float | None = None
    device_copy_bytes: int | None = None
    device_copies: DeviceCopies = DeviceCopies()
    device_copy_s: float | None = None
    device_sync_s: float | None = None
    device_alloc_bytes: int | None = None
    device_peak_bytes: int | None = None
    live_at_end_bytes: int | None = None
    unclassified_s: float | None = None


@dataclass(frozen=True)
class Line:
    """The cost of a line. ``file`` and the fields up to ``source`` are None for samples without a line of the user's.

    ``trend_class``: flat, growing, sawtooth or spike; None if there is no trend. ``gpu_short``: the line never used the GPU
    for as long as its driver averages over, so ``gpu_s`` is only an estimate. The ``_unseen_`` bytes are what the line may
    have allocated, or held, without any sample (95 %).
    """

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
    cpu_error_s: float | None = None
    cpu_percent_error: float | None = None
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
    native_libraries: list[LibraryTime] | None = None
    suspended_s: float | None = None
    trend_class: str | None = None
    gpu_short: bool | None = None
    device_copy_bytes: int | None = None
    device_copies: DeviceCopies = DeviceCopies()
    device_copy_s: float | None = None
    device_sync_s: float | None = None
    device_alloc_bytes: int | None = None
    device_live_at_peak_bytes: int | None = None
    live_at_peak_error_bytes: int | None = None
    live_at_end_error_bytes: int | None = None
    alloc_unseen_bytes: int | None = None
    callees: list[CalleeTime] | None = None
    live_unseen_bytes: int | None = None
    growth_error_bytes: int | None = None
    unclassified_s: float | None = None


@dataclass(frozen=True)
class Function(Line):
    """The cost of a function; ``line`` is its first line. Cumulative figures include callees and count recursion once."""

    cumulative_cpu_s: float | None = None
    cumulative_cpu_error_s: float | None = None
    cumulative_wait_s: float | None = None
    cumulative_alloc_bytes: int | None = None
    cumulative_alloc_error_bytes: int | None = None
    cumulative_live_at_peak_bytes: int | None = None
    cumulative_live_at_peak_error_bytes: int | None = None
    cumulative_live_at_end_bytes: int | None = None
    cumulative_live_at_end_error_bytes: int | None = None


@dataclass(frozen=True)
class Leak:
    """A line that leaks. Counts are of the judged samples; ``_per_s`` is per second of the judged time.

    ``_error_`` and ``error_`` mark standard errors. ``age_s``: mean age of the blocks that were alive when judged. ``type``
    (None = not a Python object), ``allocator`` and its ``family`` (pools, python, native, mapping, frames, arenas) are those of most
    of the bytes. ``native_stack``: the native functions, from the one that Python called to the one that asked for the
    memory, of most of the bytes that were alive at the end; empty if allocations were recorded without native stacks.
    """

    file: str
    line: int
    function: str
    probability: float
    bytes_per_s: float
    mallocs: int
    frees: int
    live_at_end_bytes: int
    live_at_end_error_bytes: int
    first_line: int
    source: str | None
    error_bytes_per_s: float
    allocations_per_s: float
    age_s: float | None
    type: str | None
    allocator: str
    family: str
    trend: list[Point]
    native_stack: list[NativeFunction] = field(default_factory=list)


@dataclass(frozen=True)
class Package:
    """CPU time and waiting time that are charged to no line of the user's, by the package of the innermost Python frame.

    ``name``: the top folder or module in site-packages, a module of the standard library (``is_standard``), or the name of
    another file; both None = there was no Python stack.
    """

    name: str | None
    is_standard: bool | None
    cpu_s: float
    cpu_percent: float
    wait_s: float | None = None


@dataclass(frozen=True)
class Report:
    """The report. ``findings`` are what to read first. ``sources`` (file -> lines of text) serves renderers and is not part of the JSON."""

    query: dict[str, Any]
    traces: list[TraceInfo]
    totals: Totals
    timeline: list[Point] | None
    lines: list[Line]
    unattributed: Line
    functions: list[Function]
    leaks: list[Leak] | None = None
    outside: list[Package] | None = None
    findings: list[Finding] = field(default_factory=list)
    sources: Mapping[str, list[str]] = field(default_factory=dict, metadata={"json": False})

    @property
    def lacks_stacks(self) -> bool:
        """Whether an interpreter was recorded without Python stacks, so that Python code may be what has no line."""
        return any(trace.lacks_stacks for trace in self.traces)


def report_json(report: Report) -> dict[str, Any]:
    """The document of ``scalene-analyze --json``."""
    document: dict[str, Any] = {"schema": "scalene-trace/report/1"}
    document |= to_json(report)
    return document
