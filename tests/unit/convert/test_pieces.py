"""What arrives in pieces is what one would make of all at once, in linear time; and which processes have chunks in later batches."""

from __future__ import annotations

import random

import numpy as np
import pytest

from scalene_trace.formats.dataclass import replace
from scalene_trace.formats.spool.layout import struct_dtype
from scalene_trace.formats.spool.reader import Spool, read_records
from scalene_trace.recorder.convert.keyed import pieces
from scalene_trace.recorder.convert.keyed.by_key import ByKey
from scalene_trace.recorder.convert.keyed.pieces import Counts, Distinct, Extremes
from scalene_trace.recorder.convert.survey.later import Later
from scalene_trace.recorder.convert.survey.survey import Survey
from tests.support.spool_builder import START_MONO_NS, SpoolBuilder


@pytest.mark.parametrize("seed", range(5))
def test_processes_have_chunks_in_later_batches(tmp_path, seed):
    """Against the batches themselves."""
    draw, builder = random.Random(seed), SpoolBuilder().start()
    for _ in range(60):
        process = draw.choice((1, 1, 2, 3, draw.randrange(4, 40)))
        builder.new_chunk(process).add("gc", process, t_ns=START_MONO_NS + 1)
    spool = Spool(builder.write(tmp_path / "spool"), batch_chunks=7)
    later, batches = Later(Survey(spool).chunks), list(spool.batches())
    assert len(batches) > 3
    wanted = np.arange(1, 45)
    for number, batch in enumerate(batches):
        later.than(batch)
        rest = {each for other in batches[number + 1 :] for each in other.bulk["gc"].process.tolist()}
        assert later.has(wanted).tolist() == [each in rest for each in wanted.tolist()]


def test_a_chunk_that_was_not_surveyed_is_no_later_one():
    """It was begun while the spool was read."""
    later = Later(ByKey(np.array([1]), np.array([1])))
    later.than(replace(read_records([]), chunks=np.array([1, 1, 2], np.int32)))
    assert not later.has(np.array([1, 2])).any()


@pytest.mark.parametrize("limit", [16_384, 0])
def test_distinct_ones_are_those_of_all_pieces(monkeypatch, limit):
    """Of records, the first of each hash."""
    monkeypatch.setattr(pieces, "_MOST_WAITING", limit)
    draw, dtype = np.random.default_rng(1), struct_dtype("record_node")
    hashes, records = Distinct(np.uint64), Distinct(dtype)
    first: dict[int, int] = {}
    for number in range(30):
        piece = np.zeros(int(draw.integers(0, 20)), dtype)
        piece["hash"], piece["parent"] = draw.integers(0, 50, len(piece)), number
        hashes.add(piece["hash"].copy())
        records.add(piece)
        for each in piece["hash"].tolist():
            first.setdefault(each, number)
        if number % 7 == 0:
            assert hashes.all().tolist() == sorted(first)
    assert hashes.all().tolist() == sorted(first)
    assert dict(zip(records.all()["hash"].tolist(), records.all()["parent"].tolist(), strict=True)) == first


def test_twice_as_many_batches_take_twice_as_long_to_survey(monkeypatch):
    """All nodes were sorted again for each batch that had a new one."""
    sorted_rows: list[int] = []
    unique = np.unique
    monkeypatch.setattr(
        pieces.np, "unique", lambda values, **more: sorted_rows.append(len(values)) or unique(values, **more)
    )
    rows = []
    for count in (400, 800):
        found = Distinct(np.uint64)
        for number in range(count):
            found.add(np.arange(100 * number, 100 * number + 100, dtype=np.uint64))
        assert len(found.all()) == 100 * count
        rows.append(sum(sorted_rows))
        sorted_rows.clear()
    assert rows[1] < 3 * rows[0] < 1_000_000


def test_counts_are_those_of_all_pieces():
    draw, counts, expected = random.Random(1), Counts(), dict[int, int]()
    for _ in range(20):
        piece = [draw.randrange(30) for _ in range(draw.randrange(10))]
        counts.add(np.array(piece, np.int32))
        for each in piece:
            expected[each] = expected.get(each, 0) + 1
    found = counts.all()
    assert dict(zip(found.keys.tolist(), found.values.tolist(), strict=True)) == expected


@pytest.mark.parametrize("highest", [False, True])
@pytest.mark.parametrize("limit", [16_384, 0])
def test_extremes_are_those_of_all_pieces(monkeypatch, highest, limit):
    monkeypatch.setattr(pieces, "_MOST_WAITING", limit)
    draw, found = random.Random(1), Extremes(highest)
    rows: dict[int, list[tuple[int, int]]] = {}
    for _ in range(20):
        piece = [(draw.randrange(20), draw.randrange(9), draw.randrange(9)) for _ in range(draw.randrange(8))]
        found.add(*np.array(piece, np.int64).reshape(-1, 3).T)
        for key, value, more in piece:
            rows.setdefault(key, []).append((-value if highest else value, more))
    best = {key: min(each) for key, each in rows.items()}
    values, more = found.all(), found.more()
    assert values.keys.tolist() == more.keys.tolist() == sorted(best)
    assert values.values.tolist() == [abs(best[key][0]) for key in sorted(best)]
    assert more.values.tolist() == [best[key][1] for key in sorted(best)]
