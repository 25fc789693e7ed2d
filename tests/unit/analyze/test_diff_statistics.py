"""How often a comparison reports a change that is none, and how often it finds a real one, on simulated runs."""

from __future__ import annotations

import itertools
import math
import time
from statistics import median

import numpy as np
import pytest

from scalene_trace.analyze.diff.results import Diff
from scalene_trace.analyze.diff.runs import Run, RunRow
from scalene_trace.analyze.diff.shared_change import SharedChange
from scalene_trace.analyze.diff.significance import (
    Figure,
    RunSpread,
    Side,
    difference_test,
    holm,
    least_ratio,
    ratio_test,
    spread_of,
    spread_test,
    student,
    sum_of,
)
from tests.support.simulated_runs import APP, PROGRAM, compared, cpu_figure, flagged, simulated_run, trace_info

BUSY = 10
#: What runs of a program differ by beside the ticks: each line by itself, and all together.
NOISES = [(0.0, 0.0), (0.03, 0.0), (0.0, 0.03), (0.02, 0.02)]
#: A machine that others use too.
SHARED_MACHINE = (0.02, 0.08)


@pytest.mark.measures
def test_twenty_times_the_lines_take_no_hundred_times_as_long() -> None:
    def cpu_s(lines: int) -> float:
        """CPU time of a comparison of so many lines."""
        random = np.random.default_rng(3)
        sides = [[simulated_run(random, dict.fromkeys(range(1, lines + 1), 60))] for _ in range(2)]
        began_s = time.process_time()
        assert len(compared(*sides).lines) == lines
        return time.process_time() - began_s

    cpu_s(10)
    assert cpu_s(4_000) < 100 * cpu_s(200)


def slower(factor: float) -> dict[int, float]:
    return {**PROGRAM, BUSY: PROGRAM[BUSY] * factor}


@pytest.mark.samples
@pytest.mark.parametrize(
    ("runs", "least", "spread", "common"),
    [(*row, *noise) for row in [(1, 18), (3, 19)] for noise in [*NOISES, SHARED_MACHINE]],
)
def test_a_program_compared_with_itself_has_not_changed(runs: int, least: int, spread: float, common: float) -> None:
    random = np.random.default_rng(20_261_121)
    clean = 0
    for _ in range(20):
        sides = [[simulated_run(random, PROGRAM, spread, common) for _ in range(runs)] for _ in range(2)]
        clean += not flagged(compared(*sides))
    assert clean >= least


@pytest.mark.samples
@pytest.mark.parametrize(("spread", "common"), [*NOISES, SHARED_MACHINE])
def test_five_against_five_find_a_line_that_became_20_percent_slower(spread: float, common: float) -> None:
    random = np.random.default_rng(7)
    found = 0
    for _ in range(20):
        before = [simulated_run(random, PROGRAM, spread, common) for _ in range(5)]
        after = [simulated_run(random, slower(1.2), spread, common) for _ in range(5)]
        diff = compared(before, after)
        (line,) = [each for each in diff.lines if each.line == BUSY]
        found += line.change("cpu_s").verdict == "worse"
        assert diff.advice == []
    assert found >= 19


@pytest.mark.samples
@pytest.mark.parametrize(("spread", "common"), [*NOISES, SHARED_MACHINE])
def test_a_single_pair_finds_40_percent_and_says_what_it_cannot_tell(spread: float, common: float) -> None:
    random = np.random.default_rng(11)
    found, claims = [], []
    for _ in range(20):
        before, after = (
            simulated_run(random, PROGRAM, spread, common),
            simulated_run(random, slower(1.4), spread, common),
        )
        diff = compared([before], [after])
        found.append(BUSY in flagged(diff))
        small = compared([before], [simulated_run(random, slower(1.1), spread, common)])
        assert "cannot distinguish small changes from noise" in small.advice[0]
        claims.append(small.statistics.detectable_ratio or 0.0)
        assert small.statistics.assumed == ["cpu_s"] and small.statistics.sigma == {"cpu_s": 0.03}
        assert any("scalene-record -o after-$i.parquet app.py" in line for line in small.advice)
    assert sum(found) >= 19
    assert min(claims) > 1.15 and median(claims) < 1.4, "more only of a pair whose lines happen to be uneven"


def sides_of(
    random: np.random.Generator, after: dict[int, float], runs: int, common: float, after_common: float = 0.0
) -> Diff:
    """A comparison with the program whose lines have so many ticks afterwards; ``after_common``: more of all of them."""
    old = [simulated_run(random, PROGRAM, 0.02, common) for _ in range(runs)]
    moved = {line: ticks * math.exp(after_common) for line, ticks in after.items()}
    return compared(old, [simulated_run(random, moved, 0.02, common) for _ in range(runs)])


