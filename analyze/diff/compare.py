"""What changed between two versions of a program, line by line, and whether noise explains it (docs/design/diff.md)."""

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
from .gates import Gate, judged
from .match import Place
from .results import BETTER, NOISE, WORSE, Change, Changes, Diff, LineChange, Statistics
from .runs import (
    LINE_MEASURES,
    MEASURES,
    TOTAL_MEASURES,
    Measure,
    Run,
    RunRow,
    Version,
    aligned,
    read_run,
    same_places,
    version_of,
)
from .sentences import advice_on, summary_of
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

#: A line is tested from this share of its measure on, both sides together: testing more would blunt every test.
LEAST_SHARE = 0.01
#: A line that stands out from the others must by itself have changed so surely too: it may be the others that changed.
LEAST_SURE = 0.2

Sides = tuple[Side, Side]


@dataclass(frozen=True)
class Asked:
    """What is wanted. ``per_second``: compare by the seconds of the runs. ``sort``: a measure."""

    selection: Selection = field(default_factory=Selection)
    per_second: bool = False
    gates: tuple[Gate, ...] = ()
    sort: str | None = None
    limit: int | None = None


def build_diff(before: Sequence[Path], after: Sequence[Path], asked: Asked) -> Diff:
    """The traces at ``before`` against those at ``after``; one at a time is open. Raises the errors of ``open_traces``."""
    return compare(*read_sides(before, after, asked), asked)


def read_sides(before: Sequence[Path], after: Sequence[Path], asked: Asked) -> tuple[list[Run], list[Run]]:
    """The runs of both sides, for :func:`compare`. Raises the errors of ``open_traces``."""
    old, new = ([read_run(path, asked.selection) for path in paths] for paths in (before, after))
    return old, new


class LengthError(ValueError):
    """A run of no known length, where runs are compared by the second; ``str()`` is a sentence."""


def compare(before: Sequence[Run], after: Sequence[Run], asked: Asked) -> Diff:
    """Reduced runs, at least one on each side. Raises LengthError, and GateError of a condition that has no answer."""
    runs = aligned(before), aligned(after)
    endless = [run.info.path for side in runs for run in side if not run.window_s and run.holds_anything]
    if asked.per_second and endless:
        raise LengthError(
            f"By the second cannot be compared: how long {endless[0]} is, of what was asked for, is not known."
        )
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
    """Collects all figures, tests those that matter, and adjusts the tests for their number."""

    def __init__(self, runs: tuple[list[Run], list[Run]], per_second: bool) -> None:
        self._seconds = [[run.window_s for run in side] for side in runs]
        self.counts = len(runs[0]), len(runs[1])
        self._per_second = per_second
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
        self._beside: dict[int, tuple[RunSpread, float]] = {}
        self._grains: dict[str, float] = {}
        self.tests = 0
        self.detectable_ratio: float | None = None

    def row(self, parts: Sequence[Sequence[RunRow | None]], measures: Sequence[Measure]) -> dict[str, int]:
        """Takes in the runs of both sides; returns by measure the number under which its change will be."""
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
        """Tests what matters; afterwards changes can be had."""
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
            is_told = has_both and not measure.part_of and any(side.mean for side in sides)
            test = tested.get(index) or (self._test(index) if is_told else None)
            self._made.append(self._change(measure, sides, change, has_both, test, adjusted.get(index)))
        self.detectable_ratio = self._detectable()

    def _chosen(self, name: str) -> list[int]:
        """The numbers of the figures of a measure that are worth a test, the total's first."""
        found = [
            i for i, (m, _, _, has_both) in enumerate(self._figures) if m.name == name and not m.part_of and has_both
        ]
        sums = {index: sum(abs(side.mean) for side in self._figures[index][1]) for index in found}
        least = LEAST_SHARE * max(sums.values(), default=0.0)
        return [index for index in found if sums[index] >= least and sums[index] > 0]

    def _tested(self, name: str, chosen: list[int]) -> dict[int, Tested]:
        """The tests of a measure, by the figures' numbers."""
        if not chosen:
            return {}
        lines = chosen[1:]  # not the total, in which what differs by line cancels
        rows = [self._figures[index][1] for index in lines or chosen]
        self.spreads[name] = spread_of(rows, MEASURES[name].prior_sigma)
        self.assumed += [name] if max(self.counts) == 1 else []
        if not (lines and MEASURES[name].is_speed):
            return {index: self._test(index) for index in chosen}
        shared = SharedChange(rows, self.spreads[name])
        self.spreads[name] = shared.runs
        return self._beside_the_others(name, shared, {index: self._test(index) for index in chosen})

    def _beside_the_others(self, name: str, shared: SharedChange, tested: dict[int, Tested]) -> dict[int, Tested]:
        """Lines held against what the others share, where they share something; their ranges stay those of the lines alone.
        Of single runs whose lines share something for sure, the total may be the machine's."""
        total, *lines = tested
        found = dict(tested)
        for index, beside in zip(lines, shared.beside, strict=True):
            if beside is not None:
                found[index] = replace(tested[index], p=beside.p if tested[index].p < LEAST_SURE else 1.0)
                self._beside[index] = shared.own, beside.variance
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
            return change if measure.part_of else replace(change, verdict=NOISE)
        low, high = (value if math.isfinite(value) else None for value in (test.low, test.high))
        is_noise = p is None or p >= ALPHA or not self._matters(measure, sides)
        verdict = NOISE if is_noise else _direction(measure, sides)
        return replace(change, low=low, high=high, p=p, verdict=verdict)

    def _matters(self, measure: Measure, sides: Sides) -> bool:
        """Is the effect 5 % or more?"""
        before, after = (side.mean for side in sides)
        if measure.is_signed:
            return abs(after - before) >= LEAST_EFFECT * max(abs(before), abs(after))
        return min(before, after) <= 0 or abs(math.log(after / before)) >= math.log(1 + LEAST_EFFECT)

    def _detectable(self) -> float | None:
        own = [i for i, (measure, _, _, has_both) in enumerate(self._figures) if measure.name == "cpu_s" and has_both]
        if len(own) < 3:  # the total, what belongs to no line, and no line
            return None
        busiest = max(own[2:], key=lambda index: self._figures[index][1][0].mean)
        before = self._figures[busiest][1][0]
        if before.mean <= 0:
            return None
        alone = self.spreads["cpu_s"]
        runs, shared = self._beside.get(busiest, (alone, 0.0))
        beside = least_ratio(before, runs, self.counts, ALPHA / max(self.tests, 1), shared)
        return max(beside, least_ratio(before, alone, self.counts, LEAST_SURE))

    def median_ratio(self, number: int | None) -> float | None:
        """After / before of the medians of the runs, of the figure with this number."""
        if number is None:
            return None
        before, after = (median(figure.value for figure in side.figures) for side in self._figures[number][1])
        return after / before if before > 0 else None

    def changes(self, numbers: dict[str, int]) -> Changes:
        """The changes under these numbers; None for what was not recorded."""
        return {name: self._made[numbers[name]] if name in numbers else None for name in MEASURES}


