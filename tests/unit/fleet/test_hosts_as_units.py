"""How often a comparison of two sides of a fleet claims a change that is none, and how often it finds a real one."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

from scalene_trace.analyze.fleet.compare.judge import LEAST_HOSTS, Effect, judged, verdicts
from scalene_trace.analyze.fleet.compare.units import Units
from tests.support.simulated_fleet import FLEETS, TICK_S, FleetPlan, busy_lines, claims, simulated, slower

#: Of 20 hosts a side, about 12 run the line, and 5 % is found on those in four of five comparisons (benchmarks/long/fleet_comparisons.py).
LEAST_FOUND = {"run by some hosts": 13}


@pytest.mark.samples
@pytest.mark.parametrize("name", FLEETS)
def test_five_percent_on_one_line_are_found_and_nothing_else_is(name: str) -> None:
    random = np.random.default_rng(20_261_128)
    clean = found = 0
    for _ in range(20):
        clean += not claims(simulated(random, FLEETS[name]))
        found += claims(simulated(random, slower(FLEETS[name]))).get(0) == "worse"
    assert clean >= 19
    assert found >= LEAST_FOUND.get(name, 19)


@pytest.mark.samples
def test_three_hosts_with_a_new_version_show_ten_percent_beside_fifty() -> None:
    random = np.random.default_rng(20_261_128)
    clean = found = 0
    for _ in range(20):
        clean += not claims(_first(simulated(random, FleetPlan(hosts=50)), 53))
        found += claims(_first(simulated(random, slower(FleetPlan(hosts=50), 1.1)), 53)).get(0) == "worse"
    assert clean >= 19 and found >= 19


def _first(units: Units, cells: int) -> Units:
    return Units(units.values[:, :cells], units.variances[:, :cells], *(each[:cells] for each in _cells(units)))


@pytest.mark.samples
def test_a_slower_program_is_not_a_slower_host() -> None:
    random = np.random.default_rng(3)
    units = simulated(random, FleetPlan())
    everything = replace(
        units, values=np.round(units.values * np.where(units.side_numbers == 1, 1.4, 1.0) / TICK_S) * TICK_S
    )
    found = claims(everything)
    assert found["total"] == "worse"
    assert not judged(everything).lines[0].is_relative


@pytest.mark.samples
def test_an_effect_is_as_large_as_it_is_and_its_interval_holds_it() -> None:
    random = np.random.default_rng(8)
    for plan in (
        FleetPlan(busy_lines(8)),
        FleetPlan(busy_lines(8), paired=True),
        FleetPlan(busy_lines(8), unequal=20.0),
    ):
        effects = [judged(simulated(random, slower(plan, 1.2))).lines[0].effect for _ in range(40)]
        found = [each for each in effects if each is not None]
        assert np.mean([each.log_ratio for each in found]) == pytest.approx(math.log(1.2), abs=0.004)
        covered = [each.interval()[0] < 1.2 < each.interval()[1] for each in found]
        assert sum(covered) >= 33, "95 % of 40 are 38"


def test_a_line_on_few_hosts_is_not_judged() -> None:
    random = np.random.default_rng(1)
    units = simulated(random, FleetPlan(hosts=6))
    values = units.values.copy()
    values[0, LEAST_HOSTS - 1 : 6] = 0
    judgement = judged(replace(units, values=values))
    assert judgement.lines[0].effect is None and judgement.lines[0].before == LEAST_HOSTS - 1
    assert judgement.lines[1].effect is not None


def test_hosts_of_both_sides_are_pairs_and_others_count_too() -> None:
    random = np.random.default_rng(2)
    plan = FleetPlan(hosts=12, paired=True, spread=0.5)
    paired = simulated(random, plan)
    total = Units(*(each.sum(axis=0, keepdims=True) for each in (paired.values, paired.variances)), *_cells(paired))
    alone = judged(total).lines[0]
    assert alone.pairs == 12 and alone.effect is not None
    apart = judged(replace(total, hosts=np.arange(24))).lines[0]
    assert apart.pairs == 0 and apart.effect is not None
    assert alone.effect.variance < apart.effect.variance / 20
    some = judged(replace(total, hosts=np.concatenate([np.arange(12), np.arange(12) + 4]))).lines[0]
    assert some.pairs == 8 and some.effect is not None and some.effect.freedom > 7


def _cells(units: Units) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return units.exposure, units.hosts, units.side_numbers


def test_small_effects_that_are_certain_are_no_verdict() -> None:
    small, large = (Effect(math.log(ratio), 1e-6, 40.0) for ratio in (1.03, 1.06))
    assert [verdict for verdict, _ in verdicts([small, large, replace(large, log_ratio=-0.1)])] == [
        "noise",
        "worse",
        "better",
    ]
    assert verdicts([Effect(math.log(1.04), 4e-5, 400.0)])[0][0] == "worse", "it may be 5 %"


@pytest.mark.parametrize("seed", range(6))
def test_odd_figures_give_no_warning_and_no_nan(seed: int) -> None:
    random = np.random.default_rng(seed)
    lines, cells = int(random.integers(1, 6)), int(random.integers(2, 9))
    values = random.poisson(random.choice([0, 0.3, 5], (lines, cells))) * random.choice([1e-9, 1.0, 1e12])
    grains = random.choice([0.0, 1e-3, 10.0], (lines, 1))
    exposure = random.choice([1e-6, 1.0, 1e5], cells)
    units = Units(values, values * grains, exposure, random.integers(0, 4, cells), random.integers(0, 2, cells))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for line in judged(units).lines:
            assert line.effect is None or all(
                map(math.isfinite, (line.effect.log_ratio, line.effect.p, line.effect.variance))
            )
