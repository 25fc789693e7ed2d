"""The rule by which `make measure` runs tests again, and what `make test` and `make measure` select."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import measure
from tests.support.closing_line import COUNTS
from tests.support.paths import ROOT

#: Fails as often as the file beside it says.
FAILS = """
from pathlib import Path
import pytest

@pytest.mark.figures
def test_it():
    left = Path(__file__).with_name("left")
    number = int(left.read_text())
    left.write_text(str(number - 1))
    assert number <= 0
"""


@pytest.mark.parametrize(("failures", "status", "runs"), [(0, 0, 1), (1, 0, 3), (2, 1, 2)])
def test_a_missed_figure_must_hold_twice(
    failures: int, status: int, runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_figure.py").write_text(FAILS)
    (tmp_path / "left").write_text(str(failures))
    monkeypatch.setattr(measure, "ROOT", tmp_path)
    monkeypatch.delenv(COUNTS, raising=False)  # these runs are not counted
    assert measure.main(["test_figure.py"]) == status
    assert int((tmp_path / "left").read_text()) == failures - runs


def test_many_misses_are_not_the_machine() -> None:
    missed = [f"tests/acceptance/test_waiting_time.py::test_{number}" for number in range(measure.MOST_MISSED + 1)]
    assert measure.may_be_the_machine(missed[1:]) and not measure.may_be_the_machine(missed)
    assert not measure.may_be_the_machine([]) and not measure.may_be_the_machine(["tests/acceptance/test_leaks.py"])


def test_an_option_of_pytest_is_passed_on() -> None:
    command = [sys.executable, "-m", "tests.support.measure", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and "pytest" in done.stdout + done.stderr


def collected(*arguments: str) -> set[str]:
    """The tests that pytest would run."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_each_test_on_an_interpreter_is_collected_by_its_name_too() -> None:
    tests = sorted(
        collected("tests/acceptance/survival/test_stack_walker.py"), key=lambda test: test.rpartition("[")[2]
    )
    first, last = tests[0], tests[-1]  # of an even version and an odd one
    assert (collected(first), collected(last)) == ({first}, {last})


def test_behaviour_and_figures_are_all_tests_and_share_none() -> None:
    file = "tests/acceptance/test_process_trees.py"
    behaviour, figures = collected(file, "-m", "not long and not figures"), collected(file, "-m", measure.SELECTED)
    assert behaviour and figures and not behaviour & figures
    assert behaviour | figures == collected(file)
