"""What a recording with --cpu-budget decides, on simulated programs."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from scalene_trace.formats.spool.layout import constants, ffi
from scalene_trace.formats.trace.text import BUDGET_NOTE
from scalene_trace.recorder.control.budget import HOOKS, TICK_S, Budget, Spent, tick_interval_ns
from scalene_trace.recorder.control.cycle import Cycle
from scalene_trace.recorder.errors import UsageError
from scalene_trace.recorder.option_values import budget_share
from scalene_trace.recorder.run import record
from scalene_trace.recorder.run.session import Session
from scalene_trace.recorder.sampling import kept_budget, spending
from scalene_trace.recorder.sampling.kept_budget import KeptBudget
from scalene_trace.recorder.sampling.spending import Spending
from scalene_trace.recorder.spool.spool_file import alloc_control

SHARE, INTERVAL_S, STEP_S = 0.005, 0.06, 0.05
FEATURE_AUTO = constants()["FEATURE_ALLOC_AUTO"]
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
        self.budget.begin(self._look, self._widen)
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
        return Spent(self.now_s, self.now_s, self.own_s, round(self.records), INTERVAL_S)

    def _widen(self, interval_bytes: int) -> bool:
        self.widened.append(interval_bytes)
        return True


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
    spent = [Spent(0.0, 0.0, 0.0, 0, INTERVAL_S)]
    budget = Budget(SHARE, INTERVAL_S)
    budget.begin(lambda: spent[-1], lambda _: False)
    spent.append(Spent(60.0, 60.0, 0.6, 0, INTERVAL_S))
    budget.observe(False)
    period_s, window_s = budget.next_period()
    assert budget.is_exceeded() and (period_s, window_s) == pytest.approx((12.0, 0.025))
    assert "cost 1.20 %" in budget.text()


def test_intervals_are_widened_before_anything_is_paused() -> None:
    assert tick_interval_ns(0.5, 10_000_000) == 10_000_000
    assert tick_interval_ns(0.005, 10_000_000) == pytest.approx(TICK_S / 0.005 * 3e9)
    assert tick_interval_ns(0.001, 10_000_000) == 100_000_000
    assert tick_interval_ns(0.005, 500_000_000) == 500_000_000
    run = Run(60.0, 1, lambda widened: 20 + 1_000 / 4**widened)
    assert run.widened[:2] == [4 << 20, 16 << 20]


def test_a_program_that_mostly_waits_has_the_budget_of_a_processor() -> None:
    spent = [Spent(0.0, 0.0, 0.0, 0, INTERVAL_S)]
    budget = Budget(SHARE, INTERVAL_S)
    budget.begin(lambda: spent[-1], lambda _: False)
    spent.append(Spent(100.0, 1.0, 0.3, 10, INTERVAL_S))
    budget.observe(True)
    assert budget.allowed_s() == pytest.approx(0.5)
    in_program_s, own_s = budget.cost_s()
    assert own_s == pytest.approx(0.3) and HOOKS < in_program_s < 0.01


def test_ticks_cost_what_the_interval_of_their_time_makes() -> None:
    """A person sets 1 ms instead of 60 ms for half of the time."""
    spent = [Spent(0.0, 0.0, 0.0, 0, INTERVAL_S)]
    budget = Budget(SHARE, INTERVAL_S)
    budget.begin(lambda: spent[-1], lambda _: False)
    for moment_s, interval_s in ((60.0, INTERVAL_S), (120.0, 0.001)):
        spent.append(Spent(moment_s, moment_s, 0.0, 0, interval_s))
        budget.observe(True)
    in_program_s, _ = budget.cost_s()
    assert in_program_s == pytest.approx((1_000 + 60_000) * TICK_S + 120.0 * (HOOKS + 0.005))


def test_the_smallest_budget_is_more_than_what_hooks_cost() -> None:
    assert budget_share("--cpu-budget", "0.3%") == pytest.approx(0.003) and HOOKS < 0.003
    with pytest.raises(UsageError, match=r"0\.3% to 50%"):
        budget_share("--cpu-budget", "0.2%")


def test_a_process_that_has_ended_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pids, asked, used = {7: 1, 8: 2}, list[int](), {8: 1.0}

    def clock(number: int) -> float:
        asked.append(pid := ~number >> 3)
        if pid not in used:
            raise OSError
        return used[pid]

    monkeypatch.setattr(spending, "time", SimpleNamespace(clock_gettime=clock, monotonic=float, process_time=float))
    space: Any = SimpleNamespace(in_use={}, header=SimpleNamespace(cpu_interval_ns=60_000_000))
    spent = Spending(space, lambda: pids)
    assert (spent.look().program_s, asked) == (1.0, [7, 8])
    used[7] = 100.0  # a stranger's, which has the pid now
    assert (spent.look().program_s, asked[2:], spent.look().interval_s) == (1.0, [8], 0.06)
    pids[7] = 3  # the program's again
    assert spent.look().program_s == 101.0


def test_a_process_that_has_closed_its_chunk_has_written_what_is_in_it() -> None:
    headers = {3: (1, 20, 0), 4: (2, 1024 + 7, 1), 5: (3, 1030, 0), 6: (3, 1024 + 1030, 1)}

    def first_bytes(chunk: int, size: int) -> bytes:
        process, cursor, closed = headers[chunk]
        header = ffi().new("struct chunk_header *", {"process": process, "cursor": cursor, "closed": closed})
        return bytes(ffi().buffer(header))[:size]

    space: Any = SimpleNamespace(in_use=dict.fromkeys(headers, 1), first_bytes=first_bytes)
    spent = Spending(space, dict)
    spent.count_records()
    assert spent._records == 20 + 7 + 1024 + 1024
    headers[3] = (1, 1024 + 21, 1)
    spent.count_records()
    assert spent._records == 21 + 7 + 1024 + 1024
    del space.in_use[5], space.in_use[3]  # drained; the process of the first has another chunk
    spent.count_records()
    assert spent._records == 21 + 7 + 1024 + 1024
    headers[7] = headers[8] = (4, 30, 0)
    space.in_use |= {7: 1, 8: 1}
    spent.count_records()
    del space.in_use[7]  # it was full when it was drained: its process goes on in another one
    spent.count_records()
    assert spent._records == 21 + 7 + 1024 + 1024 + 1024 + 30


# ---- what a recording does with it ----


class Kept:
    """A budget that is kept. ``notes``: in the trace; ``looks``: how often was measured."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, alloc_bytes: int = 4 << 20, features: int = -1) -> None:
        self.now_s, self.records, self.looks, self.notes = 100.0, 0, 0, list[str]()
        self.header = SimpleNamespace(
            paused=0, start_mono_ns=0, cpu_interval_ns=60_000_000, features=features & ~FEATURE_AUTO
        )
        self.header.alloc_control, self.header.alloc_interval_bytes = 0, alloc_bytes
        clock = SimpleNamespace(monotonic=lambda: self.now_s, monotonic_ns=lambda: round(self.now_s * 1e9))
        monkeypatch.setattr(kept_budget, "time", clock)
        self.budget = Budget(SHARE, INTERVAL_S, alloc_bytes)
        marks: Any = SimpleNamespace(add=lambda *_, text: self.notes.append(text))
        self.kept = KeptBudget(self.budget, self.header, marks, self._look)

    def _look(self) -> Spent:
        self.looks += 1
        return Spent(self.now_s, self.now_s, 0.0, self.records, INTERVAL_S)

    def turn(self, after_s: float) -> None:
        self.now_s += after_s
        self.kept.turn()


