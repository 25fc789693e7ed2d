"""From allocation, copy, collection and heap records to tables: each figure by hand, all together by a slow double."""

from __future__ import annotations

import json
import random
from typing import Any

import duckdb
import numpy as np
import pytest

from scalene_trace.formats.spool.layout import struct_dtype
from scalene_trace.formats.spool.reader import Spool
from scalene_trace.formats.trace.writer import write_trace
from scalene_trace.recorder.convert.convert import Conversion, Outcome
from scalene_trace.recorder.convert.kinds.allocations import Allocations
from tests.support.conversion import event_count, facts, locations, rows, tables_of, with_stack
from tests.support.spool_builder import START_MONO_NS, C, SpoolBuilder

Row = dict[str, Any]


def alloc_rows(builder: SpoolBuilder, tmp_path) -> list[Row]:
    return rows(tables_of(builder, tmp_path)["alloc"])


def lost(builder: SpoolBuilder, tmp_path) -> dict[str, int]:
    return {row["name"]: row["count"] for row in rows(tables_of(builder, tmp_path)["loss"])}


def test_what_exact_recording_costs_is_said(tmp_path):
    """Ticks of 10 and 3 ms interrupted the shim, one of 20 ms other code."""
    ticks = {C["PC_SHIM"]: [(7_000_000, 3_000_000), (3_000_000, 0)], C["PC_EVAL"]: [(20_000_000, 0)]}
    found = []
    for interval in (1, 1000):
        builder = SpoolBuilder(alloc_interval_bytes=interval).start()
        for pc_class, weights in ticks.items():
            for user_ns, system_ns in weights:
                flags = pc_class << C["TICK_PC_SHIFT"]
                builder.add("tick", thread=3, t_ns=START_MONO_NS, flags=flags, user_ns=user_ns, system_ns=system_ns)
        found.append(lost(builder, tmp_path / str(interval)).get("exact_cost"))
    assert found == [13, None]


def test_an_allocation_has_its_sizes_its_stacks_and_its_life(tmp_path):
    builder = with_stack(SpoolBuilder().start()).type(77, b"numpy.ndarray")
    flags = C["ALLOC_PYTHON"] | C["ALLOC_MAXIMUM"]
    builder.alloc(1, 100, stack=20, source=C["ALLOC_CALLOC"], flags=flags, collections=5)
    builder.free(1, 100_000_103, stack=10, type=77, collections=12, flags=C["FREE_FINALIZING"])
    tables = tables_of(builder, tmp_path)
    (row,) = rows(tables["alloc"])
    assert locations(tables, row.pop("stack"))[0] == ("/app/main.py", "work", 11, 14)
    assert locations(tables, row.pop("free_stack")) == [("/app/main.py", "<module>", 1, 2)]
    expected = {"t_ns": 100, "process": 1, "thread": 3, "size_bytes": 1_999_993, "usable_bytes": 2_000_008}
    expected |= {"block_bytes": None, "interval_bytes": 262_144, "life_interval_bytes": 262_144}
    expected |= {"base_interval_bytes": None}
    expected |= {
        "lifetime_ns": 100_000_003,
        "survived": 7,
        "at_exit": True,
        "maximum": True,
        "python": True,
        "native": None,
    }
    assert row == expected | {"allocator": "calloc", "type": "numpy.ndarray"}
    assert event_count(builder, tmp_path) == 1


def test_an_allocation_that_was_not_freed_lives_until_the_end_of_its_process(tmp_path):
    builder = SpoolBuilder().start(1).start(2).alloc(1, 10, collections=3).alloc(1, 11, process=2, collections=3)
    builder.add("gc", 1, t_ns=START_MONO_NS + 20, collections=[30, 4, 1])
    builder.alloc(2, 30, process=2, collections=9).free(2, 31, process=2, collections=13)
    first, second, third = alloc_rows(builder, tmp_path)
    assert (first["lifetime_ns"], first["free_stack"], first["at_exit"], first["survived"]) == (None, None, False, 32)
    assert (second["lifetime_ns"], second["survived"]) == (None, 10)
    assert (third["lifetime_ns"], third["survived"]) == (1, 4)