@pytest.mark.samples
def test_what_all_lines_share_is_not_blamed_on_any_unless_it_is_more_than_the_machine_does() -> None:
    random = np.random.default_rng(13)
    shared = [sides_of(random, PROGRAM, 5, 0.08, 0.05) for _ in range(10)]
    assert not [line for diff in shared for line in flagged(diff)]
    assert np.mean([diff.statistics.shared_ratio.get("cpu_s", 1.0) for diff in shared]) == pytest.approx(1.05, abs=0.03)
    assert any("Most lines changed by about +" in diff.summary for diff in shared)
    whole = sides_of(random, PROGRAM, 5, 0.02, -0.3)
    assert {10, 11, 12, 13, 0} <= set(flagged(whole)) and whole.statistics.shared_ratio == {}


@pytest.mark.samples
@pytest.mark.parametrize("gain", [0.08, 0.15, 0.3, 0.6])
def test_lines_that_stayed_are_hardly_ever_worse_because_all_others_became_better(gain: float) -> None:
    random, stayed = np.random.default_rng(17), {10, 12}
    after = {line: ticks * (1 if line in stayed else 1 - gain) for line, ticks in PROGRAM.items()}
    wrong = sum(bool(stayed & set(flagged(sides_of(random, after, 5, 0.08)))) for _ in range(30))
    assert wrong <= 4


def test_a_line_is_held_against_what_the_others_share() -> None:
    """A second computation of the formula, of lines that differ by what they must and have no spread of their own."""
    ticks = np.array([1_800, 900, 600, 300, 300])
    logs = np.array([0.30, 0.05, 0.07, 0.04, 0.06])
    rows = [
        (Side((cpu_figure(before),)), Side((Figure(before * 0.01 * math.exp(log), before * math.exp(log) * 1e-4),)))
        for before, log in zip(ticks.tolist(), logs.tolist(), strict=True)
    ]
    found = SharedChange(rows, RunSpread(0.03), 0.01).relative
    own = 1 / ticks + 1 / (ticks * np.exp(logs)) + 2 * 0.03**2
    weights = 1 / own[1:]
    precision = weights.sum() + 1 / (2 * 0.1**2)
    beside = logs[0] - (weights * logs[1:]).sum() / precision
    error = math.sqrt(own[0] + 1 / precision)
    assert found[0] is not None and found[1] is not None
    assert found[0].p == pytest.approx(math.erfc(beside / error / math.sqrt(2)))
    assert found[1].p == 1.0, "nearer to the others than 5 %"
    assert SharedChange(rows[:3], RunSpread(0.03), 0.01).relative == [None] * 3, "two others are no proof"


def test_a_change_of_less_than_5_percent_is_none_however_sure_it_is() -> None:
    before = [simulated_run(np.random.default_rng(n), {BUSY: 4_000_000.0}) for n in range(5)]
    after = [simulated_run(np.random.default_rng(n), {BUSY: 4_160_000.0}) for n in range(5, 10)]
    (line,) = compared(before, after).lines
    assert line.change("cpu_s").ratio == pytest.approx(1.04, abs=0.005)
    assert line.change("cpu_s").verdict == "noise"


def test_the_test_is_the_formula() -> None:
    before, after = Side((cpu_figure(400), cpu_figure(440))), Side((cpu_figure(630),))
    tested = ratio_test(before, after, RunSpread(0.03), grain=0.01)
    # means 4.20 and 6.30 s; Poisson 840 ticks and 630 ticks; 1/2 + 1 runs
    error = math.sqrt(1 / 840 + 1 / 630 + 0.03**2 * 1.5)
    assert tested.estimate == pytest.approx(1.5)
    assert tested.p == pytest.approx(math.erfc(math.log(1.5) / error / math.sqrt(2)))
    assert tested.low == pytest.approx(1.5 * math.exp(-1.959964 * error))
    assert tested.high == pytest.approx(1.5 * math.exp(1.959964 * error))


def test_a_line_that_had_no_sample_counts_as_half_a_tick() -> None:
    nothing, something = Side((Figure(0.0),)), Side((cpu_figure(100),))
    tested = ratio_test(nothing, something, RunSpread(0.03), grain=0.01)
    assert tested.estimate == pytest.approx(100.5 / 0.5)
    # half a tick has the variance of half a tick: 0.5 / 0.5²
    error = math.sqrt(0.5 / 0.25 + 100.5 / 100.5**2 + 2 * 0.03**2)
    assert tested.p == pytest.approx(math.erfc(math.log(201) / error / math.sqrt(2)))
    assert ratio_test(nothing, nothing, RunSpread(0.03), grain=0.0).p == 1.0


def test_a_side_with_less_than_a_tick_has_the_error_of_half_a_tick() -> None:
    """One tick of half a millisecond says nothing about the ticks of ten that did not fall there."""
    little, more = Side((Figure(0.0005, 0.0005**2),)), Side((cpu_figure(5),))
    tested = ratio_test(little, more, RunSpread(0.03), grain=0.01)
    error = math.sqrt((0.0005**2 + 0.5e-4) / 0.0055**2 + 5.5 / 5.5**2 + 2 * 0.03**2)
    assert tested.estimate == pytest.approx(10)
    assert tested.p == pytest.approx(math.erfc(math.log(10) / error / math.sqrt(2))) and tested.p > 0.05


