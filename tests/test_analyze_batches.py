"""Many traces in batches: all of them, in their order, and no batch with more than its share of what memory holds."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalene_trace.analyze import batches
from scalene_trace.formats.writer import write_trace
from trace_builder import TRACE_ID

WEIGHTS = st.integers(batches.TRACE_BYTES, batches.HELD_BYTES)


@given(st.lists(WEIGHTS, min_size=1, max_size=120), st.integers(1, 64))
def test_batches_hold_every_path_in_order_and_no_more_than_fits(weights: list[int], cores: int) -> None:
    paths = [Path(str(number)) for number in range(len(weights))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "_weight", lambda path: weights[int(path.name)])
        found = batches.batches_of(paths, cores)
    assert list(chain(*found)) == paths and all(found)
    if sum(weights) <= batches.TOGETHER_BYTES:
        assert len(found) == 1
    else:
        share = batches.HELD_BYTES / cores + max(weights)
        assert all(sum(weights[int(path.name)] for path in batch) <= share for batch in found)


def test_a_hundred_equal_traces_keep_all_cores_busy_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_weight", lambda path: 7_800_000)
    assert [len(batch) for batch in batches.batches_of([Path("t")] * 100, 2)] == [10] * 10


def test_deep_stacks_weigh_and_what_a_file_says_of_itself_does_so_only_within_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.parquet"
    write_trace(path, TRACE_ID, [{}])
    size = path.stat().st_size

    def weight(frames: int | None) -> int:
        monkeypatch.setattr(batches, "frames_told", lambda path: frames)
        return batches._weight(path)

    assert weight(0) == batches.TRACE_BYTES + size
    assert weight(1_000_000) - weight(0) == 8_000_000
    assert weight(None) == batches.TRACE_BYTES + 3 * size
    assert weight(10**100) == batches.HELD_BYTES