def _grain(sides: Sequence[Side]) -> float:
    """What one sample of a measure stands for, on average; at least a five-hundredth of the largest figure."""
    values = math.fsum(side.mean for side in sides)
    variances = math.fsum(side.variance * len(side.figures) for side in sides)
    return max(variances / values if values > 0 else 0.0, 0.002 * max(side.mean for side in sides))


def _direction(measure: Measure, sides: Sides) -> str | None:
    """Better or worse. To give back more, or less, of what other lines allocated (below zero) is neither: None."""
    before, after = (side.mean for side in sides)
    if measure.is_signed and abs(max(after, 0) - max(before, 0)) < LEAST_EFFECT * max(abs(before), abs(after)):
        return None
    return WORSE if after > before else BETTER


def _line(row: _Row, versions: tuple[Version, Version], work: _Comparison) -> LineChange:
    names = {measure.name for measure in LINE_MEASURES}
    changes = {name: change for name, change in work.changes(row.changes).items() if name in names}
    old, new = (_said(place, version) for place, version in zip((row.before, row.after), versions, strict=True))
    if row.before and row.after:
        is_same = old[3] is None or new[3] is None or old[3].strip() == new[3].strip()
        status = "same" if is_same else "edited"
    else:
        status = "removed" if row.before else "added"
    return LineChange(status, *new, *old, changes)


def _said(place: Place | None, version: Version) -> tuple[str | None, int | None, str | None, str | None]:
    """File, line, function and text; the function is None where no sample named it."""
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
    """``total``: the number of CPU time as a whole."""
    sigma = {name: spread.sigma for name, spread in work.spreads.items()}
    statistics = Statistics(*work.counts, work.tests, sigma, work.assumed, work.detectable_ratio, work.shared_ratio)
    totals = {measure.name: totals[measure.name] for measure in TOTAL_MEASURES}
    return Diff(
        query=_query(runs, asked),
        traces=[run.info for side in runs for run in side],
        summary=summary_of(totals, lines, outside, statistics, work.median_ratio(total), asked.per_second),
        advice=advice_on(totals, lines, statistics, [side[0].info for side in runs]),
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
    """What was judged better or worse first, then by the size of the difference, of CPU time before all else."""
    names = (asked.sort,) if asked.sort else tuple(measure.name for measure in LINE_MEASURES if not measure.part_of)

    def key(line: LineChange) -> tuple[Any, ...]:
        sizes = (-round(abs(line.change(name).moved(asked.per_second)), 9) for name in names)  # last digits differ
        is_judged = any(change and change.verdict in (BETTER, WORSE) for change in line.changes.values())
        return (not is_judged and asked.sort is None, *sizes, *line.place)

    return sorted(lines, key=key)
