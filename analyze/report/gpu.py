"""GPU time and GPU memory of lines and functions (docs/design/gpu.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..results.timeline import GpuPoint
from ..trace import queries
from .row_index import FUNCTION, LINE, Row, RowIndex

if TYPE_CHECKING:
    from ..results.trace import TraceInfo
    from ..trace.connection import Connection
    from ..trace.selection import Selection

#: The columns of a row without GPU samples.
NO_GPU: Row = {"gpu_s": 0.0, "gpu_variance": 0.0, "gpu_peak_bytes": None, "gpu_short": False}


def add_gpu(connection: Connection, has_gpu: bool, lines: list[Row], functions: list[Row], rest: Row) -> int | None:
    """Adds gpu_s, gpu_variance, gpu_peak_bytes and gpu_short to rows of lines.sql and functions.sql, and to the row of
    unattributed.sql (``rest``). A line with GPU samples only becomes a new row.

    Returns the peak GPU memory of the process tree in bytes; None if no sampler was on.
    """
    for row in (*lines, *functions, rest):
        row |= NO_GPU
    if not has_gpu:
        return None
    peak: int = queries.rows(connection, "gpu_peak")[0]["gpu_peak_bytes"]
    tables = {"line": RowIndex(lines, LINE, rest), "function": RowIndex(functions, FUNCTION, rest)}
    for each in queries.rows(connection, "gpu_figures"):
        row = rest if each["file"] is None else tables[each["level"]].at(each)
        row.update({name: each[name] for name in NO_GPU})
    if not peak:
        for row in (*lines, *functions, rest):
            row["gpu_peak_bytes"] = 0
    return peak


def merged_gpu(rows: Iterable[Row]) -> Row:
    """The GPU figures of the same row in several traces, merged."""
    known = list(rows)
    peaks = [row["gpu_peak_bytes"] for row in known if row["gpu_peak_bytes"] is not None]
    busy = [row for row in known if row["gpu_s"]]
    return {
        "gpu_s": sum(row["gpu_s"] for row in known),
        "gpu_variance": sum(row["gpu_variance"] for row in known),
        "gpu_peak_bytes": max(peaks, default=None),
        "gpu_short": bool(busy) and all(row["gpu_short"] for row in busy),
    }


#: Time bins of a GPU track.
_BINS = 100


def gpu_points(connection: Connection, info: TraceInfo, selection: Selection, trace: int) -> list[GpuPoint]:
    """Utilization and memory of the GPUs of the one opened trace in a hundred time bins of the selection.

    Bins without samples are absent. ``trace`` becomes the trace number of the points.
    """
    if not info.events["gpu"]:
        return []
    origin_ns = max(selection.from_ns or 0, 0)
    end_ns = round((info.wall_s or 0.0) * 1e9)
    end_ns = end_ns if selection.to_ns is None else min(selection.to_ns, end_ns)
    width_ns = max(-(-(end_ns - origin_ns) // _BINS), 1)
    rows = queries.run(connection, "binned_gpu", origin_ns=origin_ns, bin_ns=width_ns, bins=_BINS)
    return [GpuPoint(trace, (origin_ns + bin_ * width_ns) / 1e9, share, size) for bin_, share, size in rows]
