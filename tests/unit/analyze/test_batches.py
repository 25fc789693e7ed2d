"""Many traces in batches: all of them, in their order, and no more at one moment than memory holds; and what runs ends with what waits for it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalene_trace.analyze.report import batches, reduction
from scalene_trace.analyze.report.reduction import Sums
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.analyze.trace.traces import Traces
from scalene_trace.formats.trace.writer import write_trace
from tests.support.own_threads import ends_its_threads
from tests.support.trace_builder import TRACE_ID, TraceBuilder

WEIGHTS = st.integers(batches.TRACE_BYTES, batches.HELD_BYTES)
MB = 1_000_000


def cut(weights: list[int], cores: int) -> tuple[list[list[int]], int]:
    """The batches, as weights, and how many at one moment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "_weight", lambda path: weights[int(path.name)])
        found, at_once = batches.batches_of([Path(str(number)) for number in range(len(weights))], cores)
    assert [path.name for path in chain(*found)] == [str(number) for number in range(len(weights))]
    return [[weights[int(path.name)] for path in batch] for batch in found], at_once


@given(st.lists(WEIGHTS, min_size=1, max_size=120), st.integers(1, 64))
def test_what_is_reduced_at_one_moment_fits(weights: list[int], cores: int) -> None:
    found, at_once = cut(weights, cores)
    assert all(found) and 1 <= at_once <= min(cores, len(found))
    heaviest = sorted(map(sum, found))[-at_once:]
    assert sum(heaviest) <= batches.HELD_BYTES


@pytest.mark.parametrize(
    ("weights", "cores", "sizes", "at_once"),
    [
        ([78 * MB // 10] * 100, 2, [5] + [10] * 9 + [5], 2),  # all busy to the end, and none at its end with another
        ([27 * MB] * 100, 2, [1] + [3] * 33, 2),
        ([20 * MB] * 100, 4, [1, 1, 1] + [2] * 48 + [1], 4),
        ([27 * MB] * 7, 2, [2, 2, 2, 1], 2),
        ([179 * MB] * 3, 2, [1, 1, 1], 1),  # two at once would not fit
        ([1 * MB] * 100, 64, [17] * 5 + [15], 6),  # many cores must not lead to many small batches
        ([1 * MB] * 29, 2, [29], 1),
        ([15 * MB, 15 * MB], 2, [1, 1], 2),
        ([1 * MB], 2, [1], 1),
        ([60 * MB], 8, [1], 1),  # alone: its queries have all cores
    ],
)
def test_batches_are_even_and_worth_their_planning(
    weights: list[int], cores: int, sizes: list[int], at_once: int
) -> None:
    found, found_at_once = cut(weights, cores)
    assert ([len(batch) for batch in found], found_at_once) == (sizes, at_once)


def test_deep_stacks_weigh_and_what_a_file_says_of_itself_does_so_only_within_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.parquet"
    write_trace(path, TRACE_ID, [{}])
    size = path.stat().st_size

    def weight(frames: int | None) -> int:
        monkeypatch.setattr(batches, "stored_frames", lambda path: frames)
        return batches._weight(path)

    assert weight(0) == batches.TRACE_BYTES + size
    assert weight(1_000_000) - weight(0) == 6_000_000
    assert weight(None) == batches.TRACE_BYTES + 5 * size
    assert weight(10**100) == batches.HELD_BYTES
    assert batches._weight(tmp_path / "gone") == batches._weight(Path("a" * 300)) == batches.TRACE_BYTES


@pytest.mark.parametrize("is_interrupted", [True, False])
def test_what_runs_ends_at_once_when_the_caller_is_interrupted_or_a_batch_fails(
    is_interrupted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [TraceBuilder().write(tmp_path / f"{number}.parquet") for number in range(4)]
    begun: list[Path] = []

    def reduce(traces: Traces, selection: Selection) -> Sums:
        begun.append(traces.files[0].path)
        if begun[-1] == paths[0] and not is_interrupted:
            time.sleep(0.5)
            raise ValueError("this batch fails")
        traces.connection.execute("SELECT count(*) FROM range(100_000_000_000) t(i) WHERE i % 7 = 3")
        raise AssertionError("nobody can wait for this")

    monkeypatch.setattr(reduction, "batches_of", lambda paths, cores: ([[path] for path in paths], 2))
    monkeypatch.setattr(reduction, "reduce_traces", reduce)
    start = time.monotonic()
    if is_interrupted:
        threading.Timer(0.5, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()
    with ends_its_threads(), pytest.raises(KeyboardInterrupt if is_interrupted else ValueError):
        reduction.sums_of(paths, Selection())
    assert time.monotonic() - start < 8
    assert len(begun) <= 3, "batches that wait are not begun"


def test_what_runs_ends_when_ctrl_c_comes_while_batches_are_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [TraceBuilder().write(tmp_path / f"{number}.parquet") for number in range(3)]
    runs = threading.Event()

    class Interrupted(list[list[Path]]):
        def __iter__(self) -> Iterator[list[Path]]:
            yield self[0]
            assert runs.wait(20)
            raise KeyboardInterrupt

    def reduce(traces: Traces, selection: Selection) -> Sums:
        runs.set()
        traces.connection.execute("SELECT count(*) FROM range(100_000_000_000) t(i) WHERE i % 7 = 3")
        raise AssertionError("nobody can wait for this")

    monkeypatch.setattr(reduction, "batches_of", lambda paths, cores: (Interrupted([path] for path in paths), 2))
    monkeypatch.setattr(reduction, "reduce_traces", reduce)
    start = time.monotonic()
    with ends_its_threads(), pytest.raises(KeyboardInterrupt):
        reduction.sums_of(paths, Selection())
    assert time.monotonic() - start < 25
