"""The file itself: small, and refused by name when it is damaged."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from interpreters import Interpreter
from recording import analyze, figure, record, report, target

FLIPS = 40
DAMAGED = 3
BUSY = """
import time
end, x = time.monotonic() + 10, 1
while time.monotonic() < end:
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


@pytest.fixture(scope="module")
def good(any_python: Interpreter, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a real trace."""
    trace = tmp_path_factory.mktemp("good") / "t.parquet"
    record(trace, [target("dying"), "exit", "0.3"], any_python)
    return trace.read_bytes()


def refusal(path: Path) -> str:
    """What scalene-analyze says of an unreadable trace; one or two sentences that name it."""
    done = analyze(path)
    words = done.stderr.decode().strip()
    assert done.status == DAMAGED, f"status {done.status}: {words}\n{done.stdout.decode()[:2000]}"
    assert done.stdout == b"" and str(path.name) in words and "Traceback" not in words
    assert len(words) < 500
    return words


def test_a_flipped_bit_is_refused_by_name(good: bytes, tmp_path: Path) -> None:
    chance = random.Random(20)
    for number in range(FLIPS):
        at, bit = chance.randrange(len(good)), chance.randrange(8)
        broken = bytearray(good)
        broken[at] ^= 1 << bit
        path = tmp_path / f"flip-{number}.parquet"
        path.write_bytes(broken)
        refusal(path)


@pytest.mark.parametrize("kept", [0.0, 0.001, 0.3, 0.999])
def test_a_cut_trace_is_refused_by_name(kept: float, good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut.parquet"
    path.write_bytes(good[: int(kept * len(good))])
    refusal(path)


def test_what_is_no_trace_is_refused_by_name(tmp_path: Path) -> None:
    text = tmp_path / "text.parquet"
    text.write_text("not a Parquet file\n" * 50)
    refusal(text)
    refusal(tmp_path / "missing.parquet")
    (tmp_path / "folder.parquet").mkdir()
    refusal(tmp_path / "folder.parquet")


def test_another_parquet_file_is_refused_by_name(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"a": [1, 2, 3]}), path)
    refusal(path)
