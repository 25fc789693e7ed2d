"""What happens to tests that need a package which is not installed, and the closing line of several runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support import packages
from tests.support.closing_line import closing_line, read_counts
from tests.support.paths import ROOT

NEEDS = """
from tests.support.packages import needed

def test_page():
    needed("chromium")

def test_checker():
    needed("valgrind")

def test_other():
    assert needed("chromium") is None

def test_nothing():
    pass
"""


def run_of(tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A run of NEEDS by pytest; its counts go to ``counts`` in the folder."""
    (tmp_path / "test_needs.py").write_text(NEEDS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-c", ROOT / "pyproject.toml", "-n", "0"]
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", packages.WITHOUT)}
    environment |= variables | {"SCALENE_TEST_COUNTS": str(tmp_path / "counts"), "PYTHONPATH": str(ROOT)}
    more = ["-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path / "test_needs.py"]
    return subprocess.run([*command, *more], capture_output=True, text=True, env=environment, cwd=tmp_path)


def test_tests_that_need_a_hidden_package_are_skipped_and_the_end_says_how_to_run_them(tmp_path: Path) -> None:
    done = run_of(tmp_path, SCALENE_TEST_WITHOUT="chromium,valgrind")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-3:] == [
        "2 tests were skipped because chromium is not installed",
        "1 test was skipped because valgrind is not installed",
        "to run them on Debian or Ubuntu: apt-get install chromium valgrind",
    ]
    found = read_counts(tmp_path / "counts")
    assert found.pop("seconds") > 0 and found == Counter(passed=1, skipped=3)


def test_continuous_integration_does_not_skip_what_apt_get_can_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "apt-get").write_text("#!/bin/sh\n")
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(packages.WITHOUT, raising=False)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="needs the package valgrind: continuous integration"):
        packages.needed("valgrind")
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="needs the package valgrind"):
        packages.needed("valgrind")


def test_a_run_without_skipped_packages_gives_no_advice() -> None:
    assert packages.advice(["no tmpfs can be mounted here"]) == []


def test_the_closing_line_is_the_sum_of_all_runs(tmp_path: Path) -> None:
    path = tmp_path / "counts"
    path.write_text(
        '{"passed": 2000, "skipped": 1, "failed": 0, "seconds": 500.25}\n{"passed": 200, "failed": 0, "error": 0, "seconds": 300}\n'
    )
    assert closing_line(read_counts(path)).strip("=") == " 2200 passed, 1 skipped in 800.25s "
    assert closing_line(Counter(passed=3, failed=2, error=1)).strip("=") == " 2 failed, 3 passed, 1 errors in 0.00s "