@pytest.mark.parametrize(
    ("exponent", "mantissa", "base"),
    [(0, 0, 1), (1, 64, 3), (12, 0, 4_096), (18, 1, 264_192), (40, 127, 2**41 - 2**33), (41, 0, None), (62, 0, None)],
)
def test_the_base_interval_is_in_the_flags(tmp_path, exponent: int, mantissa: int, base: int | None):
    flags = ((exponent + 1) << 7 | mantissa) << C["ALLOC_BASE_SHIFT"] | C["ALLOC_PYTHON"]
    (row,) = alloc_rows(SpoolBuilder().start().alloc(1, flags=flags), tmp_path)
    assert (row["base_interval_bytes"], row["python"], row["maximum"]) == (base, True, False)


def test_the_counter_of_collections_may_wrap_and_never_makes_a_life_negative(tmp_path):
    builder = SpoolBuilder().start().alloc(1, collections=2**32 - 3).free(1, 5, collections=4)
    builder.alloc(2, 6, collections=9).free(2, 7, collections=8)
    assert [row["survived"] for row in alloc_rows(builder, tmp_path)] == [7, 0]


def test_collections_are_not_known_without_python_or_without_following(tmp_path):
    builder = SpoolBuilder().start(1).start(2, python_version=0)
    builder.alloc(1, flags=C["ALLOC_UNFOLLOWED"]).alloc(1, 1, process=2).alloc(1, 2, process=3)
    builder.free(1, 9)  # cannot be its own
    unfollowed, without, unknown = alloc_rows(builder, tmp_path)
    assert (unfollowed["survived"], unfollowed["life_interval_bytes"], unfollowed["lifetime_ns"]) == (None, None, None)
    assert unfollowed["interval_bytes"] == 262_144
    assert (without["survived"], without["life_interval_bytes"]) == (None, 262_144)
    assert unknown["survived"] is None


def test_a_thinned_table_changes_the_interval_of_lives_alone(tmp_path):
    builder = SpoolBuilder().start()
    for number in range(1, 5):
        builder.alloc(number, number, interval_bytes=0 if number == 4 else 65_536)
    builder.note(1, interval_bytes=262_144).note(1, interval_bytes=131_072).free(1, 50)
    builder.note(2, interval_bytes=131_072, flags=C["NOTE_THINNED"] | C["NOTE_DROPPED"]).free(2, 51)
    builder.note(4, interval_bytes=131_072).free(4, 52)
    found = alloc_rows(builder, tmp_path)
    assert [row["interval_bytes"] for row in found] == [65_536, 65_536, 65_536, None]
    assert [row["life_interval_bytes"] for row in found] == [262_144, None, 65_536, None]
    assert [row["lifetime_ns"] for row in found] == [49, None, None, 48]
    assert [row["survived"] for row in found] == [0, None, 0, 0]


@pytest.mark.parametrize("batches", [1, 2])
def test_the_native_stack_of_an_allocation_comes_from_the_note_before_it(tmp_path, batches):
    builder = SpoolBuilder().module(0x7000, 0x8000, "/x.so", image=62, bias=0x7000).native(5, 0, 62, 0x10)
    builder.note(1, native=5).note(2, native=404)
    if batches == 2:
        builder.new_chunk()
    builder.alloc(1, 1).alloc(2, 2, flags=C["ALLOC_UNFOLLOWED"]).alloc(3, 3).note(1, type=9)
    spool = Spool(builder.write(tmp_path / "recording" / "spool"), batch_chunks=1)
    conversion = Conversion(spool, facts(tmp_path), Outcome(None, None, True, {}), tmp_path / "recording" / "rss")
    found = [row for tables in conversion.tables() for row in rows(tables.get("alloc", {"t_ns": []}))]
    assert [row["native"] for row in found] == [1, None, None]


