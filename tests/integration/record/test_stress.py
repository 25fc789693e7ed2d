"""A run of the stress program counts only if each kind of its work has happened."""

from __future__ import annotations

import pytest

from tests.long.stress import PROGRAMS, WORK, undone_work
from tests.support.recording import run, target
from tests.support.target_environments import newest_recorded

NATIVE = {"libraries": 3, "coroutines": 2, "handlers": 1, "generated": 9, "turns": 15}


@pytest.mark.parametrize(
    ("facts", "undone"),
    [
        (NATIVE, []),
        (NATIVE | {"libraries": -1}, ["libraries"]),  # it could not be loaded
        (NATIVE | {"handlers": 0}, ["handlers"]),
        ({"turns": 15}, ["libraries", "coroutines", "handlers", "generated"]),
    ],
)
def test_work_that_failed_or_is_missing_is_undone(facts: dict[str, int], undone: list[str]) -> None:
    assert undone_work("native", facts) == undone


def test_every_program_says_what_it_does() -> None:
    assert WORK.keys() == PROGRAMS.keys() and all(WORK.values())


def test_a_thread_that_fails_fails_the_program() -> None:
    done = run([newest_recorded().path, target("churn"), "0.01", "native", "/no/library", "/no/library"])
    assert done.status == 1 and b"/no/library" in done.stderr
