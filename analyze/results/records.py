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
class Waits:
    """Waiting time by what was waited for."""

    sleep_s: float | None = None
    disk_s: float | None = None
    runnable_s: float | None = None
    gil_s: float | None = None


@dataclass(frozen=True)
class DeviceCopies:
    """Bytes that CUDA libraries were asked to copy, by direction (h = host, d = device; unified = not said)."""

    h2d_bytes: int | None = None
    d2h_bytes: int | None = None
    d2d_bytes: int | None = None
    h2h_bytes: int | None = None
    unified_bytes: int | None = None


@dataclass(frozen=True)
class Totals:
    """Sums over all samples of the selection, attributed or not; peaks of the process tree."""

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


@dataclass(frozen=True)
class SymbolTime:
    """Native time of a function of a library."""

    name: str
    native_s: float


@dataclass(frozen=True)
class LibraryTime:
    """Native time in a library (None = code in no known image), and its functions with most of it.

    ``image``: extension, interpreter, support, shim; None = not known.
    """

    library: str | None
    native_s: float
    symbols: list[SymbolTime]
    image: str | None = None


@dataclass(frozen=True)
class Line:
    """What a line costs. ``file`` and what follows up to ``source`` are None for samples without a line; ``trend_class``
    (flat, growing, sawtooth, spike) is None where there is no trend; ``gpu_short``: never at the GPU for as long as its driver
    averages over, so that ``gpu_s`` is a guess."""

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


@dataclass(frozen=True)
class Function(Line):
    """What a function costs; ``line`` is its first line. Cumulative: with all that it calls, recursion counted once."""

    cumulative_cpu_s: float | None = None


@dataclass(frozen=True)
class Leak:
    """A line that leaks. Counts are of judged samples, ``_per_s`` is over the judged time.

    ``_error_``, ``error_``: standard errors; ``age_s``: mean age of what was alive when judged; ``type`` (None =
    no Python object), ``allocator`` and its ``family`` (pools, python, native, mapping, frames): those of most bytes.
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
    leaks: list[Leak] | None = None
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
class MemoryRow:
    """What a line, function, type or allocator allocated; estimates, each with its standard error.

    ``file`` to ``source`` are None unless rows are by line or function, ``type`` unless by type, ``allocator`` and
    ``family`` (pools, python, native, mapping, frames) unless by allocator. Temporary is what was freed by the line that
    allocated it, or within the limits that were asked for. ``died_young`` were freed before a garbage collection,
    ``survived`` lived through one (None = no Python); ``mean_lifetime_s`` is of those that were freed.
    """

    file: str | None = None
    line: int | None = None
    function: str | None = None
    first_line: int | None = None
    source: str | None = None
    type: str | None = None
    allocator: str | None = None
    family: str | None = None
    samples: int = 0
    alloc_bytes: int = 0
    alloc_error_bytes: int = 0
    allocations: int = 0
    allocations_error: int = 0
    live_at_peak_bytes: int | None = None
    live_at_peak_error_bytes: int | None = None
    live_at_end_bytes: int = 0
    live_at_end_error_bytes: int = 0
    temporary_bytes: int = 0
    temporary_error_bytes: int = 0
    temporary_allocations: int = 0
    died_young: int | None = None
    survived: int | None = None
    mean_lifetime_s: float | None = None


@dataclass(frozen=True)
class MemoryPart:
    """A part of a resident set; ``share`` of it, 0 to 1. ``bytes`` is None where it was not recorded."""

    name: str
    bytes: int | None
    share: float | None


@dataclass(frozen=True)
class Reconciliation:
    """What the resident set of the process tree consisted of. ``moment``: peak or end. ``parts`` add up to rss_bytes."""

    trace: int
    moment: str
    t_s: float
    processes: int
    rss_bytes: int
    parts: list[MemoryPart]
    reserved_bytes: int


@dataclass(frozen=True)
class MemoryPeak:
    """The highest footprint of a trace's process tree, and when it was."""

    trace: int
    t_s: float
    footprint_bytes: int


@dataclass(frozen=True)
class MemoryReport:
    """Who allocated what. totals = rows + unattributed (without a frame of the user's); imports are a part of totals."""

    query: dict[str, Any]
    traces: list[TraceInfo]
    peaks: list[MemoryPeak]
    totals: MemoryRow
    memory: list[MemoryRow]
    unattributed: MemoryRow
    imports: MemoryRow
    reconciliation: list[Reconciliation]


@dataclass(frozen=True)
class LibraryRow:
    """Native time in a function of a library (``symbol`` None: not known which); user CPU time.

    ``library``, ``path`` and ``image`` (extension, interpreter, support, shim) are None for code in no known image;
    ``file``, ``line``, ``function``: the line that most of it was spent for, None = none of the user's.
    """

    library: str | None
    symbol: str | None
    image: str | None
    path: str | None
    ticks: int
    native_s: float
    parallel_native_s: float
    native_percent: float
    file: str | None
    line: int | None
    function: str | None


