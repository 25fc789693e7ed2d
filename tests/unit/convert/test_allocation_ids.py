"""Which allocation a free record names: by table where ids are close together, else by sorting."""

from __future__ import annotations

import random

import numpy as np
import pytest

from scalene_trace.recorder.convert.keyed.by_key import index_of
from scalene_trace.recorder.convert.kinds.allocations import _first_places

MOST_ID = 2**64 - 1


@pytest.mark.parametrize("most", [10, 1000, 2**63, MOST_ID])
def test_ids_have_their_first_places(most: int) -> None:
    chosen = random.Random(most)
    for _ in range(500):
        near = chosen.choice([0, max(0, most - 60)])
        ids = [
            chosen.randint(0, most) if chosen.random() < 0.3 else near + chosen.randint(0, min(most, 60))
            for _ in range(chosen.randint(1, 40))
        ]
        ids = [min(each, most) for each in ids]
        wanted = [chosen.choice(ids) if chosen.random() < 0.6 else chosen.randint(0, most) for _ in range(30)]
        found = _first_places(np.array(ids, np.uint64), np.array(wanted, np.uint64)).tolist()
        assert found == [ids.index(each) if each in ids else -1 for each in wanted]


@pytest.mark.parametrize("held", [0, 3, 2000])
def test_blocks_that_have_lived_for_long_are_found_too(held: int) -> None:
    """They are kept from batch to batch, before thousands of new ones whose ids are far away."""
    ids = np.concatenate([np.arange(held) * 7 + 1, np.arange(10**12, 10**12 + 5000)]).astype(np.uint64)
    others = np.array([0, 2, 10**12 - 1, 10**12 + 5000, MOST_ID], np.uint64)
    wanted = np.random.default_rng(1).permutation(np.append(ids, others))
    rows = {each: row for row, each in enumerate(ids.tolist())}
    assert _first_places(ids, wanted).tolist() == [rows.get(each, -1) for each in wanted.tolist()]


@pytest.mark.parametrize("runs", [0, 1, 7, 399, 400])
def test_keys_that_follow_each_other_are_looked_up_like_others(runs: int) -> None:
    keys = np.array([3, 5, 8, 2**63], np.uint64)
    wanted = np.resize(np.array([5, 4, 3, 2**63, 9, 0], np.uint64), runs).repeat(max(1, 1600 // max(runs, 1)))
    places = {each: place for place, each in enumerate(keys.tolist())}
    assert index_of(keys, wanted).tolist() == [places.get(each, -1) for each in wanted.tolist()]
    assert index_of(keys[:0], wanted).tolist() == [-1] * len(wanted)
