"""The size of a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.recording import figure, record, report

pytestmark = pytest.mark.measures_alone

BUSY = """
import time
x = 1
while time.thread_time() < 10:
    for i in range(20_000):
        x = (x * 31 + i) & 0xFFFFFF
"""


#: Of a sampled allocation, which the 50 kB do not hold: how many there are depends on how fast the machine allocates.
SAMPLE_BYTES = 25


def test_ten_seconds_of_one_busy_thread_take_at_most_50_kb(python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    record(trace, ["-c", BUSY], python, ["--no-source"])
    events = report(trace)["traces"][0]["events"]
    size = trace.stat().st_size - SAMPLE_BYTES * events["alloc"]
    figure("trace of 10 s of one busy thread, without samples of allocations", python, size / 1000, 50, "kB")
    assert 900 <= events["cpu"] <= 1300
    assert size <= 50_000
