"""The short form of tests/long/stress.py: no crash, no hang, hardly a torn stack."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.long.stress import one_run, stress
from tests.support.interpreters import Interpreter
from tests.support.recording import figure, losses, record, report, target
from tests.support.target_environments import recorded_interpreters

pytestmark = pytest.mark.samples

#: Versions that keep the innermost frame in a variable of the bytecode loop.
WITH_C_FRAMES = [each for each in recorded_interpreters() if each.version[:2] in ((3, 11), (3, 12))]


def test_ten_thousand_ticks_of_churn(python: Interpreter) -> None:
    outcome = stress(python, "churn", 10_000)
    figure("torn stacks, churn", python, 100 * outcome.torn_share, 0.1, "percent")
    assert outcome.turns > 0
    assert outcome.torn_share < 0.001


def test_ten_thousand_ticks_of_greenlets(python: Interpreter) -> None:
    outcome = stress(python, "greenlets", 10_000)
    figure("torn stacks, greenlets", python, 100 * outcome.torn_share, 1, "percent")
    assert outcome.turns > 0
    assert outcome.torn_share < 0.01


@pytest.mark.parametrize("python", WITH_C_FRAMES, ids=lambda each: each.name)
def test_no_process_of_several_loses_the_stacks_of_its_greenlets(python: Interpreter, tmp_path: Path) -> None:
    # where these versions keep the innermost frame, it may look otherwise in each process
    shares = []
    for _ in range(8):
        ticks, _, lost = one_run(python, "greenlets", 0.3, tmp_path)
        shares.append(100 * lost.get("torn_stack", 0) / ticks)
    figure("torn stacks, greenlets, worst of 8 processes", python, max(shares), 0.5, "percent")
    assert max(shares) < 0.5


def test_blocks_that_a_greenlet_switch_frees_are_freed_by_somebody(python: Interpreter, tmp_path: Path) -> None:
    program = [target("churn"), "0.4", "greenlets"]
    done = record(tmp_path / "t.parquet", program, python, ["--alloc-interval", "1", "--no-source"])
    assert done.status == 0, done.stderr.decode()
    found = report(done.trace)
    torn_share = losses(found).get("torn_stack", 0) / found["traces"][0]["events"]["alloc"]
    figure("torn stacks of allocations, greenlets", python, 100 * torn_share, 0.2, "percent")
    assert done.facts["turns"] > 0 and torn_share < 0.002


def test_ten_thousand_ticks_of_threads_that_come_and_go(python: Interpreter) -> None:
    outcome = stress(python, "threads", 10_000)
    assert outcome.turns > 0
    assert outcome.torn_share < 0.001


def test_ten_thousand_ticks_of_native_code_that_is_hard_to_unwind(python: Interpreter) -> None:
    outcome = stress(python, "native", 10_000)
    assert outcome.turns > 0
    assert outcome.torn_share < 0.001