@pytest.mark.parametrize("batches", [1, 40])
def test_blocks_that_stay_are_looked_at_a_few_times_whatever_the_number_of_batches(batches, tmp_path, monkeypatch):
    looked_at, each_of = [], 50
    hold_back = Allocations._hold_back
    monkeypatch.setattr(
        Allocations,
        "_hold_back",
        lambda self, bulks, *found: looked_at.append(len(bulks["alloc"])) or hold_back(self, bulks, *found),
    )
    builder = SpoolBuilder().start()
    for batch in range(40):
        for number in range(batch * each_of + 1, (batch + 1) * each_of + 1):
            builder.alloc(number, number)
        if batch % 10 == 9:
            builder.free(1 + batch, 5000 + batch)  # of an earlier batch
        if batches > 1 and batch < 39:
            builder.new_chunk()
    spool = Spool(builder.write(tmp_path / "recording" / "spool"), batch_chunks=1)
    conversion = Conversion(spool, facts(tmp_path), Outcome(None, None, True, {}), tmp_path / "recording" / "rss")
    found = [row for tables in conversion.tables() for row in rows(tables.get("alloc", {"t_ns": []}))]
    lives = {row["t_ns"]: row["lifetime_ns"] for row in found}
    assert len(found) == len(lives) == 2000
    assert {at: life for at, life in lives.items() if life is not None} == dict.fromkeys((10, 20, 30, 40), 4999)
    assert sum(looked_at) <= 4 * 2000


