"""Results that compare hosts, versions and days of a fleet; named as in the JSON output (docs/json.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .base import to_json
from .fleet import Coverage


@dataclass(frozen=True)
class FleetChange:
    """What a line, or all of a program, costs on both sides.

    ``before``, ``after``: cost for each unit of exposure (an hour, a mark; of levels such as live_at_end_bytes: a trace), over
    all hosts of the side. ``ratio``: after / before, between hosts; ``low``, ``high``: its 95 % interval; None = not compared.
    ``is_relative``: the three are apart from what all lines of a host share. ``p``: probability of so large a difference by noise
    alone, adjusted for the number of tests; None = not tested. ``verdict``: better, worse, noise, or not enough data; None = not
    tested. ``hosts_before``, ``hosts_after``: on how many hosts it runs (a total: on how many it was recorded); ``pairs``:
    how many of them were compared with themselves.
    """

    before: float | None
    after: float | None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    is_relative: bool = False
    p: float | None = None
    verdict: str | None = None
    hosts_before: int = 0
    hosts_after: int = 0
    pairs: int = 0


@dataclass(frozen=True)
class FleetLineChange:
    """A line on both sides. ``status``: same, edited, added or removed; fields of a side without the line are None.
    ``changes``: by metric."""

    status: str
    file: str | None
    line: int | None
    function: str | None
    source: str | None
    before_file: str | None
    before_line: int | None
    before_function: str | None
    before_source: str | None
    changes: dict[str, FleetChange]


@dataclass(frozen=True)
class FleetStatistics:
    """The basis of the verdicts, by metric where it is a dict.

    ``tests``: number of figures that were tested. ``spread``: relative standard deviation between hosts of what all lines of a
    host share. ``shared_ratio``: after / before that most lines share, which is attributed to the hosts. ``other_lines``: how many
    lines have less than a thousandth of the cost; they are compared as one. ``left_out``: traces that were not compared, since
    their host or exposure is unknown or zero.
    """

    tests: int
    spread: dict[str, float]
    shared_ratio: dict[str, float]
    other_lines: dict[str, int]
    left_out: int


@dataclass(frozen=True)
class FleetDiff:
    """A comparison of two selections. ``fleet``: both together; ``sides``: before and after. ``unit``: what costs are for: hour,
    or the mark of --per. ``together``: the part (0 to 1) of the traces of a side, of that with less, that ran while the other was
    recorded; what all hosts of a time share is in no range of ``totals``. None = unknown."""

    query: dict[str, Any]
    fleet: Coverage
    sides: list[Coverage]
    unit: str
    summary: str
    totals: dict[str, FleetChange]
    together: float | None
    lines: list[FleetLineChange]
    unattributed: dict[str, FleetChange]
    statistics: FleetStatistics


@dataclass(frozen=True)
class TrendPoint:
    """A day, a version or another value of a label.

    ``value``: cost for each unit of exposure over all hosts; ``level``: the same as if all hosts were there on all days, and
    ``low``, ``high`` its 95 % interval; ``hosts``, ``traces``: their numbers. ``ratio``: of the level to that of the point before;
    None = the first.
    """

    name: str
    value: float
    level: float | None
    low: float | None
    high: float | None
    ratio: float | None
    hosts: int
    traces: int


@dataclass(frozen=True)
class TrendStep:
    """The level is another one from the point ``name`` on. ``ratio``: after / before, ``low`` and ``high`` its 95 % interval.
    ``p``: probability of so large a step, anywhere in any of the series, by noise alone."""

    name: str
    ratio: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class TrendSeries:
    """The costs of a line, or of all (``file`` None). ``spread``: relative standard deviation of what all hosts of a point share,
    beyond what hosts differ by; None = unknown."""

    file: str | None
    line: int | None
    function: str | None
    source: str | None
    points: list[TrendPoint]
    steps: list[TrendStep]
    spread: float | None


@dataclass(frozen=True)
class FleetTrend:
    """The series of a metric: all of it, then lines. ``unit``: what costs are for: hour, trace, or the mark of --per.
    ``notes``: sentences about what was not searched, or not used."""

    query: dict[str, Any]
    fleet: Coverage
    metric: str
    unit: str
    notes: list[str]
    total: TrendSeries | None
    lines: list[TrendSeries]


@dataclass(frozen=True)
class Peers:
    """Hosts that are compared with each other. ``name``: what they have in common, as NAME=VALUE; ``spread``: relative standard
    deviation of what all lines of a host share; None = too few hosts."""

    name: str
    hosts: int
    spread: float | None


@dataclass(frozen=True)
class HostCompared:
    """A host, or a line on a host (``file`` not None), among its peers.

    ``value``: its cost for each unit of exposure; ``ratio``: to the mean of the other hosts, of which odd ones are left out; of a
    line apart from what all lines of the host share; ``low``, ``high``: its 95 % interval. ``p``: probability of so large a
    distance of any host or line by noise alone. ``verdict``: worse (costs more), better, or noise. ``traces``: number of the host's traces.
    """

    host: str
    peers: str
    file: str | None
    line: int | None
    function: str | None
    source: str | None
    value: float
    ratio: float
    low: float
    high: float
    p: float
    verdict: str
    traces: int


@dataclass(frozen=True)
class FleetOutliers:
    """Hosts among their peers. ``rows``: hosts and lines that differ, those that cost most more first; then the other hosts.
    ``tests``: number of hosts, and lines on hosts, that were tested. ``unit``: as in FleetTrend."""

    query: dict[str, Any]
    fleet: Coverage
    metric: str
    unit: str
    notes: list[str]
    peers: list[Peers]
    tests: int
    rows: list[HostCompared]


def fleet_outliers_json(found: FleetOutliers) -> dict[str, Any]:
    """The document of ``scalene-analyze fleet outliers --json``."""
    document: dict[str, Any] = {"schema": "scalene-trace/fleet-outliers/1"}
    document |= to_json(found)
    return document


def fleet_trend_json(trend: FleetTrend) -> dict[str, Any]:
    """The document of ``scalene-analyze fleet trend --json``."""
    document: dict[str, Any] = {"schema": "scalene-trace/fleet-trend/1"}
    document |= to_json(trend)
    return document


def fleet_diff_json(diff: FleetDiff) -> dict[str, Any]:
    """The document of ``scalene-analyze fleet diff --json``."""
    document: dict[str, Any] = {"schema": "scalene-trace/fleet-diff/1"}
    document |= to_json(diff)
    return document
