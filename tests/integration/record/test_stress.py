"""A run of the stress program counts only if each kind of its work has happened."""

from __future__ import annotations

import pytest

from tests.long import stress
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


@pytest.mark.parametrize(("rare_from", "runs"), [(1, 2), (4, 4), (99, None)])
def test_a_program_is_run_until_each_kind_of_its_work_has_happened(
    rare_from: int, runs: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[float] = []

    def one_run(
        python: object, program: str, seconds: float, folder: object
    ) -> tuple[int, dict[str, int], dict[str, int]]:
        made.append(seconds)
        work = {kind: 1 for kind in WORK[program] if kind != "deleted" or len(made) >= rare_from}
        return 3_000, work | {"turns": 5}, {}

    monkeypatch.setattr(stress, "one_run", one_run)
    if runs is None:
        with pytest.raises(AssertionError, match="deleted did not happen in 10 runs"):
            stress.stress(newest_recorded(), "churn", 5_000)
    else:
        outcome = stress.stress(newest_recorded(), "churn", 5_000)
        assert (outcome.runs, outcome.turns) == (runs, 5 * runs)


def test_every_program_says_what_it_does() -> None:
    assert WORK.keys() == PROGRAMS.keys() and all(WORK.values())


def test_a_thread_that_fails_fails_the_program() -> None:
    done = run([newest_recorded().path, target("churn"), "0.01", "native", "/no/library", "/no/library"])
    assert done.status == 1 and b"/no/library" in done.stderr
