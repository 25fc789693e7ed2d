"""The fast path of every interposed function stays as short as it is: its instructions are counted one by one."""

from __future__ import annotations

import sys

import pytest

from tests.support.interpreters import Interpreter
from tests.support.paths import ROOT
from tests.support.recording import run

BENCHMARK = ROOT / "benchmarks" / "instructions.py"


@pytest.mark.figures  # of a simulated processor: neither clocks nor other programs change them
def test_no_entry_point_executes_more_instructions_than_are_kept(any_python: Interpreter) -> None:
    done = run([sys.executable, BENCHMARK, "--check", "--python", any_python.path])
    assert done.status == 0, f"{done.stderr.decode()}\n{done.stdout.decode()}"
    assert done.stdout.count(b"\n") == 13
