"""Days at which a level changed, and hosts that differ from their peers, on simulated figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scalene_trace.analyze.fleet.compare.change_points import noise_of, steps_of
from scalene_trace.analyze.fleet.compare.levels import levels_of
from scalene_trace.analyze.fleet.compare.outliers import WHOLE, compared_hosts, judge_hosts
from scalene_trace.analyze.fleet.compare.units import Units
from tests.support.simulated_fleet import MONTHS, TICK_S, FleetPlan, MonthPlan, simulated, simulated_month


def steps(random: np.random.Generator, plan: MonthPlan) -> list[int]:
    """The days of the changes that are found in one month."""
    levels = levels_of(simulated_month(random, plan), 0)
    assert levels is not None
    return [step.index for step in steps_of(levels)]


@pytest.mark.samples
@pytest.mark.parametrize("name", MONTHS)
def test_a_step_of_ten_percent_is_found_and_noise_has_none(name: str) -> None:
    random = np.random.default_rng(20_261_128)
    alarms = sum(bool(steps(random, MONTHS[name])) for _ in range(40))
    found = [steps(random, replace(MONTHS[name], step=1.1)) for _ in range(20)]
    assert alarms <= 2, "5 % of 40"
    assert sum(any(abs(day - 15) <= 1 for day in each) for each in found) >= 19
    assert sum(map(len, found)) <= 21


def test_two_steps_are_two_steps() -> None:
    days = np.tile(np.arange(30), 10)
    hosts = np.repeat(np.arange(10), 30)
    values = 1000.0 * np.where(days >= 20, 1.5, np.where(days >= 10, 1.2, 1.0))
    noisy = values * np.exp(np.random.default_rng(1).normal(0, 0.01, 300))
    levels = levels_of(Units(noisy[None], noisy[None] * 0.01, np.ones(300), hosts, days), 0)
    assert levels is not None
    found = steps_of(levels)
    assert [step.index for step in found] == [10, 20]
    assert np.exp(found[0].effect.log_ratio) == pytest.approx(1.2, abs=0.01)
    assert np.exp(found[1].effect.log_ratio) == pytest.approx(1.25, abs=0.01)
    assert noise_of(levels).spread < 0.15


def test_hosts_that_come_and_go_do_not_change_the_level() -> None:
    # Hosts 0 to 4 cost 100 and are there on all days; hosts 5 to 9 cost 300 and are there from day 10 on.
    cells = [(host, day) for host in range(10) for day in range(20) if host < 5 or day >= 10]
    hosts, days = (np.array(each) for each in zip(*cells, strict=True))
    random = np.random.default_rng(4)
    values = np.where(hosts < 5, 100.0, 300.0) * np.exp(random.normal(0, 0.02, len(cells)))
    levels = levels_of(Units(values[None], 0 * values[None], np.ones(len(cells)), hosts, days), 0)
    assert levels is not None and steps_of(levels) == []
    assert abs(levels.logs[10:].mean() - levels.logs[:10].mean()) < 0.03, "their mean doubles"


@pytest.mark.samples
def test_an_odd_host_and_an_odd_line_are_found_and_no_other() -> None:
    random = np.random.default_rng(20_261_128)
    alarms, hosts, lines = 0, 0, 0
    for _ in range(20):
        units = _one_side(simulated(random, FleetPlan()))
        alarms += bool(_odd(units))
        values = units.values.copy()
        values[:, 0] *= 3
        values[0, 2] *= 1.3
        found = _odd(replace(units, values=np.round(values / TICK_S) * TICK_S))
        hosts += found.get((0, WHOLE)) == "worse"
        lines += found.get((2, 0)) == "worse"
    assert alarms <= 1 and hosts >= 19 and lines >= 19


def test_few_hosts_are_not_judged() -> None:
    units = _one_side(simulated(np.random.default_rng(1), FleetPlan(hosts=7)))
    found, spreads = compared_hosts(units, np.ones(len(units.values), dtype=np.bool_))
    assert found == [] and spreads[0] is None


def _one_side(units: Units) -> Units:
    keep = units.side_numbers == 0
    return Units(
        units.values[:, keep],
        units.variances[:, keep],
        units.exposure[keep],
        units.hosts[keep],
        units.side_numbers[keep],
    )


def _odd(units: Units) -> dict[tuple[int, int], str]:
    sums = units.values.sum(axis=1)
    found, _ = compared_hosts(units, sums >= 0.01 * sums.sum())
    judged = zip(found, judge_hosts(found), strict=True)
    return {(each.cell, each.row): verdict for each, (verdict, _) in judged if verdict != "noise"}