def test_a_program_that_ends_before_anything_was_measured_has_no_note(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Kept(monkeypatch)
    own.turn(100.0)
    assert (own.kept.end(), own.notes, own.looks) == ("", [], 0)
    own.kept.allow()
    own.turn(0.0)
    own.turn(60.0)
    own.kept.end()
    assert len(own.notes) == 2 and all(note.startswith(BUDGET_NOTE) for note in own.notes)


def test_it_is_measured_at_edges_and_four_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Kept(monkeypatch)
    own.kept.allow()
    for _ in range(81):
        own.turn(0.0625)
    assert own.looks == 2 + 19, "when it begins, and in 79 turns"
    own.header.paused = 1
    own.turn(0.01)
    own.turn(0.01)
    assert own.looks == 2 + 20


@pytest.mark.parametrize(
    ("alloc_bytes", "features", "told"),
    [(4 << 20, -1, ", alloc-interval=4194304"), (1, -1, ", alloc-interval=1"), (0, -1, ""), (0, 0, "")],
    ids=["all", "every allocation", "no samples", "no memory"],
)
def test_a_note_has_the_intervals_that_are_sampled(
    alloc_bytes: int, features: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Kept(monkeypatch, alloc_bytes, features)
    own.header.cpu_interval_ns = 1_000_000  # a person has set it
    own.kept.allow()
    own.turn(1.0)
    own.kept.end()
    assert own.notes[-1].endswith(f"cpu-interval=1ms{told}")


@pytest.mark.parametrize("is_set", [False, True])
def test_an_interval_of_a_person_stays(is_set: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Kept(monkeypatch)
    own.kept.allow()
    own.turn(0.0)
    given = own.header.alloc_control = alloc_control(300_000) if is_set else 0
    own.records = 100_000
    own.turn(10.0)
    own.budget.next_period()
    assert own.header.alloc_control == (given if is_set else alloc_control(16 << 20))


def running(**more: Any) -> Any:
    """A session of a program that takes no chunks, in a pause that ends later."""
    session: Any = object.__new__(Session)
    session.__dict__.update({name: MagicMock() for name in ("_prepared", "_drain", "_rss", "_header", "_budget")})
    now_s, never_s = time.monotonic(), float("inf")
    session.__dict__.update(
        _early_end=None, _end_s=never_s, _snapshot_s=never_s, _taken=0, _turned_s=now_s, _noticed_s=0.0, _whole_s=0.0
    )
    session.__dict__.update(
        _rotation=None, _begun=None, _spending=None, _cycle=Cycle("", lambda: (1_000.0, 1.0), now_s, lambda: 0.5)
    )
    session._prepared.space.full_ahead, session._prepared.rights = 256, None
    session.__dict__.update(more)
    return session


def test_turns_are_far_apart_unless_something_is_to_happen() -> None:
    session = running()
    assert session.turn() == 0.5
    assert running(_end_s=time.monotonic() + 0.1).turn() <= 0.1
    session._prepared.rights = MagicMock()
    session._rss.started.return_value, session._whole_s = [7], 0.0
    assert session.turn() == 0.05, "a new process may soon give up its rights"
    session._rss.started.return_value, session._noticed_s = [], time.monotonic() - 1.0
    assert session.turn() == 0.5
    session._header.paused = 0
    assert session.turn() == 0.25, "in a window, the next one is closer"


def test_a_cost_that_cannot_be_measured_stops_nothing() -> None:
    session = running()
    session._budget.turn.side_effect = session._budget.end.side_effect = OSError
    session.turn()
    assert session._prepared.pauses.follow_cycle.called
    session.__dict__.update(
        dict.fromkeys(("_snapshots", "_marks"), MagicMock()), _server=None, _watcher=None, _gpu=None
    )
    session._stop()
    assert session._drain.close.called


def test_the_budget_begins_without_a_thread_for_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = MagicMock()
    monkeypatch.setattr(record.threading.Thread, "start", MagicMock(side_effect=RuntimeError))
    monkeypatch.setattr(record, "wait_for", MagicMock())
    monkeypatch.setattr(record, "_load_converter", MagicMock())
    record._supervise(session, 1, None)
    assert session.begin_budget.called
