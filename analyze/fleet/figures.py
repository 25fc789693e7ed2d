"""The rows of a summary: figures of a report that can be added up over traces (formats/fleet/schema.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...formats.fleet.schema import FIGURE_COLUMNS, MOST_TEXT
from ..report.reduction import Sums
from ..results.report import Leak, Line, Report, Totals

#: Figures of lines, functions and totals that add up, by the name that they have in the report.
ADDED = (
    *("cpu_s", "python_s", "native_s", "unclassified_s", "system_s", "gc_s", "parallel_native_s"),
    *("wait_s", "suspended_s", "growth_bytes", "alloc_bytes", "live_at_peak_bytes", "live_at_end_bytes", "copy_bytes"),
    *("gpu_s", "device_copy_bytes", "device_copy_s", "device_sync_s", "device_alloc_bytes"),
    "device_live_at_peak_bytes",
    *("cumulative_cpu_s", "cumulative_wait_s", "cumulative_alloc_bytes"),
    *("cumulative_live_at_peak_bytes", "cumulative_live_at_end_bytes"),
)
#: Figures of which the highest counts. The ``_unseen_`` bytes of the trace stand in the scope of totals, and those of a line
#: only where they are others.
HIGHEST = (
    *("peak_bytes", "python_peak_bytes", "peak_rss_bytes", "gpu_peak_bytes", "device_peak_bytes"),
    *("alloc_unseen_bytes", "live_unseen_bytes"),
)
#: Fields with figures of their own that add up.
_PARTS = ("waits", "device_copies")
#: Figure: the column of a row of sums with its variance.
_VARIANCES = {
    "cpu_s": "cpu_variance",
    "alloc_bytes": "alloc_variance",
    "live_at_peak_bytes": "live_at_peak_variance",
    "live_at_end_bytes": "live_at_end_variance",
    "gpu_s": "gpu_variance",
    **{
        f"cumulative_{name}": f"cumulative_{column}"
        for name, column in (
            ("cpu_s", "cpu_variance"),
            ("alloc_bytes", "alloc_variance"),
            ("live_at_peak_bytes", "live_at_peak_variance"),
            ("live_at_end_bytes", "live_at_end_variance"),
        )
    },
}
#: Figures of a leak, and the field with the standard error.
_LEAK = {
    "bytes_per_s": "error_bytes_per_s",
    "live_at_end_bytes": "live_at_end_error_bytes",
    "probability": None,
    "mallocs": None,
    "frees": None,
    "allocations_per_s": None,
}
#: The most characters of a name.
_MOST_NAME = 1_000

Columns = dict[str, list[Any]]


def figures(report: Report, sums: Sums, stacks: Mapping[str, float]) -> Columns:
    """The columns of the figures of one trace, of which ``report`` has the values and ``sums`` the variances; ``stacks``: CPU
    seconds by stack."""
    columns: Columns = {column.name: [] for column in FIGURE_COLUMNS}
    unseen = {name: getattr(report.unattributed, name) for name in ("alloc_unseen_bytes", "live_unseen_bytes")}
    variance = sum(row["cpu_variance"] for row in (*sums.lines.values(), sums.unattributed))
    _add(columns, {"scope": "total"}, report.totals, {"cpu_variance": variance}, {}, 0.0)
    if report.totals.peak_bytes is not None:  # every line's growth is as uncertain, also where it is 0
        growth_bytes = sum(line.growth_bytes or 0 for line in (*report.lines, report.unattributed))
        _append(columns, {"scope": "total"}, "growth_bytes", growth_bytes, sums.growth_variance)
    for name, value in unseen.items():
        if value:
            _append(columns, {"scope": "total"}, name, value)
    _add(columns, {"scope": "line"}, report.unattributed, sums.unattributed, unseen, sums.growth_variance)
    for line in report.lines:
        row = sums.lines[line.file, line.line]
        _add(columns, {"scope": "line"} | _place(line), line, row, unseen, sums.growth_variance)
    for function in report.functions:
        row = sums.functions[function.file, function.function, function.first_line]
        place = {"scope": "function"} | _place(function) | {"line": None}
        _add(columns, place, function, row, unseen, sums.growth_variance)
    for leak in report.leaks or ():
        _add_leak(columns, leak)
    for stack, value in stacks.items():
        _append(columns, {"scope": "stack", "stack": stack}, "cpu_s", value)
    return columns


def _place(row: Line | Leak) -> dict[str, Any]:
    return {
        "file": _name(row.file),
        "line": row.line,
        "function": _name(row.function),
        "first_line": row.first_line,
        "text": (row.source or "").strip()[:MOST_TEXT] or None,
    }


def _name(text: str | None) -> str | None:
    return None if text is None else text[:_MOST_NAME]


def _add(
    columns: Columns,
    place: Mapping[str, Any],
    row: Line | Totals,
    sums: Mapping[str, Any],
    unseen: Mapping[str, Any],
    growth_variance: float,
) -> None:
    for name in ADDED:
        if value := getattr(row, name, None):
            variance = sums.get(_VARIANCES.get(name, ""))
            if name == "growth_bytes":
                variance = sums.get("live_at_end_variance", 0.0) + growth_variance
            samples = getattr(row, "ticks", None) if name == "cpu_s" else None
            _append(columns, place, name, value, variance, samples)
    for part in _PARTS:
        for name, value in vars(getattr(row, part)).items():
            if value:
                _append(columns, place, name, value)
    for name in HIGHEST:
        value = getattr(row, name, None)
        if value and value != unseen.get(name):
            _append(columns, place, name, value)


def _add_leak(columns: Columns, leak: Leak) -> None:
    for name, error in _LEAK.items():
        if value := getattr(leak, name):
            variance = getattr(leak, error) ** 2 if error else None
            _append(columns, {"scope": "leak"} | _place(leak), name, value, variance)


def _append(
    columns: Columns,
    place: Mapping[str, Any],
    metric: str,
    value: float,
    variance: float | None = None,
    samples: int | None = None,
) -> None:
    for name in ("scope", "file", "line", "function", "first_line", "text", "stack"):
        columns[name].append(place.get(name))
    columns["metric"].append(metric)
    columns["value"].append(float(value))
    columns["variance"].append(variance)
    columns["samples"].append(samples)