@pytest.mark.parametrize("apart", [1, 2, 16, 17, 1 << 40])
def test_ends_find_their_allocations_whatever_the_ids(apart, tmp_path):
    """Ids that are near each other are looked up in another way than those that are not; a free without an allocation names
    one that is not there, before, between or behind them."""
    builder, ids = SpoolBuilder().start(), [5 + 3 * apart * number for number in range(20)]
    for at, number in enumerate(ids):
        builder.alloc(number, 100 + at)
    for at, number in enumerate([*ids[::2], 1, 2, ids[3] + 1, ids[-1] + 1, 2**63]):
        builder.free(number, 1000 + at)
    found = sorted(alloc_rows(builder, tmp_path), key=lambda row: row["t_ns"])
    ended = [row["lifetime_ns"] for row in found]
    assert ended == [None if at % 2 else 1000 + at // 2 - (100 + at) for at in range(20)]


def test_types_come_from_the_free_or_else_from_a_note(tmp_path):
    builder = (
        SpoolBuilder().start().type(5, b"dict").type(6, b"list").type(7, b"x" * 250).type(8, b"\xff.T").type(9, b"")
    )
    for number, (noted, freed) in enumerate([(5, 0), (5, 6), (0, 6), (5, 99), (99, 0), (7, 0), (8, 0), (9, 0)], 1):
        builder.alloc(number, number).note(number, type=noted).free(number, 90, type=freed)
    builder.alloc(10, 10).free(10, 90)
    names = [row["type"] for row in alloc_rows(builder, tmp_path)]
    assert names == ["dict", "list", "list", "dict", None, "x" * 200, "\\xff.T", None, None]


def test_allocators_have_the_names_of_their_functions(tmp_path):
    builder = SpoolBuilder().start()
    for number in range(1, 17):
        builder.alloc(number, number, source=number)
    found = [row["allocator"] for row in alloc_rows(builder, tmp_path)]
    names = (
        "malloc calloc realloc reallocarray memalign posix_memalign aligned_alloc valloc pvalloc mmap mremap mprotect"
    )
    assert found == [*names.split(), "pymalloc", "chunk", "arena", "unknown"]


def mapping(builder: SpoolBuilder, number: int = 1, size: int = 40_001, usable: int = 40_960) -> SpoolBuilder:
    return builder.alloc(number, size_bytes=size, usable_bytes=usable, source=C["ALLOC_MMAP"], stack=20)


def part(builder: SpoolBuilder, at_ns: int, size: int, number: int = 1, **fields: Any) -> SpoolBuilder:
    return builder.free(number, at_ns, bytes=size, flags=C["FREE_PART"], **fields)


def test_a_mapping_that_is_unmapped_in_parts_has_a_row_for_each_and_one_for_the_rest(tmp_path):
    builder = mapping(SpoolBuilder().start()).type(5, b"mmap.mmap").note(1, type=5).alloc(2, 1)
    part(part(builder, 30, 8_192, stack=10), 20, 4_096, collections=2)
    first, second, rest, other = alloc_rows(with_stack(builder), tmp_path)
    sizes = [(row["size_bytes"], row["usable_bytes"], row["block_bytes"]) for row in (first, second, rest)]
    assert sizes == [(4_096, 4_096, 40_960), (8_192, 8_192, 40_960), (27_713, 28_672, 40_960)]
    assert [row["lifetime_ns"] for row in (first, second, rest)] == [20, 30, None]
    assert [row["free_stack"] is None for row in (first, second, rest)] == [True, False, True]
    assert [row["survived"] for row in (first, second, rest)] == [2, 0, 2]
    for row in (first, second, rest):
        assert (row["stack"], row["type"], row["allocator"]) == (first["stack"], "mmap.mmap", "mmap")
        assert (row["interval_bytes"], row["life_interval_bytes"]) == (262_144, 262_144)
    assert (other["usable_bytes"], other["block_bytes"]) == (2_000_008, None)


@pytest.mark.parametrize(
    ("parts", "end", "expected"),
    [
        ([40_960], None, [(40_001, 40_960, None, 10)]),
        ([4_096, 36_864], None, [(4_096, 4_096, 40_960, 10), (35_905, 36_864, 40_960, 11)]),
        ([4_096], 90, [(4_096, 4_096, 40_960, 10), (35_905, 36_864, 40_960, 90)]),
        ([4_096, 4_096], 11, [(4_096, 4_096, 40_960, 10), (35_905, 36_864, 40_960, 11)]),
        ([0], 90, [(40_001, 40_960, None, 90)]),
        ([40_000, 9_999, 5], 90, [(40_000, 40_000, 40_960, 10), (1, 960, 40_960, 11)]),
        ([2**64 - 1, 4_096], None, [(40_001, 40_960, None, 10)]),
        ([40_500, 100], None, [(40_001, 40_500, 40_960, 10), (0, 100, 40_960, 11), (0, 360, 40_960, None)]),
    ],
)
def test_the_parts_of_a_mapping_add_up_to_it(tmp_path, parts, end, expected):
    builder = mapping(SpoolBuilder().start())
    if end is not None:
        builder.free(1, end)
    for number, size in enumerate(parts):
        part(builder, 10 + number, size)
    found = alloc_rows(builder, tmp_path)
    names = ("size_bytes", "usable_bytes", "block_bytes", "lifetime_ns")
    assert [tuple(row[name] for name in names) for row in found] == expected
    assert sum(row["usable_bytes"] for row in found) == 40_960
    assert sum(row["size_bytes"] for row in found) == 40_001


def test_the_last_part_takes_what_is_left_of_more_than_there_was(tmp_path):
    builder = part(mapping(SpoolBuilder().start(), size=50_003), 10, 4_096)
    assert [row["size_bytes"] for row in alloc_rows(builder, tmp_path)] == [4_096, 45_907]


def test_a_mapping_that_is_unmapped_page_by_page_is_converted(tmp_path):
    frees = np.zeros(50_003, struct_dtype("record_free"))
    frees["id"], frees["bytes"], frees["flags"] = 1, 4_096, C["FREE_PART"]
    frees["t_ns"] = START_MONO_NS + 1 + np.arange(50_003)
    builder = mapping(SpoolBuilder().start(), usable=50_003 * 4_096, size=50_003 * 4_096 - 7).bulk("free", frees)
    table = tables_of(builder, tmp_path)["alloc"]
    assert set(table["usable_bytes"].tolist()) == {4_096}
    assert table["size_bytes"].tolist()[-2:] == [4_096, 4_089]
    assert table["lifetime_ns"].tolist() == list(range(1, 50_004))


def test_samples_of_two_processes_with_equal_ids_are_distinguished(tmp_path):
    builder = SpoolBuilder().start(1).start(2).alloc(1, 10).alloc(1, 20, process=2)
    builder.free(1, 70, process=2).note(1, process=2, interval_bytes=524_288)
    first, second = alloc_rows(builder, tmp_path)
    assert (first["process"], first["lifetime_ns"], first["life_interval_bytes"]) == (1, None, 262_144)
    assert (second["process"], second["lifetime_ns"], second["life_interval_bytes"]) == (2, 50, 524_288)


def test_allocations_are_in_the_order_of_time_whatever_the_order_of_records(tmp_path):
    builder = SpoolBuilder().start().free(7, 900).note(7, type=4).type(4, b"str")
    for number, at_ns in ((9, 300), (7, 100), (8, 200)):
        builder.alloc(number, at_ns)
    found = alloc_rows(builder, tmp_path)
    assert [(row["t_ns"], row["lifetime_ns"], row["type"]) for row in found] == [
        (100, 800, "str"),
        (200, None, None),
        (300, None, None),
    ]


def test_damaged_lives_are_read_in_the_one_way_that_makes_sense(tmp_path):
    builder = SpoolBuilder().start().free(99, 5).note(98, type=1)  # of no allocation
    builder.alloc(1, 100).free(1, 40)  # freed before it was there
    builder.alloc(2, 200).free(2, 260).free(2, 250).free(2, 270)  # freed three times: the first counts
    builder.alloc(3, 300).alloc(3, 310).free(3, 360)  # two of one number: the first has the life
    assert [row["lifetime_ns"] for row in alloc_rows(builder, tmp_path)] == [0, 50, 60, None]


def test_impossible_sizes_are_discarded_and_counted(tmp_path):
    builder = SpoolBuilder().start().alloc(1, size_bytes=2**64 - 5).alloc(2, usable_bytes=2**63)
    builder.alloc(3, interval_bytes=2**64 - 1).alloc(4, usable_bytes=0).alloc(5, usable_bytes=0, interval_bytes=1)
    builder.alloc(6, 1).note(6, interval_bytes=2**63).free(1, 9).free(6, 9)
    builder.add("copy", t_ns=START_MONO_NS, bytes=2**63).add("copy", t_ns=START_MONO_NS, bytes=4_099)
    tables = tables_of(builder, tmp_path)
    assert [row["usable_bytes"] for row in rows(tables["alloc"])] == [0, 2_000_008]
    assert [row["life_interval_bytes"] for row in rows(tables["alloc"])] == [1, 262_144]
    assert [row["bytes"] for row in rows(tables["copy"])] == [4_099]
    assert lost(builder, tmp_path)["damaged_records"] == 6


def test_copies_have_stacks_and_what_was_left_over_has_no_thread(tmp_path):
    (tmp_path / "copier.py").write_text("copy\n")
    builder = SpoolBuilder().start().code(1, file="copier.py").add("node", hash=5, code=1)
    builder.add("copy", t_ns=START_MONO_NS + 7, thread=3, stack=5, bytes=20_971_529)
    builder.add("copy", t_ns=START_MONO_NS + 9, bytes=1_999_993)
    tables = tables_of(builder, tmp_path)
    first, second = rows(tables["copy"])
    assert locations(tables, first["stack"])[0][0] == "copier.py"
    assert first | {"t_ns": 7, "process": 1, "thread": 3, "bytes": 20_971_529} == first
    assert second == {"t_ns": 9, "process": 1, "thread": None, "stack": None, "bytes": 1_999_993}
    assert [row["text"] for row in rows(tables["source"])] == ["copy\n"]
    assert [row["thread"] for row in rows(tables["thread"])] == [3]
    assert event_count(builder, tmp_path) == 2


@pytest.mark.parametrize("kind", ["alloc", "free", "copy", "gc"])
def test_a_process_and_a_thread_that_did_not_say_so_are_known_from_their_records(tmp_path, kind):
    builder = SpoolBuilder().add(kind, 6, t_ns=START_MONO_NS + 50, thread=8)
    builder.add(kind, 6, t_ns=START_MONO_NS + 40, thread=9).add(kind, 6, t_ns=START_MONO_NS + 30)
    builder.add(kind, 6, t_ns=START_MONO_NS + 45, thread=8)
    tables = tables_of(builder, tmp_path)
    assert [(row["process"], row["t_ns"]) for row in rows(tables["process"])] == [(6, 30)]
    assert [(row["thread"], row["t_ns"]) for row in rows(tables["thread"])] == [(9, 40), (8, 45)]


def collections(builder: SpoolBuilder, at_ns: int, counts: list[int], process: int = 1, **fields: int) -> SpoolBuilder:
    return builder.add("gc", process, t_ns=START_MONO_NS + at_ns, thread=3, collections=counts, **fields)


def added(table: dict[str, Any]) -> list[tuple[int, ...]]:
    names = ("t_ns", "process", "generation0", "generation1", "generation2", "collected", "uncollectable")
    return [tuple(row[name] for name in names) for row in rows(table)]


def test_collections_are_counted_from_row_to_row_of_their_process(tmp_path):
    builder = collections(SpoolBuilder().start(1).start(2), 10, [30, 2, 1], collected=100, uncollectable=5)
    collections(builder, 15, [7, 0, 0], 2, collected=9)
    collections(builder, 20, [41, 3, 1], collected=180, uncollectable=5)
    collections(builder, 40, [44, 4, 1], collected=181, uncollectable=7)
    collections(builder, 30, [40, 3, 1], collected=180, uncollectable=5)  # read before, written later
    assert added(tables_of(builder, tmp_path)["gc"]) == [
        (10, 1, 30, 2, 1, 100, 5),
        (15, 2, 7, 0, 0, 9, 0),
        (20, 1, 11, 1, 0, 80, 0),
        (30, 1, 0, 0, 0, 0, 0),
        (40, 1, 3, 1, 0, 1, 2),
    ]


def test_a_forked_process_does_not_count_the_collections_of_its_parent_again(tmp_path):
    fork = {"cause": C["CAUSE_FORK"]}
    builder = SpoolBuilder().start(1).start(2, parent=1, t_ns=START_MONO_NS + 15, **fork)
    builder.start(3, parent=2, t_ns=START_MONO_NS + 16, **fork)
    builder.start(4, parent=1, t_ns=START_MONO_NS + 17, cause=C["CAUSE_SPAWN"])
    collections(collections(builder, 10, [30, 2, 1], collected=8), 20, [90, 2, 1], collected=8)
    for process in (2, 3, 4):
        collections(builder, 20 + process, [33, 2, 1], process, collected=9)
    assert added(tables_of(builder, tmp_path)["gc"])[2:] == [
        (22, 2, 3, 0, 0, 1, 0),
        (23, 3, 3, 0, 0, 1, 0),
        (24, 4, 33, 2, 1, 9, 0),
    ]


def test_the_parts_of_the_heap_are_kept_as_recorded(tmp_path):
    sizes = {"footprint_bytes": 1_999_993, "python_bytes": 99_991, "mapped_bytes": -1, "reserved_bytes": 1 << 30}
    sizes |= {"pool_bytes": 77_777}
    pages = {"untouched_pages": 5, "shared_pages": 2**32 - 1, "arena_pages": 256}
    builder = SpoolBuilder().start().add("heap", t_ns=START_MONO_NS + 4, **pages, **sizes)
    builder.add("heap", t_ns=START_MONO_NS + 5, **pages, **(sizes | {"pool_bytes": -1}))
    in_pages = {"untouched_bytes": 20_480, "shared_mapped_bytes": (2**32 - 1) * 4096, "arena_bytes": 1 << 20}
    same = {"process": 1} | in_pages | sizes
    found = rows(tables_of(builder, tmp_path)["heap"])
    assert found == [{"t_ns": 4} | same, {"t_ns": 5} | same | {"pool_bytes": None}], "unknown where arenas were counted"


@pytest.mark.parametrize(
    ("bits", "interval", "features", "told"),
    [
        (("CPU", "MEMORY", "COPY", "ALLOC_AUTO"), 262_144, ["cpu", "memory", "alloc", "copy"], "auto"),
        (("CPU", "MEMORY", "CHILDREN"), 65_536, ["cpu", "memory", "alloc", "children"], "65536"),
        (("CPU", "MEMORY"), 1, ["cpu", "memory", "alloc"], "1"),
        (("CPU", "MEMORY", "COPY"), 0, ["cpu", "memory", "copy"], "0"),
        (("CPU", "COPY"), 0, ["cpu", "copy"], "0"),
    ],
)
def test_settings_say_how_allocations_and_copies_were_sampled(tmp_path, bits, interval, features, told):
    header = {"features": sum(C[f"FEATURE_{name}"] for name in bits), "alloc_interval_bytes": interval}
    builder = SpoolBuilder(**header, copy_threshold_bytes=8_209).alloc(1, 1_234)
    values = {row["name"]: row["value"] for row in rows(tables_of(builder, tmp_path)["setting"])}
    assert json.loads(values["features"]) == features
    assert (values["alloc_interval"], values["copy_threshold_bytes"], values["wall_ns"]) == (told, "8209", "1234")


def random_spool(rng: random.Random) -> tuple[SpoolBuilder, list[Row], list[Row], list[Row]]:
    """A spool of three processes, and its allocations, frees and notes as plain rows; nothing in it is damaged."""
    builder, allocs, frees, notes = SpoolBuilder().start(1).start(2).start(3, python_version=0), [], [], []
    for number, name in ((5, b"dict"), (6, b"list")):
        builder.type(number, name)
    for number in range(1, 120):
        row = {"id": number, "process": rng.randrange(1, 4), "t_ns": rng.randrange(1_000), "flags": rng.randrange(8)}
        row |= {"usable_bytes": rng.randrange(1, 40) * 4_096, "interval_bytes": rng.choice([0, 1, 65_536])}
        row |= {"size_bytes": row["usable_bytes"] - rng.randrange(4_096), "collections": row["t_ns"] // 10}
        allocs.append(row)
        ends = sorted(rng.sample(range(1_000, 2_000), rng.randrange(4)))
        for at_ns in ends:
            flags = C["FREE_PART"] * (at_ns != ends[-1] or rng.random() < 0.3) | C["FREE_FINALIZING"] * (at_ns > 1_900)
            free = {"id": number, "process": row["process"], "t_ns": at_ns, "bytes": 4_096 * rng.randrange(20)}
            frees.append(free | {"flags": flags, "type": rng.choice([0, 5, 6]), "collections": at_ns // 10})
        for _ in range(rng.randrange(3)):
            note = {"id": number, "process": row["process"], "flags": rng.randrange(8), "type": rng.choice([5, 6])}
            notes.append(note | {"interval_bytes": rng.choice([131_072, 262_144])})
    for kind, records in (("alloc", allocs), ("free", frees), ("note", notes)):
        for record in rng.sample(records, len(records)) if kind != "note" else records:
            moved = {"t_ns": START_MONO_NS + record["t_ns"]} if "t_ns" in record else {}
            builder.add(kind, **(record | moved))
    return builder, allocs, frees, notes


def slow_rows(allocs: list[Row], frees: list[Row], notes: list[Row]) -> list[tuple[Any, ...]]:
    """What the rows have to be, one allocation after the other."""
    found = []
    for row in allocs:
        own = [each for each in notes if (each["id"], each["process"]) == (row["id"], row["process"])]
        followed = not (row["flags"] & C["ALLOC_UNFOLLOWED"] or any(each["flags"] & C["NOTE_DROPPED"] for each in own))
        thinned = [each["interval_bytes"] for each in own if each["flags"] & C["NOTE_THINNED"]]
        life = max([row["interval_bytes"], *thinned]) if followed and row["interval_bytes"] else None
        noted = [each["type"] for each in own if each["flags"] & C["NOTE_TYPE"]]
        ends = [each for each in frees if (each["id"], each["process"]) == (row["id"], row["process"]) and followed]
        pieces: list[tuple[int, Row | None]] = []
        rest = row["usable_bytes"]
        for end in sorted(ends, key=lambda each: each["t_ns"]):
            taken = min(end["bytes"], rest) if end["flags"] & C["FREE_PART"] else rest
            rest -= taken
            pieces += [(taken, end)] if taken else []
        pieces += [(rest, None)] if rest else []
        wanted = row["size_bytes"]
        for number, (taken, end) in enumerate(pieces):
            size = wanted if number == len(pieces) - 1 else min(taken, wanted)
            wanted -= size
            seen = [each for each in allocs + frees if each["process"] == row["process"]]
            last = end["collections"] if end else max(each["collections"] for each in seen)
            types = [each for each in [end["type"] if end else 0, *noted[-1:]] if each]
            found.append((
                *(row["t_ns"], row["process"], size, taken, row["usable_bytes"] if len(pieces) > 1 else None, life),
                end["t_ns"] - row["t_ns"] if end else None,
                last - row["collections"] if followed and row["process"] != 3 else None,
                bool(end and end["flags"] & C["FREE_FINALIZING"]),
                {5: "dict", 6: "list"}[types[0]] if types else None,
            ))  # fmt: skip
    return found


@pytest.mark.parametrize("seed", range(8))
def test_random_lives_are_those_that_a_slow_reading_finds(tmp_path, seed):
    builder, *records = random_spool(random.Random(seed))
    names = ("t_ns", "process", "size_bytes", "usable_bytes", "block_bytes", "life_interval_bytes", "lifetime_ns")
    names += ("survived", "at_exit", "type")
    found = [tuple(row[name] for name in names) for row in alloc_rows(builder, tmp_path)]
    assert sorted(found, key=repr) == sorted(slow_rows(*records), key=repr)
    assert [row[0] for row in found] == sorted(row[0] for row in found)


def test_records_of_random_bytes_are_converted_and_stored(tmp_path):
    rng = np.random.default_rng(20260106)
    kinds = ("alloc", "free", "note", "copy", "gc", "heap")
    for turn in range(30):
        builder = with_stack(SpoolBuilder().start(1).start(2, cause=C["CAUSE_FORK"], parent=2)).type(5, b"dict")
        for kind in kinds:
            records = np.frombuffer(rng.bytes(60 * 64), struct_dtype(f"record_{kind}")).copy()
            for name in set(records.dtype.names) & {"id", "type", "interval_bytes", "usable_bytes", "size_bytes"}:
                small = rng.integers(0, 9, 60).astype(np.uint64)
                records[name] = np.where(rng.random(60) < 0.8, small, records[name])
            builder.bulk(kind, records, process=1 + turn % 2)
        tables = tables_of(builder, tmp_path)
        path = tmp_path / "trace.parquet"
        write_trace(path, "ab" * 16, [tables])
        sizes = ("alloc.size_bytes", "alloc.usable_bytes", "alloc.lifetime_ns", "alloc.survived", "copy.bytes")
        least = ", ".join(f"coalesce(min({each}), 0)" for each in (*sizes, "gc.generation2", "gc.collected"))
        assert min(duckdb.sql(f"SELECT {least} FROM '{path}'").fetchall()[0]) >= 0
    (records,) = Spool(tmp_path / "recording" / "spool").batches()
    assert len(records.bulk["gc"]) == 60
