"""The rule by which tests that measure are measured again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import whole

#: Fails as often as the file beside it says.
FAILS = """
from pathlib import Path

def test_it():
    left = Path(__file__).with_name("left")
    number = int(left.read_text())
    left.write_text(str(number - 1))
    assert number <= 0
"""


@pytest.mark.parametrize(
    ("module", "failures", "status", "runs"),
    [
        ("test_must_waits.py", 0, 0, 1),
        ("test_must_waits.py", 1, 0, 3),
        ("test_must_waits.py", 2, 1, 2),
        ("test_must_leaks.py", 1, 0, 3),
        ("test_layout.py", 1, 1, 1),
    ],
)
def test_what_missed_must_hold_twice_and_other_failures_stay(
    module: str, failures: int, status: int, runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / module).write_text(FAILS)
    (tmp_path / "left").write_text(str(failures))
    monkeypatch.setattr(whole, "ROOT", tmp_path)
    assert whole.main([module]) == status
    assert int((tmp_path / "left").read_text()) == failures - runs


def test_many_misses_are_not_the_machines() -> None:
    missed = [f"tests/test_must_waits.py::test_{number}" for number in range(whole.MOST_MISSED + 1)]
    assert whole.may_be_the_machines(missed[1:]) and not whole.may_be_the_machines(missed)
    assert not whole.may_be_the_machines([]) and not whole.may_be_the_machines(["tests/test_must_waits.py"])


def test_an_option_of_pytest_is_passed_on() -> None:
    done = subprocess.run([sys.executable, Path(whole.__file__), "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and "pytest" in done.stdout + done.stderr


def collected(*arguments: str) -> set[str]:
    """The tests that pytest would run."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=whole.ROOT, capture_output=True, text=True)
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_each_test_of_a_halved_module_is_collected_by_its_name_too() -> None:
    tests = sorted(collected("tests/test_must_stress.py"), key=lambda test: test.rpartition("[")[2])
    first, last = tests[0], tests[-1]  # of an even version and an odd one
    assert (collected(first), collected(last)) == ({first}, {last})
