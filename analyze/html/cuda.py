"""The figures of GPUs in a page: utilization and memory over time and by stack, and calls of CUDA libraries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..report import cuda
from ..results.trace import TraceInfo
from ..trace import queries
from .bins import Bins
from .series import BinnedFigures, read_figures

if TYPE_CHECKING:
    from ..trace.connection import Connection

Json = dict[str, Any]

COPIES = ("h2d_bytes", "d2h_bytes", "d2d_bytes", "h2h_bytes", "unified_bytes")
CALLS = (*COPIES, "device_copy_us", "device_sync_us")


@dataclass(frozen=True)
class DeviceFigures:
    """``sums`` (figures that add up) and ``peaks`` (most memory) by stack and bin. ``track``: GPUs by bin; None = not used."""

    sums: list[BinnedFigures] = field(default_factory=list)
    peaks: list[BinnedFigures] = field(default_factory=list)
    track: Json | None = None


def device_figures(connection: Connection, trace: TraceInfo, bins: Bins) -> DeviceFigures:
    """The figures of GPUs and CUDA calls; empty without samples, so that a page without GPUs holds nothing about them."""
    track = _track(connection, bins) if trace.events["gpu"] else None
    sums, peaks = [], []
    if track is not None:
        charged = read_figures(connection, "binned_gpu_charges", ("gpu_us", "gpu_peak_bytes"), bins)
        sums.append(charged.only("gpu_us"))
        peaks.append(charged.only("gpu_peak_bytes"))
    if any(trace.events[name] for name in cuda.SAMPLERS):
        sums.append(read_figures(connection, "binned_devices", CALLS, bins))
    return DeviceFigures(sums, peaks, track)


def _track(connection: Connection, bins: Bins) -> Json | None:
    """Utilization of the program's GPUs in percent of one, and the most memory in bytes, by bin; None = unknown."""
    percents: list[float | None] = [None] * bins.count
    memory: list[int | None] = [None] * bins.count
    for index, share, size in queries.run(connection, "binned_gpu", **bins.parameters):
        percents[index] = share if share is None else round(share, 1)
        memory[index] = size
    return {"percent": percents, "memory": memory} if any(percents) or any(memory) else None


def short_places(connection: Connection) -> Json:
    """The lines ([file, line]) and functions ([file, function, first line]) that never used the GPU for as long as the driver
    averages over."""
    found: Json = {"lines": [], "functions": []}
    for row in queries.rows(connection, "gpu_figures"):
        if row["gpu_short"] and row["file"] is not None:
            names = ("file", "line") if row["level"] == "line" else ("file", "function", "first_line")
            found[f"{row['level']}s"].append([row[name] for name in names])
    return found
