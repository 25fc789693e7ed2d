"""The tables about the recording as a whole: ``setting`` and ``loss``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ....formats.spool.layout import constants
from ....formats.spool.losses import Loss, recorder_loss, shim_losses
from ....formats.trace import schema
from ....formats.trace.text import storable

_C = constants()
_FEATURES = ("cpu", "wait", "task", "memory", "alloc", "copy", "children", "gpu")
_LARGEST_COUNT = 2**63 - 1


def setting_table(header: np.void, wall_ns: int, more: dict[str, str]) -> dict[str, Any]:
    """The ``setting`` table. ``header``: the spool's; ``more``: settings that are not in it, by name."""
    settings = {
        "format_version": schema.FORMAT_VERSION,
        "started_at": _iso_utc(int(header["start_real_ns"])),
        "wall_ns": str(wall_ns),
        "features": _features(header, "gpu_devices" in more),
        "cpu_interval_ns": str(header["cpu_interval_ns"]),
        "memory_threshold_bytes": str(header["memory_threshold_bytes"]),
        "alloc_interval": _alloc_interval(header),
        "copy_threshold_bytes": str(header["copy_threshold_bytes"]),
    } | more
    return {"name": list(settings), "value": [storable(value) for value in settings.values()]}


def has_lost(header: np.void) -> bool:
    """Whether records of the shim may be missing, by the counters in the spool's ``header``."""
    return any(count and loss.severity != "info" for loss, count in zip(shim_losses(), header["losses"], strict=False))


def loss_table(header: np.void, recorder_counts: Mapping[str, int]) -> dict[str, Any]:
    """The ``loss`` table: counters of the shim in the spool's ``header``, then the recorder's own, without zeros."""
    counted: list[tuple[Loss, int]] = list(zip(shim_losses(), header["losses"].tolist(), strict=False))
    counted += [(recorder_loss(name), count) for name, count in recorder_counts.items()]
    rows = [(loss.name, loss.severity, min(count, _LARGEST_COUNT), loss.text) for loss, count in counted if count]
    names = ("name", "severity", "count", "text")
    return {name: [row[column] for row in rows] for column, name in enumerate(names)}


def _iso_utc(real_ns: int) -> str:
    """ISO 8601, UTC. A time outside of the calendar (a damaged header) becomes the start of 1970."""
    try:
        return datetime.fromtimestamp(real_ns / 1e9, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC).isoformat(timespec="milliseconds")


def _features(header: np.void, has_gpu: bool) -> str:
    bits = int(header["features"])
    on = {name: bool(bits & _C[f"FEATURE_{name.upper()}"]) for name in ("cpu", "wait", "memory", "copy", "children")}
    on["alloc"] = on["memory"] and int(header["alloc_interval_bytes"]) > 0
    on["task"] = on["wait"]
    on["gpu"] = has_gpu
    return json.dumps([name for name in _FEATURES if on[name]])


def _alloc_interval(header: np.void) -> str:
    return "auto" if int(header["features"]) & _C["FEATURE_ALLOC_AUTO"] else str(header["alloc_interval_bytes"])
