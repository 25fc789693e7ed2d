"""The size of a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.recording import figure, record, report

pytestmark = [pytest.mark.measures_busy, pytest.mark.shares_interpreters]

BUSY = """
import time
x = 1
while time.thread_time() < 10:
    for i in range(20_000):
        x = (x * 31 + i) & 0xFFFFFF
"""


def test_ten_seconds_of_one_busy_thread_take_at_most_50_kb(python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    record(trace, ["-c", BUSY], python, ["--no-source"])
    ticks = report(trace)["traces"][0]["events"]["cpu"]
    figure("trace of 10 s of one busy thread", python, trace.stat().st_size / 1000, 50, "kB")
    assert 900 <= ticks <= 1300
    assert trace.stat().st_size <= 50_000
