"""The metrics that are compared between hosts."""

from __future__ import annotations

from ...diff.measures import LINE_MEASURES
from ...trace import queries
from ..opening import Fleet

#: The metrics that are compared if none is asked for: those that ``diff`` judges on lines, but for growth, which may be negative.
#: Memory is compared at the ends, which add up, and not at the peaks of lines, of which summaries have no total.
USUAL = tuple(
    "live_at_end_bytes" if each.name == "live_at_peak_bytes" else each.name
    for each in LINE_MEASURES
    if not each.part_of and not each.is_signed
)
#: Figures that may be negative have no ratio.
_SIGNED = ("growth_bytes",)
#: Families of figures that a trace records together, and those of them that are hardly ever 0: summaries have no zeros, so these show
#: that the others were recorded too. CPU time always is.
_FAMILIES = (
    (("cpu_s", "python_s", "native_s", "unclassified_s", "system_s", "gc_s"), ("cpu_s", "wait_s")),
    (("wait_s", "sleep_s", "disk_s", "runnable_s", "gil_s", "suspended_s"), ("wait_s", "suspended_s")),
    (("alloc_bytes", "live_at_end_bytes", "copy_bytes"), ("alloc_bytes", "alloc_unseen_bytes")),
    (("python_peak_bytes",), ("peak_bytes",)),
    (("gpu_s", "gpu_peak_bytes"), ("gpu_s", "gpu_peak_bytes")),
)
#: Figures of which no other one may be there: if a trace of a host has them, all of the host's traces recorded them.
_OF_HOSTS = ("copy_bytes", "gpu_s", "gpu_peak_bytes")
#: Calls of CUDA libraries, by the starts of the names of their figures.
_OF_CUDA = ("device_", "h2d_", "d2h_", "d2d_", "h2h_", "unified_")


class MetricError(ValueError):
    """A metric that cannot be compared; ``str()`` is two sentences."""


def is_level(metric: str) -> bool:
    """Is it a level, which does not grow with the time that is recorded? Then it is compared per trace."""
    return metric.startswith("live_") or "peak" in metric


def shown_by(metric: str) -> tuple[list[str], bool]:
    """The totals of which a trace has at least one if it recorded ``metric``, be it 0; and do all traces of a host count if one of
    them has such a total?"""
    known = next((shown for names, shown in _FAMILIES if metric in names), ())
    return [metric, *known], metric in _OF_HOSTS or metric.startswith(_OF_CUDA)


def unit_of(metric: str) -> str:
    """s, bytes or "" (a number)."""
    return next((unit for ending, unit in (("_s", "s"), ("_bytes", "bytes")) if metric.endswith(ending)), "")


def chosen_metrics(fleet: Fleet, asked: str | None, least_sides: int = 1) -> list[str]:
    """The metrics to compare over compared_traces: the one that is asked for, or the usual ones that were recorded on so many
    sides. Raises MetricError if no trace, or only one side, has any of that one, or if it has no ratio."""
    known = dict(queries.run(fleet.connection, "metrics_compared"))
    if asked is None:
        return [metric for metric in USUAL if known.get(metric, 0) >= least_sides]
    if asked in _SIGNED:
        raise MetricError(f"{asked} cannot be compared: it may be negative. Compare live_at_end_bytes.")
    if known and asked not in known:
        raise MetricError(f"No selected trace has the metric {asked}. Metrics: {', '.join(known)}.")
    if known and known[asked] < least_sides:
        raise MetricError(f"Only one side has any of the metric {asked}. Both sides have {_both(known, least_sides)}.")
    return [asked] if known else []


def _both(known: dict[str, int], sides: int) -> str:
    return ", ".join(metric for metric, count in known.items() if count >= sides) or "none"
