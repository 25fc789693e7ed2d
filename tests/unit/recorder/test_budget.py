"""What a recording with --cpu-budget decides, on simulated programs."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable

import pytest

from scalene_trace.recorder.control.budget import HOOKS, TICK_S, Budget, Spent, tick_interval_ns
from scalene_trace.recorder.control.cycle import Cycle

SHARE, INTERVAL_S, STEP_S = 0.005, 0.06, 0.05
#: Of two phases that take turns: for how long each, and the recorder's CPU time in a window.
PHASE_S, CHEAP, COSTLY = 7.0, 0.004, 0.04
RESTING = 0.001


class Run:
    """A program on one processor. ``recorded``: by phase, the time that was recorded."""

    def __init__(
        self,
        length_s: float,
        seed: int,
        records_per_s: Callable[[int], float] = lambda _: 20.0,
        phase_s: float = PHASE_S,
    ) -> None:
        draw = random.Random(seed).random
        self.now_s, self.own_s, self.records, self.widened = 0.0, 0.0, 0.0, list[int]()
        self.budget = Budget(SHARE, INTERVAL_S)
        self.budget.begin(self._look, self.widened.append)
        self.recorded = [0.0, 0.0]
        cycle = Cycle("cpu-budget 0.5%", self.budget.next_period, 0.0, draw)
        begin_s = draw() * 2 * phase_s
        is_on = cycle.is_on(0.0)
        while self.now_s < length_s:
            step_s = min(STEP_S, max(cycle.left_s(self.now_s), 1e-6))
            phase = int((self.now_s + begin_s) / phase_s) % 2
            self.now_s += step_s
            self.own_s += step_s * ((CHEAP, COSTLY)[phase] if is_on else RESTING)
            self.records += step_s * records_per_s(len(self.widened)) * is_on
            self.recorded[phase] += step_s * is_on
            self.budget.observe(is_on)
            is_on = cycle.is_on(self.now_s)

    def _look(self) -> Spent:
        return Spent(self.now_s, self.now_s, self.own_s, round(self.records))


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return [Run(120.0, seed) for seed in range(60)]


def test_the_cost_stays_within_the_budget(runs: list[Run]) -> None:
    costs = [sum(run.budget.cost_s()) / run.now_s for run in runs]
    assert statistics.median(costs) < 1.05 * SHARE and max(costs) < 1.3 * SHARE
    assert statistics.median(costs) > 0.8 * SHARE  # it is used
    assert not any(run.budget.is_exceeded() for run in runs if sum(run.budget.cost_s()) < 1.1 * SHARE * run.now_s)


def test_a_costly_phase_is_recorded_as_much_as_a_cheap_one(runs: list[Run]) -> None:
    cheap, costly = (sum(run.recorded[phase] for run in runs) for phase in (0, 1))
    share = costly / (cheap + costly)
    parts = [run.recorded[1] / (sum(run.recorded) or 1.0) for run in runs]
    assert share == pytest.approx(0.5, abs=0.01 + 4 * statistics.stdev(parts) / len(parts) ** 0.5), share


def test_what_costs_too_much_in_pauses_is_said() -> None:
    spent = [Spent(0.0, 0.0, 0.0, 0)]
    budget = Budget(SHARE, INTERVAL_S)
    budget.begin(lambda: spent[-1], lambda _: None)
    spent.append(Spent(60.0, 60.0, 0.6, 0))
    budget.observe(False)
    period_s, window_s = budget.next_period()
    assert budget.is_exceeded() and window_s / period_s == pytest.approx(0.002)
    assert "cost 1.20 %" in budget.text()


def test_intervals_are_widened_before_anything_is_paused() -> None:
    assert tick_interval_ns(0.5, 10_000_000) == 10_000_000
    assert tick_interval_ns(0.005, 10_000_000) == pytest.approx(TICK_S / 0.005 * 3e9)
    assert tick_interval_ns(0.001, 10_000_000) == 100_000_000
    assert tick_interval_ns(0.005, 500_000_000) == 500_000_000
    run = Run(60.0, 1, lambda widened: 20 + 1_000 / 4**widened)
    assert run.widened[:2] == [4 << 20, 16 << 20]


def test_a_program_that_mostly_waits_has_the_budget_of_a_processor() -> None:
    spent = [Spent(0.0, 0.0, 0.0, 0)]
    budget = Budget(SHARE, INTERVAL_S)
    budget.begin(lambda: spent[-1], lambda _: None)
    spent.append(Spent(100.0, 1.0, 0.3, 10))
    budget.observe(True)
    assert budget.allowed_s() == pytest.approx(0.5)
    in_program_s, own_s = budget.cost_s()
    assert own_s == pytest.approx(0.3) and HOOKS < in_program_s < 0.01
