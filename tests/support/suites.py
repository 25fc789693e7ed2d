"""Runs pytest on small test suites, with and without the plugin of the package."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.recording import Finished, run

#: What the tests of a suite do: CPU time, memory, and what they keep.
USES = """
import os, subprocess, sys, time
import pytest
kept = []
def spin(cpu_s):
    due = time.process_time() + cpu_s
    while time.process_time() < due:
        sum(range(1000))
"""


def suite(folder: Path, text: str, name: str = "test_suite.py") -> Path:
    """A test file in ``folder`` that holds USES and ``text``."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(USES + text)
    return path


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours without what pytest and pytest-xdist tell the processes of this very run."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV", "SCALENE_TRACE"))
    }
    return kept | dict(extra or {})


def command(*arguments: str | Path) -> list[str]:
    """The command line of pytest with the plugin, which the tests' own environment has installed."""
    quiet = "ignore:Module already imported so cannot be rewritten; _editable"  # see pyproject.toml
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", quiet, *map(str, arguments)]


def run_suite(folder: Path, *arguments: str | Path, extra: Mapping[str, str] | None = None) -> Finished:
    """Runs pytest in ``folder`` to its end."""
    return run(command(*arguments), cwd=folder, env=clean_environment(extra))


def outcomes(done: Finished) -> Sequence[str]:
    """What pytest says of its tests in its last line, like ["1 failed", "2 passed"]."""
    last = done.stdout.decode().strip().splitlines()[-1].strip("= ")
    return [each for each in last.partition(" in ")[0].split(", ") if "warning" not in each]
