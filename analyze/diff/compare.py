"""Compares two versions of a program line by line and judges whether noise explains each change (docs/design/diff.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from ..report.report import query_of
from ..trace.selection import Selection
from ..trace.sources import source_line
from .gates import Gate, check_rates, judged
from .match import Place
from .measures import LEAST_SHARE, LINE_MEASURES, MEASURES, TOTAL_MEASURES, Measure
from .results import BETTER, NOISE, WORSE, Change, Changes, Diff, LineChange, Statistics
from .runs import (
    Run,
    RunRow,
    Version,
    aligned,
    have_other_shares,
    read_run,
    same_places,
    version_of,
)
from .shared_change import PRIOR_SIGMA_OF_MACHINE, SharedChange
from .significance import (
    ALPHA,
    LEAST_EFFECT,
    Figure,
    RunSpread,
    Side,
    Tested,
    difference_test,
    holm,
    least_ratio,
    ratio_test,
    spread_of,
    spread_test,
)
from .summary import advice_on, have_common, shares_text, summary_of

#: A line that differs from the others must also have changed by itself with p below this: maybe the others changed instead.
MAX_OWN_P = 0.2

Sides = tuple[Side, Side]


@dataclass(frozen=True)
class Asked:
    """The request. ``per_second``: compare figures per second of the runs. ``sort``: name of a measure."""

    selection: Selection = field(default_factory=Selection)
    per_second: bool = False
    gates: tuple[Gate, ...] = ()
    sort: str | None = None
    limit: int | None = None


def read_sides(before: Sequence[Path], after: Sequence[Path], asked: Asked) -> tuple[list[Run], list[Run]]:
    """The runs of both sides for :func:`compare`, one for each path. Raises the errors of ``open_traces``."""
    old, new = ([read_run(path, asked.selection) for path in paths] for paths in (before, after))
    return old, new


class LengthError(ValueError):
    """Runs cannot be compared per second because a run has no known duration; ``str()`` is one sentence."""


def compare(before: Sequence[Run], after: Sequence[Run], asked: Asked) -> Diff:
    """Compares runs, at least one on each side: per second if this was asked for, or if a cycle has paused any of them.

    Raises LengthError if figures per second are compared and a run has no known duration, and GateError if a condition asks
    for a figure that was not recorded, or has a limit for totals where figures are per second without having been asked for.
    """
    runs = aligned(before), aligned(after)
    if not asked.per_second and any(run.has_cycle for side in runs for run in side):
        check_rates(asked.gates)
        asked = replace(asked, per_second=True)
    endless = [run.info.path for side in runs for run in side if not run.window_s and run.holds_anything]
    if asked.per_second and endless:
        raise LengthError(f"Cannot compare per second: the window of {endless[0]} has no known duration.")
    versions = version_of(runs[0]), version_of(runs[1])
    rows = [_Row(*places) for places in _places(*versions)]
    work = _Comparison(runs, asked.per_second)
    totals = work.row([[run.totals for run in side] for side in runs], TOTAL_MEASURES)
    outside = work.row([[run.outside for run in side] for side in runs], LINE_MEASURES)
    for row in rows:
        parts = [
            [run.rows.get(place, RunRow()) if place else None for run in side]
            for side, place in zip(runs, (row.before, row.after), strict=True)
        ]
        row.changes = work.row(parts, LINE_MEASURES)
    work.judge()
    lines = [_line(row, versions, work) for row in rows]
    return _diff(runs, work, totals.get("cpu_s"), work.changes(totals), lines, work.changes(outside), asked)


@dataclass
class _Row:
    before: Place | None
    after: Place | None
    changes: dict[str, int] = field(default_factory=dict)


def _places(before: Version, after: Version) -> Iterable[tuple[Place | None, Place | None]]:
    """The lines of both versions that have a sample on either side, paired."""
    pairs = same_places(before, after)
    old = {other: place for place, other in pairs.items()}
    for place in before.rows:
        yield place, pairs.get(place)
    for place in after.rows:
        if place not in old:
            yield None, place
        elif old[place] not in before.rows:
            yield old[place], place


class _Comparison:
    """Collects all figures, tests the relevant ones, and adjusts the tests for their number."""

    def __init__(self, runs: tuple[list[Run], list[Run]], per_second: bool) -> None:
        self._seconds = [[run.window_s for run in side] for side in runs]
        self.counts = len(runs[0]), len(runs[1])
        self._per_second = per_second
        self._unjudged = {"live_at_peak_bytes"} if have_other_shares(runs) else set()
        infos = [run.info for side in runs for run in side]
        unseen = {
            each.name
            for each in MEASURES.values()
            if each.seen_by and not any(i.events.get(each.seen_by) for i in infos)
        }
        self._known = [
            {name for name in side[0].totals.figures if all(name in run.totals.figures for run in side)} - unseen
            for side in runs
        ]
        self._figures: list[tuple[Measure, Sides, Change, bool]] = []
        self._made: list[Change] = []
        self.spreads: dict[str, RunSpread] = {}
        self.shared_ratio: dict[str, float] = {}
        self.assumed: list[str] = []
        self._relative: dict[int, tuple[RunSpread, float]] = {}
        self._grains: dict[str, float] = {}
        self.tests = 0
        self.detectable_ratio: float | None = None

    def row(self, parts: Sequence[Sequence[RunRow | None]], measures: Sequence[Measure]) -> dict[str, int]:
        """Adds a row with the runs of both sides. Returns by measure the index of its change for :meth:`changes`."""
        found = {}
        for measure in measures:
            if any(measure.name not in known for known in self._known):
                continue
            figures = [[row.figures.get(measure.name, Figure(0.0)) for row in side if row] for side in parts]
            found[measure.name] = len(self._figures)
            self._figures.append((measure, *self._taken(measure, figures)))
        return found

    def _taken(self, measure: Measure, figures: list[list[Figure]]) -> tuple[Sides, Change, bool]:
        rates = [
            [figure.scaled(s) for figure, s in zip(side, seconds, strict=True)] if side and all(seconds) else []
            for side, seconds in zip(figures, self._seconds, strict=True)
        ]
        has_both = all(figures)
        whole, per_s = ([Side(tuple(side)).mean if side else None for side in each] for each in (figures, rates))
        change = Change(whole[0], whole[1], per_s[0], per_s[1])
        if measure.is_level:
            change = replace(change, before_per_s=None, after_per_s=None)
        is_rate = self._per_second and not measure.is_level
        used = [Side(tuple(side or [Figure(0.0)])) for side in (rates if is_rate and has_both else figures)]
        return (used[0], used[1]), change, has_both

    def judge(self) -> None:
        """Runs the tests. Call it after all rows were added and before :meth:`changes`."""
        by_name: dict[str, list[Sides]] = {}
        for measure, sides, _, _ in self._figures:
            by_name.setdefault(measure.name, []).append(sides)
        self._grains = {name: _grain([side for sides in pairs for side in sides]) for name, pairs in by_name.items()}
        chosen = {name: self._chosen(name) for name in dict.fromkeys(each[0].name for each in self._figures)}
        tested: dict[int, Tested] = {}
        for name, indices in chosen.items():
            tested |= self._tested(name, indices)
        adjusted = dict(zip(tested, holm([test.p for test in tested.values()]), strict=True))
        self.tests = len(tested)
        for index, (measure, sides, change, has_both) in enumerate(self._figures):
            is_testable = has_both and self._is_judged(measure) and any(side.mean for side in sides)
            test = tested.get(index) or (self._test(index) if is_testable else None)
            self._made.append(self._change(measure, sides, change, has_both, test, adjusted.get(index)))
        self.detectable_ratio = self._detectable()

    def _is_judged(self, measure: Measure) -> bool:
        return not measure.part_of and measure.name not in self._unjudged

    def _chosen(self, name: str) -> list[int]:
        """Indices of the figures of a measure that are large enough to be tested, the total first."""
        own = [(i, m) for i, (m, _, _, has_both) in enumerate(self._figures) if m.name == name and has_both]
        found = [i for i, measure in own if self._is_judged(measure)]
        sums = {index: sum(abs(side.mean) for side in self._figures[index][1]) for index in found}
        least = LEAST_SHARE * max(sums.values(), default=0.0)
        return [index for index in found if sums[index] >= least and sums[index] > 0]

    def _tested(self, name: str, chosen: list[int]) -> dict[int, Tested]:
        """The tests of a measure, by index of the figure."""
        if not chosen:
            return {}
        lines = chosen[1:]  # not the total, in which differences of single lines cancel out
        rows = [self._figures[index][1] for index in lines or chosen]
        self.spreads[name] = spread_of(rows, MEASURES[name].prior_sigma)
        self.assumed += [name] if max(self.counts) == 1 else []
        if not (lines and MEASURES[name].is_speed):
            return {index: self._test(index) for index in chosen}
        shared = SharedChange(rows, self.spreads[name], self._grains[name])
        self.spreads[name] = shared.runs
        return self._relative_to_others(name, shared, {index: self._test(index) for index in chosen})

    def _relative_to_others(self, name: str, shared: SharedChange, tested: dict[int, Tested]) -> dict[int, Tested]:
        """Tests each line relative to the change that the others share, if they share one; intervals stay those of the line
        alone. If the lines of single runs share a significant change, the machine may explain the total, which is then tested
        with the spread of machines."""
        total, *lines = tested
        found = dict(tested)
        for index, relative in zip(lines, shared.relative, strict=True):
            if relative is not None:
                found[index] = replace(tested[index], p=relative.p if tested[index].p < MAX_OWN_P else 1.0)
                self._relative[index] = shared.own, relative.variance
        if shared.ratio is not None:
            self.shared_ratio[name] = shared.ratio
            if max(self.counts) == 1:
                sides = self._figures[total][1]
                found[total] = ratio_test(*sides, RunSpread(PRIOR_SIGMA_OF_MACHINE), self._grains[name])
        return found

    def _test(self, index: int) -> Tested:
        measure, sides, _, _ = self._figures[index]
        spread = self.spreads.get(measure.name, RunSpread(measure.prior_sigma))
        if measure.is_signed:
            return difference_test(*sides, spread)
        is_steady = all(figure.value > 0 for side in sides for figure in side.figures)
        if not measure.is_sampled and min(self.counts) > 1 and is_steady:
            return spread_test(*sides)
        return ratio_test(*sides, spread, self._grains[measure.name])

    def _change(
        self, measure: Measure, sides: Sides, change: Change, has_both: bool, test: Tested | None, p: float | None
    ) -> Change:
        if not has_both:
            return change
        before, after = change.before or 0.0, change.after or 0.0
        ratio = None if measure.is_signed or not sides[0].mean > 0 else sides[1].mean / sides[0].mean
        change = replace(change, difference=after - before, ratio=ratio)
        if test is None:
            return change
        low, high = (value if math.isfinite(value) else None for value in _around(test, measure, sides))
        if p is None:  # too small to be tested
            return replace(change, low=low, high=high)
        is_noise = p >= ALPHA or not self._matters(measure, sides)
        verdict = NOISE if is_noise else _direction(measure, sides)
        return replace(change, low=low, high=high, p=p, verdict=verdict)

    def _matters(self, measure: Measure, sides: Sides) -> bool:
        """Is the effect LEAST_EFFECT (5 %) or more?"""
        before, after = (side.mean for side in sides)
        if measure.is_signed:
            return abs(after - before) >= LEAST_EFFECT * max(abs(before), abs(after))
        return min(before, after) <= 0 or abs(math.log(after / before)) >= math.log(1 + LEAST_EFFECT)

    def _detectable(self) -> float | None:
        own = [i for i, (measure, _, _, has_both) in enumerate(self._figures) if measure.name == "cpu_s" and has_both]
        if len(own) < 3:  # the total and the samples without a line, but no line
            return None
        busiest = max(own[2:], key=lambda index: self._figures[index][1][0].mean)
        before = self._figures[busiest][1][0]
        if before.mean <= 0:
            return None
        alone = self.spreads["cpu_s"]
        runs, shared = self._relative.get(busiest, (alone, 0.0))
        relative = least_ratio(before, runs, self.counts, ALPHA / max(self.tests, 1), shared)
        return max(relative, least_ratio(before, alone, self.counts, MAX_OWN_P))

    def median_ratio(self, number: int | None) -> float | None:
        """After / before of the medians of the runs, for the figure with this index."""
        if number is None:
            return None
        before, after = (median(figure.value for figure in side.figures) for side in self._figures[number][1])
        return after / before if before > 0 else None

    def changes(self, numbers: dict[str, int]) -> Changes:
        """The changes with these indices by measure; None if not recorded on both sides."""
        return {name: self._made[numbers[name]] if name in numbers else None for name in MEASURES}


def _around(test: Tested, measure: Measure, sides: Sides) -> tuple[float, float]:
    """The interval of the test, widened to hold the figure that is shown beside it: the test adds half a sample to small
    figures, and compares logarithms of runs, not their means. What rose from zero has no highest ratio."""
    before, after = (side.mean for side in sides)
    if measure.is_signed:
        shown = after - before
    else:
        shown = after / before if before > 0 else math.inf if after > 0 else test.estimate
    return min(test.low, shown), max(test.high, shown)


def _grain(sides: Sequence[Side]) -> float:
    """The mean weight of one sample of a measure; at least 1/500 of the largest figure."""
    values = math.fsum(side.mean for side in sides)
    variances = math.fsum(side.variance * len(side.figures) for side in sides)
    return max(variances / values if values > 0 else 0.0, 0.002 * max(side.mean for side in sides))


def _direction(measure: Measure, sides: Sides) -> str | None:
    """Better or worse; None if only the negative part changed: freeing more of what other lines allocated is neither."""
    before, after = (side.mean for side in sides)
    if measure.is_signed and abs(max(after, 0) - max(before, 0)) < LEAST_EFFECT * max(abs(before), abs(after)):
        return None
    return WORSE if after > before else BETTER


def _line(row: _Row, versions: tuple[Version, Version], work: _Comparison) -> LineChange:
    names = {measure.name for measure in LINE_MEASURES}
    changes = {name: change for name, change in work.changes(row.changes).items() if name in names}
    old, new = (_described(place, version) for place, version in zip((row.before, row.after), versions, strict=True))
    if row.before and row.after:
        is_same = old[3] is None or new[3] is None or old[3].strip() == new[3].strip()
        status = "same" if is_same else "edited"
    else:
        status = "removed" if row.before else "added"
    return LineChange(status, *new, *old, changes)


def _described(place: Place | None, version: Version) -> tuple[str | None, int | None, str | None, str | None]:
    """File, line, function and text; the function is None if no sample names it."""
    if place is None:
        return None, None, None, None
    row = version.rows.get(place)
    return *place, row.function if row else None, source_line(version.sources, *place)


def _diff(
    runs: tuple[list[Run], list[Run]],
    work: _Comparison,
    total: int | None,
    totals: Changes,
    lines: list[LineChange],
    outside: Changes,
    asked: Asked,
) -> Diff:
    """``total``: index of the total CPU time."""
    sigma = {name: spread.sigma for name, spread in work.spreads.items()}
    statistics = Statistics(*work.counts, work.tests, sigma, work.assumed, work.detectable_ratio, work.shared_ratio)
    totals = {measure.name: totals[measure.name] for measure in TOTAL_MEASURES}
    has_common = have_common(lines)
    return Diff(
        query=_query(runs, asked),
        traces=[run.info for side in runs for run in side],
        summary=summary_of(totals, lines, outside, statistics, work.median_ratio(total), asked.per_second)
        + shares_text(any(run.has_cycle for side in runs for run in side), have_other_shares(runs), asked.per_second),
        advice=advice_on(totals, lines, statistics, [side[0].info for side in runs]) if has_common else [],
        totals=totals,
        lines=_in_order(lines, asked)[: asked.limit],
        unattributed={measure.name: outside[measure.name] for measure in LINE_MEASURES},
        gates=[judged(gate, totals, lines, asked.per_second) for gate in asked.gates],
        statistics=statistics,
    )


def _query(runs: tuple[list[Run], list[Run]], asked: Asked) -> dict[str, Any]:
    paths = {name: [run.info.path for run in side] for name, side in zip(("before", "after"), runs, strict=True)}
    more = {"per_second": asked.per_second, "fail_on": [gate.text for gate in asked.gates]}
    return query_of(asked.selection, asked.sort, asked.limit) | paths | more


def _in_order(lines: list[LineChange], asked: Asked) -> list[LineChange]:
    """Lines judged better or worse first, then by the size of the difference, CPU time before the other measures."""
    names = (asked.sort,) if asked.sort else tuple(measure.name for measure in LINE_MEASURES if not measure.part_of)

    def key(line: LineChange) -> tuple[Any, ...]:
        sizes = (-round(abs(line.change(name).moved(asked.per_second)), 9) for name in names)  # ignores rounding errors
        return (not line.is_judged and asked.sort is None, *sizes, *line.place)

    return sorted(lines, key=key)
