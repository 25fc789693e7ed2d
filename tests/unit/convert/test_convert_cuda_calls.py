"""From records of CUDA calls to the tables; impossible records are discarded and counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalene_trace.formats.spool.reader import Spool
from scalene_trace.recorder.convert.kinds.cuda_calls import CudaCalls
from scalene_trace.recorder.convert.survey.stacks import read_nodes, resolve_stacks
from scalene_trace.recorder.convert.survey.survey import Survey
from tests.support.conversion import rows, tables_of
from tests.support.spool_builder import START_MONO_NS, C, SpoolBuilder

MS = 1_000_000
ALLOCATED, FREED, NOT_FREED = C["BLOCK_ALLOCATED"], C["BLOCK_FREED"], C["BLOCK_NOT_FREED"]


def block(builder: SpoolBuilder, t_ns: int, address: int, what: int, size: int = 0, process: int = 1) -> SpoolBuilder:
    """A record of a block; by cudaMalloc where it was allocated."""
    source = C["GIVEN_BY_MALLOC"] if what == ALLOCATED else 0
    fields = {"address": address, "what": what, "bytes": size, "source": source, "thread": 1}
    return builder.add("device_block", process, t_ns=START_MONO_NS + t_ns, **fields)


def call(builder: SpoolBuilder, t_ns: int, direction: int, size: int, **fields: Any) -> SpoolBuilder:
    """A record of three calls that took 2 ms of 5 ms."""
    known = {"end_ns": START_MONO_NS + t_ns + 5 * MS, "duration_ns": 2 * MS, "calls": 3, "thread": 1} | fields
    return builder.add("device_call", t_ns=START_MONO_NS + t_ns, direction=direction, bytes=size, **known)


def blocks_of(builder: SpoolBuilder, folder: Path) -> list[tuple[int, int | None]]:
    """Bytes and lifetime of each block."""
    return [(row["bytes"], row["lifetime_ns"]) for row in rows(tables_of(builder, folder)["device_alloc"])]


def damaged(tables: dict[str, dict[str, Any]]) -> int:
    return sum(row["count"] for row in rows(tables["loss"]) if row["name"] == "damaged_records")


def test_calls_become_copies_and_waits(tmp_path: Path) -> None:
    builder = call(SpoolBuilder().start(), 7 * MS, C["DEVICE_D2H"], 3_009)
    tables = tables_of(call(builder, 20 * MS, C["DEVICE_SYNC"], 0), tmp_path)
    (copy,), (wait,) = rows(tables["device_copy"]), rows(tables["device_sync"])
    assert (copy["t_ns"], copy["direction"], copy["bytes"], copy["calls"]) == (7 * MS, "d2h", 3_009, 3)
    assert (copy["duration_ns"], copy["span_ns"], copy["process"], copy["thread"]) == (2 * MS, 5 * MS, 1, 1)
    assert (wait["t_ns"], wait["duration_ns"], wait["calls"]) == (20 * MS, 2 * MS, 3)


def test_a_block_ends_with_its_free(tmp_path: Path) -> None:
    builder = block(SpoolBuilder().start(), 10, 0x7000, ALLOCATED, 1_003)
    builder = block(block(builder, 20, 0x8000, ALLOCATED, 5), 30, 0x7000, FREED)
    assert blocks_of(block(builder, 40, 0x7000, ALLOCATED, 7), tmp_path) == [(1_003, 20), (5, None), (7, None)]


def test_a_free_that_was_refused_is_none(tmp_path: Path) -> None:
    builder = block(SpoolBuilder().start(), 10, 0x7000, ALLOCATED, 1_003)
    builder = block(block(builder, 20, 0x7000, FREED), 25, 0x7000, NOT_FREED)
    assert blocks_of(block(builder, 50, 0x7000, FREED), tmp_path) == [(1_003, 40)]


def test_a_process_does_not_free_what_is_anothers(tmp_path: Path) -> None:
    builder = block(SpoolBuilder().start(1).start(2), 10, 0x7000, ALLOCATED, 1_003)
    assert blocks_of(block(builder, 20, 0x7000, FREED, process=2), tmp_path) == [(1_003, None)]


def test_a_block_whose_free_was_not_seen_ends_where_another_is_given_its_place(tmp_path: Path) -> None:
    builder = block(SpoolBuilder().start(), 10, 0x7000, ALLOCATED, 1_003)
    assert blocks_of(block(builder, 40, 0x7000, ALLOCATED, 7), tmp_path) == [(1_003, 30), (7, None)]


@pytest.mark.parametrize("damage", [{"direction": 9}, {"direction": 0}, {"bytes": 1 << 60}])
def test_impossible_calls_are_discarded_and_counted(damage: dict[str, int], tmp_path: Path) -> None:
    builder = call(SpoolBuilder().start(), 7 * MS, C["DEVICE_H2D"], 3_009)
    fields = {"direction": C["DEVICE_H2D"], "bytes": 5, "calls": 1} | damage
    tables = tables_of(builder.add("device_call", t_ns=START_MONO_NS, **fields), tmp_path)
    assert [row["bytes"] for row in rows(tables["device_copy"])] == [3_009]
    assert damaged(tables) == 1


def test_impossible_blocks_are_discarded_and_counted(tmp_path: Path) -> None:
    builder = block(block(SpoolBuilder().start(), 10, 0x7000, 9), 20, 0x8000, ALLOCATED, 1 << 60)
    tables = tables_of(block(builder, 30, 0x9000, ALLOCATED, 5), tmp_path)
    assert [row["bytes"] for row in rows(tables["device_alloc"])] == [5]
    assert damaged(tables) == 2


Events = list[tuple[int, int]]


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from((ALLOCATED, FREED, -1))), max_size=60))
def test_batches_give_the_same_lifetimes_as_one_pass(events: Events) -> None:
    """-1 stands for a free that is refused. Computed a second time with a dictionary, event by event."""
    import tempfile

    builder, alive, expected = SpoolBuilder().start(), dict[int, tuple[int, int]](), list[tuple[int, int | None]]()
    for t_ns, (address, what) in enumerate(events, start=1):
        builder.new_chunk()
        if what == -1:
            block(block(builder, 10 * t_ns, address, FREED), 10 * t_ns + 1, address, NOT_FREED)
            continue
        if address in alive:
            began, size = alive.pop(address)
            expected.append((size, 10 * t_ns - began))
        block(builder, 10 * t_ns, address, what, 1_000 + t_ns)
        if what == ALLOCATED:
            alive[address] = (10 * t_ns, 1_000 + t_ns)
    expected += [(size, None) for _, size in alive.values()]
    with tempfile.TemporaryDirectory() as folder:
        assert sorted(_in_batches(builder.write(Path(folder, "spool")))) == sorted(expected)


def _in_batches(path: Path) -> list[tuple[int, int | None]]:
    spool = Spool(path, batch_chunks=7)
    survey = Survey(spool)
    calls = CudaCalls(survey, resolve_stacks(read_nodes(survey.nodes, survey.codes), survey.stacks, survey.types))
    tables = [made["device_alloc"] for batch in spool.batches() if (made := calls.tables(batch))]
    return [(row["bytes"], row["lifetime_ns"]) for table in tables for row in rows(table)]
