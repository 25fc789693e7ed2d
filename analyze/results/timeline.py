"""Results over time: memory, garbage collections, GPUs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .base import Table, table_json, to_json
from .trace import MarkInfo

#: Garbage collections observed together: time of the last one (s), its generation, and their number.
GcEvent = tuple[float, int, int]


@dataclass(frozen=True)
class TimelinePoint:
    """Memory of the process tree at one moment; ``trace`` counts the given files from 1."""

    trace: int
    t_s: float
    footprint_bytes: int | None
    python_footprint_bytes: int | None
    rss_bytes: int | None


@dataclass(frozen=True)
class GpuPoint:
    """GPUs during the time bin that begins at ``t_s``.

    ``gpu_percent``: utilization in percent of one GPU; None = unknown. ``gpu_memory_bytes``: the most memory in use; None =
    not polled in this bin.
    """

    trace: int
    t_s: float
    gpu_percent: float | None
    gpu_memory_bytes: int | None


@dataclass(frozen=True)
class Timeline(Table):
    """Memory over time.

    ``collections``: garbage collections of each trace, at most 200, in order of time. ``gpu``: its GPUs in a hundred time
    bins.
    """

    collections: list[list[GcEvent]] = field(default_factory=list)
    marks: list[MarkInfo] = field(default_factory=list)
    gpu: list[GpuPoint] = field(default_factory=list)


def timeline_json(timeline: Timeline) -> dict[str, Any]:
    """The document of ``scalene-analyze timeline --json``."""
    collections = [each for trace in timeline.collections for each in trace]
    more = {
        "collections": to_json(sorted(collections)),
        "marks": to_json(timeline.marks),
        "gpu": to_json(timeline.gpu),
    }
    return table_json(timeline) | more
