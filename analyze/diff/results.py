"""What a comparison returns: plain frozen records, named as in the JSON output (docs/json.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..results.records import TraceInfo, to_json

BETTER, WORSE, NOISE = "better", "worse", "noise"


@dataclass(frozen=True)
class Change:
    """A figure on both sides: means of the runs, and of the runs by their seconds (None of what does not grow with them).

    ``ratio`` is after / before; None where there is none to speak of. ``low`` and ``high``: 95 % interval of the ratio,
    or, where figures may be negative (growth_bytes), of the difference; all three of the figures by the second where those
    were compared. ``p``: chance of so large a difference by noise alone, adjusted for all that was tested; None = not
    tested, ``verdict`` (better, worse, noise) None = not judged.
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
        """The figures that were compared: before, after. ``per_second``: those by the second, where there are any."""
        has_rate = per_second and (self.before_per_s is not None or self.after_per_s is not None)
        return (self.before_per_s, self.after_per_s) if has_rate else (self.before, self.after)

    def moved(self, per_second: bool) -> float:
        """By how much what was compared differs; what a side lacks is 0."""
        before, after = self.compared(per_second)
        return (after or 0.0) - (before or 0.0)


Changes = dict[str, Change | None]  #: by measure; None = not recorded on both sides


@dataclass(frozen=True)
class LineChange:
    """A line on both sides. ``status``: same, edited, added, removed; what a side lacks is None."""

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

    def change(self, name: str) -> Change:
        """The change of a measure, empty where it was not recorded."""
        return self.changes.get(name) or Change()

    @property
    def place(self) -> tuple[str, int]:
        """Where it is, or was."""
        file, line = (self.file, self.line) if self.file is not None else (self.before_file, self.before_line)
        return file or "", line or 0

    @property
    def name(self) -> str:
        """The function that it is in, or was."""
        return (self.function if self.file is not None else self.before_function) or ""


@dataclass(frozen=True)
class GateResult:
    """A condition of --fail-on and whether it was met; ``text`` says so in words."""

    gate: str
    failed: bool
    text: str


@dataclass(frozen=True)
class Statistics:
    """How the verdicts came about. ``sigma``: relative standard deviation from run to run by measure; ``assumed``: where
    it could not be told from the runs. ``detectable_ratio``: of the busiest line, the smallest that would be told from
    noise; None without CPU samples. ``shared_ratio``: by measure, the ratio that most lines have in common, which counts
    as the machine's (:mod:`shared_change`); absent where they have none for sure."""

    runs_before: int
    runs_after: int
    tests: int
    sigma: dict[str, float]
    assumed: list[str]
    detectable_ratio: float | None
    shared_ratio: dict[str, float]


@dataclass(frozen=True)
class Diff:
    """A comparison. ``traces``: those of before, then those of after. ``advice``: what would tell more; None = nothing."""

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
        """The traces of before and of after."""
        count = self.statistics.runs_before
        return self.traces[:count], self.traces[count:]


def diff_json(diff: Diff) -> dict[str, Any]:
    """The document of ``scalene-analyze diff --json``."""
    document: dict[str, Any] = {"schema": "scalene-trace/diff/1"}
    document |= to_json(diff)
    return document
