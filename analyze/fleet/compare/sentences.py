"""The sentences above the comparison of a fleet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from ....formats.units import counted
from ...diff.measures import MEASURES
from ...diff.results import BETTER, NOISE, WORSE
from ...diff.significance import LEAST_EFFECT
from ...results.fleet_comparison import FleetChange, FleetLineChange, FleetStatistics
from .metrics import is_level

#: The change that most lines share is mentioned from this ratio (minus 1) on.
_LEAST_SHARED = 0.03
#: Sides of which less ran while the other was recorded were recorded at different times.
_LEAST_TOGETHER = 0.5


def summary_of(
    totals: Mapping[str, FleetChange],
    lines: Sequence[FleetLineChange],
    statistics: FleetStatistics,
    unit: str,
    least_hosts: int,
    together: float | None,
) -> str:
    """Some sentences: the first metric as a whole, the lines that changed, what the lines share, and a warning where the sides
    were not recorded at the same time (``together``, as in FleetDiff)."""
    if not totals:
        return "The two sides have no metric that can be compared."
    name, total = next(iter(totals.items()))
    return " ".join(
        [
            *(_whole(name, total, unit, least_hosts), *_judged(lines), *_others(totals, unit)),
            *(*_shared(statistics), *_times(totals, unit, together)),
        ]
    )


def title(metric: str) -> str:
    """The name of a metric in a sentence."""
    names = {"cpu_s": "CPU time", "wait_s": "waiting time", "live_at_end_bytes": "memory at the end"}
    return names.get(metric) or (MEASURES[metric].title if metric in MEASURES else metric)


def per(metric: str, unit: str) -> str:
    """What a metric is divided by: "per hour"."""
    return "per trace" if is_level(metric) else f"per {unit}"


def _whole(name: str, change: FleetChange, unit: str, least_hosts: int) -> str:
    what = f"{title(name)} {per(name, unit)}"
    if change.ratio is None or change.low is None or change.high is None:
        hosts = f"{counted(change.hosts_before, 'host', 'hosts')} before, {counted(change.hosts_after, 'host', 'hosts')} after"
        return f"Not enough data: {hosts}, and verdicts need {least_hosts} on each side."
    percent = f"{100 * (change.ratio - 1):+.1f} %"
    span = f"(95 %: {100 * (change.low - 1):+.0f} to {100 * (change.high - 1):+.0f} %)"
    if change.verdict in (BETTER, WORSE):
        return f"{what[0].upper()}{what[1:]}: {percent} {span}."
    if change.low > 1 / (1 + LEAST_EFFECT) and change.high < 1 + LEAST_EFFECT:
        return f"No relevant change of {what}: {percent} {span}."
    return f"No significant change of {what}: {percent} {span}, which differences between hosts explain."


def _judged(lines: Sequence[FleetLineChange]) -> list[str]:
    found = []
    for verdict in (WORSE, BETTER):
        places = [each for each in lines if any(change.verdict == verdict for change in each.changes.values())]
        if places:
            name, change = next((n, c) for n, c in places[0].changes.items() if c.verdict == verdict)
            first = places[0]
            where = f"{PurePath(first.file or first.before_file or '').name}:{first.line or first.before_line}"
            percent = f" ({title(name)} {100 * (change.ratio - 1):+.1f} %)" if change.ratio is not None else ""
            more = f", first {where}{percent}" if len(places) > 1 else f": {where}{percent}"
            found.append(f"{counted(len(places), 'line is', 'lines are')} {verdict}{more}.")
    if not found and any(change.verdict == NOISE for each in lines for change in each.changes.values()):
        found.append("No line changed by more than noise explains.")
    return found


def _others(totals: Mapping[str, FleetChange], unit: str) -> list[str]:
    found = []
    for name, change in list(totals.items())[1:]:
        if change.verdict in (BETTER, WORSE) and change.ratio is not None:
            what = f"{title(name)} {per(name, unit)}"
            found.append(f"{what[0].upper()}{what[1:]}: {100 * (change.ratio - 1):+.1f} %.")
    return found


def _shared(statistics: FleetStatistics) -> list[str]:
    found = []
    for name, ratio in statistics.shared_ratio.items():
        if abs(ratio - 1) >= _LEAST_SHARED and not is_level(name):
            found.append(
                f"The hosts after differ by {100 * (ratio - 1):+.0f} % in {title(name)} on most lines, as hosts of one side differ among"
                f" themselves ({100 * statistics.spread[name]:.0f} %): each line is judged relative to that."
            )
    return found


def _times(totals: Mapping[str, FleetChange], unit: str, together: float | None) -> list[str]:
    if together is None or together >= _LEAST_TOGETHER or all(each.ratio is None for each in totals.values()):
        return []
    remedy = "Use --per NAME, or compare the same weekdays" if unit == "hour" else "Compare the same weekdays"
    return [
        "The two sides were recorded at different times: what all hosts of a time share (weekday, traffic) changes totals, and is in"
        f" no range. {remedy}."
    ]