@pytest.mark.parametrize("ticks", [9, 10])
def test_from_ten_ticks_on_a_side_has_its_own_error(ticks: int) -> None:
    half = 0.5 if ticks < 10 else 0.0
    tested = ratio_test(Side((cpu_figure(ticks),)), Side((cpu_figure(20),)), RunSpread(0.03), grain=0.01)
    assert tested.estimate == pytest.approx((20 + half) / (ticks + half))


@pytest.mark.samples
@pytest.mark.parametrize("lines", [9, 2])
def test_pairs_of_short_runs_name_no_line(lines: int) -> None:
    """Lines of few ticks, some of them small, as those of the kernel's time are: of one run they may be all a line has."""
    random = np.random.default_rng(19)

    def run() -> Run:
        ticks = [(random.poisson(4), random.poisson(0.7), random.uniform(0.0002, 0.001)) for _ in range(lines)]
        busy = cpu_figure(random.poisson(45))
        figures = [Figure(0.01 * many + small * few, 1e-4 * many + small**2 * few) for many, few, small in ticks]
        rows = {(APP, n): RunRow("main", 1, {"cpu_s": each}) for n, each in enumerate([busy, *figures], start=1)}
        nothing = RunRow(figures={"cpu_s": Figure(0.0)})
        return Run(trace_info(), 1.0, rows, nothing, RunRow(figures={"cpu_s": sum_of([busy, *figures])}), {})

    runs = [run() for _ in range(101)]
    diffs = [compared([before], [after]) for before, after in itertools.pairwise(runs)]
    assert [line for diff in diffs for line in flagged(diff)] == []


@pytest.mark.samples
def test_the_spread_of_the_runs_is_found() -> None:
    random = np.random.default_rng(3)
    rows = []
    for _ in range(40):
        sides = [Side(tuple(Figure(float(x), 0.0) for x in 50 * np.exp(random.normal(0, 0.1, 5)))) for _ in range(2)]
        rows.append((sides[0], sides[1]))
    found = spread_of(rows)
    assert found.sigma == pytest.approx(0.1, rel=0.1)
    assert found.freedom == pytest.approx(4 + 40 * 8, rel=0.01)
    assert spread_of([(Side((Figure(5.0),)), Side((Figure(6.0),)))]) == RunSpread(0.03)


def test_few_runs_that_happen_to_agree_do_not_count_as_no_spread() -> None:
    same = Side((Figure(5.0), Figure(5.0)))
    # 4 degrees of freedom at 3 %, 2 at 0 %
    assert spread_of([(same, same)]).sigma == pytest.approx(0.03 * math.sqrt(4 / 6))


def test_what_may_be_negative_is_compared_by_its_difference() -> None:
    tested = difference_test(Side((Figure(-3.0, 4.0),)), Side((Figure(7.0, 5.0),)), RunSpread(0.0))
    assert (tested.estimate, tested.p) == (10.0, pytest.approx(math.erfc(10 / 3 / math.sqrt(2))))
    assert difference_test(Side((Figure(0.0),)), Side((Figure(0.0),)), RunSpread(0.03)).p == 1.0


def test_what_is_not_sampled_is_judged_by_the_spread_of_its_runs() -> None:
    before = Side(tuple(map(Figure, (1.00, 1.02, 0.98))))
    after = Side(tuple(map(Figure, (2.00, 2.04, 1.96))))
    tested = spread_test(before, after)
    # the logarithms spread by 0.02; t = ln 2 / (0.02 √(2/3)) = 42 with 4 degrees of freedom
    assert tested.p == pytest.approx(student(42.4, 4), rel=0.05) and tested.p < 1e-5
    assert 1.9 < tested.low < 2 < tested.high < 2.1


@pytest.mark.parametrize(("t", "freedom"), [(12.706, 1), (4.303, 2), (3.182, 3), (2.571, 5), (2.306, 8), (2.042, 30)])
def test_students_t_is_that_of_the_tables(t: float, freedom: int) -> None:
    assert student(t, freedom) == pytest.approx(0.05, abs=5e-5)


def test_holm_is_that_of_the_textbook() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == [] and holm([0.9, 0.8]) == [1.0, 1.0]


def test_more_runs_detect_smaller_changes() -> None:
    busy = Side((cpu_figure(1_800),))
    found = [least_ratio(busy, RunSpread(0.03), (n, n), 0.01 / 25) for n in (1, 3, 5)]
    assert found == sorted(found, reverse=True)
    assert 1.2 < found[0] < 1.3 and 1.05 < found[2] < 1.12
