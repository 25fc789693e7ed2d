"""Results about allocations, and about the parts of the resident set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .base import to_json
from .trace import TraceInfo


@dataclass(frozen=True)
class MemoryRow:
    """Allocations of a line, function, type or allocator: estimates, each with its standard error.

    ``file`` to ``source`` are None unless rows are by line or function, ``type`` unless by type, ``allocator`` and
    ``family`` (pools, python, native, mapping, frames, arenas) unless by allocator. Temporary allocations were freed by the line
    that made them, or within the limits that were asked for. ``died_young`` were freed before a garbage collection,
    ``survived`` lived through one (None = not Python's); ``mean_lifetime_s`` is the mean of those that were freed. The
    ``_unseen_`` bytes are what may have been allocated, or held, without any sample (95 %).
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
    alloc_unseen_bytes: int = 0
    live_unseen_bytes: int = 0


@dataclass(frozen=True)
class MemoryPart:
    """A part of a resident set; ``share`` is 0 to 1. ``bytes`` and ``share`` are None if the part was not recorded."""

    name: str
    bytes: int | None
    share: float | None


@dataclass(frozen=True)
class Reconciliation:
    """The parts of the process tree's resident set at one moment (peak or end). ``parts`` add up to ``rss_bytes``.

    ``shared_mapped_bytes``: shared anonymous mappings, in the part ``shared`` alone; None = unknown, and ``mappings`` has
    them, too."""

    trace: int
    moment: str
    t_s: float
    processes: int
    rss_bytes: int
    parts: list[MemoryPart]
    reserved_bytes: int
    shared_mapped_bytes: int | None = None


@dataclass(frozen=True)
class MemoryPeak:
    """The highest footprint of a trace's process tree, and its time."""

    trace: int
    t_s: float
    footprint_bytes: int


@dataclass(frozen=True)
class MemoryReport:
    """Allocations. totals = memory + unattributed (samples without a frame of the user's); imports are a part of totals."""

    query: dict[str, Any]
    traces: list[TraceInfo]
    peaks: list[MemoryPeak]
    totals: MemoryRow
    memory: list[MemoryRow]
    unattributed: MemoryRow
    imports: MemoryRow
    reconciliation: list[Reconciliation]


def memory_json(report: MemoryReport) -> dict[str, Any]:
    """The document of ``scalene-analyze memory --json``."""
    document: dict[str, Any] = {"schema": "scalene-trace/memory/1"}
    document |= to_json(report)
    return document
