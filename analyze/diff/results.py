"""Results of a comparison: plain frozen records, named as in the JSON output (docs/json.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..results.base import to_json
from ..results.trace import TraceInfo

BETTER, WORSE, NOISE = "better", "worse", "noise"
#: What stands in the place of a verdict.
NOT_TESTED = "not tested"


@dataclass(frozen=True)
class Change:
    """One figure on both sides: the means of the runs, and the same per second (None for figures that do not grow with time).

    ``ratio``: after / before; None if before is zero or figures may be negative. ``low`` and ``high``: 95 % interval of the
    ratio, or of the difference if figures may be negative (growth_bytes). These three are of the figures per second if those
    were compared. ``p``: probability of a difference at least as large by noise alone, adjusted for the number of tests;
    None = not tested. ``verdict``: better, worse or noise; None = not tested, or not judged.
    """

    before: float | None = None
    after: float | None = None
    before_per_s: float | None = None
    after_per_s: float | None = None
    difference: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    verdict: str | None = None

    def compared(self, per_second: bool) -> tuple[float | None, float | None]:
        """The figures that were compared: before, after. ``per_second`` selects the figures per second if they exist."""
        has_rate = per_second and (self.before_per_s is not None or self.after_per_s is not None)
        return (self.before_per_s, self.after_per_s) if has_rate else (self.before, self.after)

    @property
    def shown_verdict(self) -> str:
        """The verdict for people: "not tested" if both sides have the figure and it is too small, or a part of another."""
        is_untested = self.verdict is None and self.p is None and self.difference is not None
        return self.verdict or (NOT_TESTED if is_untested else "")

    def moved(self, per_second: bool) -> float:
        """The difference of the compared figures; a missing side counts as 0."""
        before, after = self.compared(per_second)
        return (after or 0.0) - (before or 0.0)


Changes = dict[str, Change | None]  #: by measure; None = not recorded on both sides


@dataclass(frozen=True)
class LineChange:
    """A line on both sides. ``status``: same, edited, added or removed; fields of a side without the line are None."""

    status: str
    file: str | None
    line: int | None
    function: str | None
    source: str | None
    before_file: str | None
    before_line: int | None
    before_function: str | None
    before_source: str | None
    changes: Changes

    @property
    def is_judged(self) -> bool:
        """Is a figure of the line better or worse?"""
        return any(each is not None and each.verdict in (BETTER, WORSE) for each in self.changes.values())

    def change(self, name: str) -> Change:
        """The change of a measure; an empty one if it was not recorded."""
        return self.changes.get(name) or Change()

    @property
    def place(self) -> tuple[str, int]:
        """File and line number after, or before if the line was removed."""
        file, line = (self.file, self.line) if self.file is not None else (self.before_file, self.before_line)
        return file or "", line or 0

    @property
    def name(self) -> str:
        """The function after, or before if the line was removed."""
        return (self.function if self.file is not None else self.before_function) or ""


@dataclass(frozen=True)
class GateResult:
    """A condition of --fail-on and whether it was met; ``text`` is a phrase for the reader."""

    gate: str
    failed: bool
    text: str


@dataclass(frozen=True)
class Statistics:
    """The basis of the verdicts.

    ``sigma``: relative standard deviation between runs, by measure; ``assumed``: measures for which it was assumed because
    no side has two runs. ``detectable_ratio``: the smallest increase of the busiest line that would be distinguished from
    noise; None without CPU samples. ``shared_ratio``: by measure, the ratio that most lines have in common, which is
    attributed to the machine (:mod:`shared_change`); absent if no such ratio is significant.
    """

    runs_before: int
    runs_after: int
    tests: int
    sigma: dict[str, float]
    assumed: list[str]
    detectable_ratio: float | None
    shared_ratio: dict[str, float]


@dataclass(frozen=True)
class Diff:
    """A comparison. ``traces``: those of before, then those of after. ``advice``: how to get a clearer result; may be empty."""

    query: dict[str, Any]
    traces: list[TraceInfo]
    summary: str
    advice: list[str]
    totals: Changes
    lines: list[LineChange]
    unattributed: Changes
    gates: list[GateResult]
    statistics: Statistics

    @property
    def sides(self) -> tuple[Sequence[TraceInfo], Sequence[TraceInfo]]:
        """The traces before, and those after."""
        count = self.statistics.runs_before
        return self.traces[:count], self.traces[count:]


def diff_json(diff: Diff) -> dict[str, Any]:
    """The document of ``scalene-analyze diff --json``."""
    document: dict[str, Any] = {"schema": "scalene-trace/diff/1"}
    document |= to_json(diff)
    return document