@dataclass(frozen=True)
class ProcessInfo:
    """A process, or rather an image: exec starts a new one. ``cpu_s`` is exact, its three parts are sampled.

    ``depth``: 0 for the root, 1 for its children, … ``peak_bytes``: highest footprint, with what it inherited by fork.
    """

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
    depth: int
    python_s: float | None
    native_s: float | None
    system_s: float | None
    growth_bytes: int | None
    peak_bytes: int | None


@dataclass(frozen=True)
class ThreadInfo:
    """A thread. CPU times are of its ticks, waits None where they were not recorded; ``tid`` and ``name`` are the
    system's."""

    trace: int
    process: int
    thread: int
    tid: int | None
    name: str | None
    start_s: float | None
    end_s: float | None
    cpu_s: float | None
    python_s: float | None
    native_s: float | None
    system_s: float | None
    wait_s: float | None
    waits: Waits


@dataclass(frozen=True)
class TaskRow:
    """Tasks of asyncio that were suspended on a line. ``name``: with ``*`` for numbers, None = could not be read;
    ``coroutine``: the outermost; ``file`` and what follows up to ``source`` are None where no frame is the user's;
    ``suspended_s``: summed over the ``tasks``."""

    trace: int
    name: str | None
    coroutine: str | None
    tasks: int
    suspended_s: float
    file: str | None
    line: int | None
    function: str | None
    first_line: int | None
    source: str | None


@dataclass(frozen=True)
class Table:
    """One list of rows with its surroundings. ``name`` names the schema (scalene-trace/NAME/1), ``rows_name`` the list."""

    name: str
    query: dict[str, Any]
    traces: list[Any]
    rows: list[Any]
    rows_name: str = ""


@dataclass(frozen=True)
class MarkInfo:
    """Something that was said while recording. ``what``: mark, pause or set; ``end_s``: None = a moment, or its end was
    not reached; ``pid``: of the program's process that set it, None = from outside."""

    trace: int
    what: str
    text: str
    t_s: float
    end_s: float | None
    pid: int | None


#: Garbage collections: when the last of them was noticed (s), of which generation, how many.
Mark = tuple[float, int, int]


@dataclass(frozen=True)
class GpuPoint:
    """GPUs in the piece of the time that begins at ``t_s``: how busy, in percent of one (None = not told), and the most
    memory on them (None = no look)."""

    trace: int
    t_s: float
    gpu_percent: float | None
    gpu_memory_bytes: int | None


@dataclass(frozen=True)
class Timeline(Table):
    """Memory over time; ``collections`` holds the garbage collections of each trace, at most 200, in order of time;
    ``gpu`` what its GPUs did, in a hundred pieces of the time."""

    collections: list[list[Mark]] = field(default_factory=list)
    marks: list[MarkInfo] = field(default_factory=list)
    gpu: list[GpuPoint] = field(default_factory=list)


@dataclass(frozen=True)
class Info(Table):
    """What traces say of themselves: processes as rows, and marks."""

    marks: list[MarkInfo] = field(default_factory=list)


def sorted_rows(rows: list[Any], sort: str) -> list[Any]:
    """Rows by the field ``sort``: numbers from the largest, texts from A, None last. Ties keep their order."""
    known = [row for row in rows if getattr(row, sort) is not None]
    unknown = [row for row in rows if getattr(row, sort) is None]
    is_name = sort in ("line", "first_line") or any(isinstance(getattr(row, sort), str) for row in known[:1])
    return sorted(known, key=lambda row: getattr(row, sort), reverse=not is_name) + unknown


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


def memory_json(report: MemoryReport) -> dict[str, Any]:
    """The document of ``scalene-analyze memory --json``."""
    document: dict[str, Any] = {"schema": "scalene-trace/memory/1"}
    document |= to_json(report)
    return document


def timeline_json(timeline: Timeline) -> dict[str, Any]:
    """The document of ``scalene-analyze timeline --json``."""
    collections = [each for trace in timeline.collections for each in trace]
    beside = {
        "collections": to_json(sorted(collections)),
        "marks": to_json(timeline.marks),
        "gpu": to_json(timeline.gpu),
    }
    return table_json(timeline) | beside


def info_json(info: Info) -> dict[str, Any]:
    """The document of ``scalene-analyze info --json``."""
    return table_json(info) | {"marks": to_json(info.marks)}


def table_json(table: Table) -> dict[str, Any]:
    """The document of the other commands' ``--json``."""
    document: dict[str, Any] = {"schema": f"scalene-trace/{table.name}/1", "query": table.query}
    return document | {"traces": to_json(table.traces), table.rows_name or table.name: to_json(table.rows)}
