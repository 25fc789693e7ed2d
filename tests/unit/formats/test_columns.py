"""Columns of texts, and copies of records, against what numpy and Arrow do by themselves."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from scalene_trace.formats.spool.layout import concatenated, rows_of, struct_dtype
from scalene_trace.formats.trace.columns import Coded
from scalene_trace.formats.trace.row_groups import _array

TEXTS = ("", "a", "malloc", "größer", "日本", "🙂", "x" * 300, "two\nlines", "\0")


def codes(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


@pytest.mark.parametrize("seed", range(20))
def test_texts_are_those_of_their_codes(seed):
    draw = random.Random(seed)
    texts = draw.sample(TEXTS, draw.randrange(0, len(TEXTS)))
    chosen = [draw.randrange(-1, len(texts)) for _ in range(draw.choice((0, 1, 7, 8, 9, 200)))]
    chosen = [code for code in chosen for _ in range(draw.choice((1, 9)) if seed % 2 else 1)]  # runs of one text
    made = _array(Coded(codes(*chosen), texts), pa.string())
    made.validate(full=True)
    assert made.to_pylist() == [None if code < 0 else texts[code] for code in chosen]
    assert made.equals(pa.array([None if code < 0 else texts[code] for code in chosen], pa.string()))


@pytest.mark.parametrize("wrong", [-2, 2, 3])
def test_a_code_without_a_text_is_refused(wrong):
    with pytest.raises(ValueError, match="without a text"):
        _array(Coded(codes(0, wrong), ["a", "b"]), pa.string())


def test_what_is_no_utf_8_is_written_as_an_escape():
    assert _array(Coded(codes(0, 1), ["a", "b\udcff"]), pa.string()).to_pylist() == ["a", "b\\udcff"]


@pytest.mark.parametrize("kind", ["record_alloc", "record_process_start", "spool_event"])
def test_records_are_copied_whole(kind):
    draw = np.random.default_rng(1)
    dtype = struct_dtype(kind)
    records = np.frombuffer(draw.bytes(dtype.itemsize * 90), dtype)
    for rows in (np.empty(0, np.int64), np.array([3]), draw.integers(0, 90, 200), np.arange(90)):
        assert rows_of(records, rows).tobytes() == records[rows].tobytes()
        assert rows_of(records, rows).dtype == dtype
    strided = records[::3]
    assert rows_of(strided, np.array([1, 0])).tobytes() == strided[[1, 0]].tobytes()
    for parts in ([records], [records, records[:0], strided], [records[:0], records[:0]]):
        assert concatenated(parts).tobytes() == np.concatenate(parts).tobytes()
        assert concatenated(parts).dtype == dtype
