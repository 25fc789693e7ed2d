"""The metrics that are compared between hosts."""

from __future__ import annotations

from ...diff.runs import LINE_MEASURES
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


class MetricError(ValueError):
    """A metric that cannot be compared; ``str()`` is two sentences."""


def is_level(metric: str) -> bool:
    """Is it a level, which does not grow with the time that is recorded? Then it is compared per trace."""
    return metric.startswith("live_") or "peak" in metric


def unit_of(metric: str) -> str:
    """s, bytes or "" (a number)."""
    return next((unit for ending, unit in (("_s", "s"), ("_bytes", "bytes")) if metric.endswith(ending)), "")


def chosen_metrics(fleet: Fleet, asked: str | None, least_sides: int = 1) -> list[str]:
    """The metrics to compare over compared_traces: the one that is asked for, or the usual ones that were recorded on so many
    sides. Raises MetricError if that one was not recorded, or has no ratio."""
    known = dict(queries.run(fleet.connection, "metrics_compared"))
    if asked is None:
        return [metric for metric in USUAL if known.get(metric, 0) >= least_sides]
    if asked in _SIGNED:
        raise MetricError(f"{asked} cannot be compared: it may be negative. Compare live_at_end_bytes.")
    if known and asked not in known:
        raise MetricError(f"No selected trace has the metric {asked}. Metrics: {', '.join(known)}.")
    if known and known[asked] < least_sides:
        raise MetricError(
            f"The metric {asked} was recorded on one side only. Both sides have {_both(known, least_sides)}."
        )
    return [asked] if known else []


def _both(known: dict[str, int], sides: int) -> str:
    return ", ".join(metric for metric, count in known.items() if count >= sides) or "none"
