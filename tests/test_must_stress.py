"""The short form of tests/stress.py: no crash, no hang, hardly a torn stack."""

from __future__ import annotations

from interpreters import Interpreter
from recording import figure
from stress import stress


def test_twenty_thousand_ticks_of_churn(python: Interpreter) -> None:
    outcome = stress(python, "churn", 20_000)
    figure("torn stacks, churn", python, 100 * outcome.torn_share, 0.1, "percent")
    assert outcome.turns > 0
    assert outcome.torn_share < 0.001


def test_twenty_thousand_ticks_of_greenlets(python: Interpreter) -> None:
    outcome = stress(python, "greenlets", 20_000)
    figure("torn stacks, greenlets", python, 100 * outcome.torn_share, 1, "percent")
    assert outcome.turns > 0
    assert outcome.torn_share < 0.01


def test_twenty_thousand_ticks_of_threads_that_come_and_go(python: Interpreter) -> None:
    outcome = stress(python, "threads", 20_000)
    assert outcome.turns > 0
    assert outcome.torn_share < 0.001
