"""A damaged trace is refused by name."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import Ran
from tests.support.interpreters import Interpreter
from tests.support.recording import record, target

Refuse = Callable[[Path], None]

FLIPS = 400
DAMAGED = 3


@pytest.fixture(scope="module")
def good(any_python: Interpreter, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a real trace."""
    trace = tmp_path_factory.mktemp("good") / "t.parquet"
    record(trace, [target("dying"), "exit", "0.3"], any_python)
    return trace.read_bytes()


@pytest.fixture
def refuse(run: Callable[..., Ran]) -> Refuse:
    """Asks scalene-analyze about an unreadable trace: it says one or two sentences that name it."""

    def asked(path: Path) -> None:
        done = run(path)
        assert done.code == DAMAGED, f"status {done.code}: {done.err}\n{done.out[:2000]}"
        assert done.out == "" and path.name in done.err and "Traceback" not in done.err and len(done.err) < 500

    return asked


def test_a_flipped_bit_is_refused_by_name(good: bytes, tmp_path: Path, refuse: Refuse) -> None:
    chance = random.Random(20)
    for number in range(FLIPS):
        at, bit = chance.randrange(len(good)), chance.randrange(8)
        broken = bytearray(good)
        broken[at] ^= 1 << bit
        path = tmp_path / f"flip-{number}.parquet"
        path.write_bytes(broken)
        refuse(path)


@pytest.mark.parametrize("kept", [0.0, 0.001, 0.3, 0.999])
def test_a_cut_trace_is_refused_by_name(kept: float, good: bytes, tmp_path: Path, refuse: Refuse) -> None:
    path = tmp_path / "cut.parquet"
    path.write_bytes(good[: int(kept * len(good))])
    refuse(path)


def test_a_file_that_is_not_a_trace_is_refused_by_name(tmp_path: Path, refuse: Refuse) -> None:
    text = tmp_path / "text.parquet"
    text.write_text("not a Parquet file\n" * 50)
    refuse(text)
    refuse(tmp_path / "missing.parquet")
    (tmp_path / "folder.parquet").mkdir()
    refuse(tmp_path / "folder.parquet")


def test_another_parquet_file_is_refused_by_name(tmp_path: Path, refuse: Refuse) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"a": [1, 2, 3]}), path)
    refuse(path)
