"""The reader of spools, on whole spools and on those that crashed programs leave."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

from scalene_trace.formats.errors import NotASpool, SpoolMissing, SpoolVersion
from scalene_trace.formats.spool import generate_layout, layout, losses
from scalene_trace.formats.spool.chunks import CHUNK_BYTES, CHUNKS_OFFSET, frame_of, part_path
from scalene_trace.formats.spool.codes import CodeObject, CodeObjects
from scalene_trace.formats.spool.reader import Records, Spool
from tests.support.spool_builder import LINE, START_MONO_NS, C, SpoolBuilder


def read(path: Path) -> Records:
    """All records of a spool that is one batch."""
    (records,) = Spool(path).batches()
    return records


def codes(records: Records) -> tuple[dict[int, CodeObject], int]:
    """The code objects of a batch, and how many are not whole."""
    objects = CodeObjects()
    objects.add(records.codes)
    return objects.all()


def tick(number: int) -> dict[str, int]:
    return {"thread": 7, "t_ns": START_MONO_NS + number, "stack": 90 + number, "user_ns": 10_000_019}


def test_the_parsed_layout_is_current():
    assert generate_layout.GENERATED_PATH.read_text("utf-8") == generate_layout.render(), "run: make generate"


def test_every_struct_of_the_header_has_the_size_that_c_asserts():
    assert layout.struct_dtype("spool_header").itemsize <= C["SPOOL_HEADER_BYTES"]
    for name in ["chunk_header", *layout.record_kinds().values()]:
        assert layout.struct_dtype(name).itemsize == LINE
    with pytest.raises(KeyError):
        layout.struct_dtype("record_nothing")


def test_numbers_and_names_come_from_the_header():
    assert C["SPOOL_MAGIC"].to_bytes(8, "little") == b"scalene1"
    assert C["SPOOL_THREAD_TABLE_OFFSET"] == C["SPOOL_HEADER_BYTES"] + 4 * C["SPOOL_RING"]
    assert C["SPOOL_THREAD_TABLE_BYTES"] == C["SPOOL_THREAD_TABLE"] * layout.struct_dtype("thread_entry").itemsize
    table_end = C["SPOOL_THREAD_TABLE_OFFSET"] + C["SPOOL_THREAD_TABLE_BYTES"]
    assert C["SPOOL_CHUNKS_OFFSET"] - table_end in range(65536) and C["SPOOL_CHUNKS_OFFSET"] % 65536 == 0
    assert layout.record_kinds()[5] == "record_tick"
    assert layout.names_of("CAUSE_") == {1: "root", 2: "fork", 3: "exec", 4: "spawn"}
    sources = layout.names_of("ALLOC_", without=("ALLOC_PYTHON", "ALLOC_MAXIMUM", "ALLOC_UNFOLLOWED"))
    assert (sources[1], sources[2], sources[4], sources[13]) == ("malloc", "calloc", "reallocarray", "pymalloc")


def test_every_loss_has_a_known_severity_and_a_name_of_its_own():
    every = [*losses.shim_losses(), *losses.RECORDER_LOSSES]
    text = losses.HEADER_PATH.read_text()
    assert len(losses.shim_losses()) == text.count("\nLOSS(") <= C["SPOOL_LOSSES"]
    assert losses.shim_losses()[0].name == "spool_full"
    assert {loss.severity for loss in every} <= {"info", "loss", "error"}
    assert len({loss.name for loss in every}) == len(every)
    assert losses.recorder_loss("spool_space").severity == "loss"


def test_records_come_back_as_they_were_written(tmp_path):
    builder = SpoolBuilder().start().add("tick", 1, **tick(3)).add("tick", 2, **tick(1))
    builder.add("memory", 1, t_ns=START_MONO_NS + 2, net_bytes=-10_485_767)
    contents = read(builder.write(tmp_path / "spool"))
    ticks = contents.bulk["tick"]
    assert ticks.records["t_ns"].tolist() == [START_MONO_NS + 1, START_MONO_NS + 3]
    assert ticks.process.tolist() == [2, 1]
    assert ticks.records["user_ns"].tolist() == [10_000_019] * 2
    assert contents.bulk["memory"].records["net_bytes"].tolist() == [-10_485_767]
    assert contents.process_starts[0].payload.startswith(b"/usr/bin/python3.11python\0main.py\0")
    assert contents.damaged == 0


def test_allocation_records_of_every_kind_come_back(tmp_path):
    builder = SpoolBuilder().alloc(2, 20).alloc(1, 10, process=2).free(1, 30, bytes=4_096).note(1, type=9).note(2)
    for kind in ("copy", "gc"):
        builder.add(kind, t_ns=START_MONO_NS + 3, thread=4).add(kind, t_ns=START_MONO_NS + 2)
    contents = read(builder.write(tmp_path / "spool"))
    assert contents.bulk["alloc"].records["id"].tolist() == [1, 2]
    assert contents.bulk["alloc"].process.tolist() == [2, 1]
    assert contents.bulk["free"].records["bytes"].tolist() == [4_096]
    assert contents.bulk["note"].records["type"].tolist() == [9, 0]
    for kind in ("copy", "gc"):
        assert contents.bulk[kind].records["thread"].tolist() == [0, 4]
    assert contents.damaged == 0


def test_a_brief_record_is_an_allocation_and_its_free(tmp_path):
    common = {"thread": 7, "t_ns": START_MONO_NS + 5, "stack": 90, "id": 12, "collections": 3}
    ends = {"free_stack": 91, "type": 77, "lifetime_ns": 400, "free_flags": C["FREE_RESIZED"]}
    sizes = {"size_bytes": 100, "usable_bytes": 112, "flags": C["ALLOC_PYTHON"], "source": C["ALLOC_PYMALLOC"]}
    builder = SpoolBuilder().alloc(11, at_ns=9, thread=7).add("brief", process=2, **common, **ends, **sizes)
    records = read(builder.write(tmp_path / "spool"))
    alloc, free = records.bulk["alloc"], records.bulk["free"]
    assert alloc.process.tolist() == [2, 1] and free.process.tolist() == [2] and records.damaged == 0
    found = {name: int(alloc.records[0][name]) for name in alloc.records.dtype.names or ()}
    assert found == common | sizes | {"interval_bytes": 1, "head": 0}
    found = {name: int(free.records[0][name]) for name in free.records.dtype.names or ()}
    expected = {"thread": 7, "t_ns": START_MONO_NS + 405, "stack": 91, "id": 12, "bytes": 112, "type": 77}
    assert found == expected | {"collections": 3, "flags": C["FREE_RESIZED"], "reserved": 0, "head": 0}


def test_a_record_that_changes_while_it_is_read_is_read_as_what_it_has_become(tmp_path, monkeypatch):
    shared = {"thread": 7, "t_ns": START_MONO_NS + 5, "stack": 90, "id": 12}
    before = SpoolBuilder().alloc(12, at_ns=5, size_bytes=100).write(tmp_path / "before")
    brief = SpoolBuilder().add("brief", **shared, size_bytes=100, usable_bytes=112, lifetime_ns=4)
    after = brief.write(tmp_path / "after").read_bytes()
    pread, first = os.pread, iter([True])

    def torn(descriptor: int, size: int, offset: int) -> bytes:
        """At first the head of before with the rest of after."""
        data = after[offset : offset + size]
        if size == CHUNK_BYTES and next(first, False):
            return (
                data[: LINE + 4].replace(data[LINE : LINE + 4], pread(descriptor, 4, offset + LINE)) + data[LINE + 4 :]
            )
        return data

    monkeypatch.setattr(os, "pread", torn)
    records = read(before)
    assert records.bulk["alloc"].records["usable_bytes"].tolist() == [112] and records.damaged == 0
    assert (records.bulk["free"].records["t_ns"] - START_MONO_NS).tolist() == [9]


def test_names_of_types_are_read_by_their_hashes(tmp_path):
    long = b"package." * 30 + b"Name"
    builder = (
        SpoolBuilder().type(2**64 - 1, long).type(5, "größe".encode()).type(6, b"bad\xff").type(5, "größe".encode())
    )
    builder.type(7, b"cut", name_bytes=65).type(8, b"", name_bytes=2**32 - 1).type(9, b"").alloc(1)
    contents = read(builder.write(tmp_path / "spool"))
    assert contents.types == {2**64 - 1: long.decode(), 5: "größe", 6: "bad\\xff", 9: ""}
    assert contents.damaged == 2
    assert len(contents.bulk["alloc"]) == 1


def test_a_process_that_fills_many_chunks_keeps_all_its_ticks(tmp_path):
    records = np.zeros(5_003, layout.struct_dtype("record_tick"))
    records["t_ns"] = START_MONO_NS + np.arange(5_003)
    contents = read(SpoolBuilder().bulk("tick", records).write(tmp_path / "spool"))
    assert contents.bulk["tick"].records["t_ns"].tolist() == records["t_ns"].tolist()


def test_an_unfinished_record_is_skipped_and_counted(tmp_path):
    builder = (
        SpoolBuilder().add("tick", **tick(1)).unfinished(3).add("tick", **tick(2)).unfinished(1).add("tick", **tick(3))
    )
    contents = read(builder.write(tmp_path / "spool"))
    assert (contents.bulk["tick"].records["t_ns"] - START_MONO_NS).tolist() == [1, 2, 3]
    assert contents.damaged == 2


def test_lines_claimed_and_never_touched_are_skipped(tmp_path):
    builder = SpoolBuilder().add("tick", **tick(1)).raw(bytes(5 * LINE)).add("tick", **tick(2))
    contents = read(builder.write(tmp_path / "spool"))
    assert len(contents.bulk["tick"]) == 2
    assert contents.damaged == 0


def test_payload_that_looks_like_records_is_not_read_as_records(tmp_path):
    decoy = (C["RECORD_TICK"] | 1 << 16).to_bytes(4, "little") * 300
    builder = SpoolBuilder().module(0x1000, 0x2000, "/x", path_bytes=len(decoy)).add("tick", **tick(1))
    builder.add("module", payload=decoy, path_bytes=len(decoy)).add("tick", **tick(2))
    contents = read(builder.write(tmp_path / "spool"))
    assert len(contents.bulk["tick"]) == 2
    assert contents.damaged == 0


def test_a_record_that_reaches_beyond_its_chunk_is_left_out(tmp_path):
    builder = SpoolBuilder().add("tick", **tick(1))
    builder.raw((C["RECORD_MODULE"] | 2000 << 16).to_bytes(4, "little") + bytes(LINE - 4)).add("tick", **tick(2))
    contents = read(builder.write(tmp_path / "spool"))
    assert len(contents.bulk["tick"]) == 1
    assert contents.modules == []
    assert contents.damaged == 1


def test_a_kind_that_this_version_does_not_know_is_counted(tmp_path):
    builder = SpoolBuilder().raw((999 | 1 << 16).to_bytes(4, "little") + bytes(LINE - 4)).add("tick", **tick(1))
    contents = read(builder.write(tmp_path / "spool"))
    assert len(contents.bulk["tick"]) == 1
    assert contents.damaged == 1


def test_a_code_object_in_many_parts_is_put_together(tmp_path):
    bytecode = bytes(range(256)) * 700
    builder = SpoolBuilder().code(42, bytecode=bytecode, line_table=b"\x80\x01", part_bytes=40_000)
    code = codes(read(builder.write(tmp_path / "spool")))[0][42]
    assert (code.file, code.name, code.line_table, code.bytecode) == ("/app/main.py", "work", b"\x80\x01", bytecode)


def test_two_processes_may_write_the_same_code_object_in_different_parts(tmp_path):
    builder = SpoolBuilder().code(42, bytecode=b"ab" * 500, part_bytes=100, skip_part=3)
    builder.code(42, process=2, bytecode=b"ab" * 500, part_bytes=333)
    contents = read(builder.write(tmp_path / "spool"))
    objects, incomplete = codes(contents)
    assert objects[42].bytecode == b"ab" * 500
    assert contents.damaged == incomplete == 0


def test_a_code_object_with_a_missing_part_keeps_its_names(tmp_path):
    builder = SpoolBuilder().code(42, bytecode=b"ab" * 500, line_table=b"\x80\x01", part_bytes=100, skip_part=3)
    builder.code(43, part_bytes=5, skip_part=0)
    contents = read(builder.write(tmp_path / "spool"))
    objects, incomplete = codes(contents)
    assert (objects[42].name, objects[42].line_table, objects[42].bytecode) == ("work", b"\x80\x01", b"")
    assert 43 not in objects
    assert (contents.damaged, incomplete) == (0, 2)


@pytest.mark.parametrize("name", ["f", "größe", "функция", "𝒻", "\udc80name"])
def test_names_of_every_width_are_read(tmp_path, name):
    builder = SpoolBuilder().code(42, file="/a/" + name, name=name)
    code = codes(read(builder.write(tmp_path / "spool")))[0][42]
    assert (code.file, code.name) == ("/a/" + name, name)


def test_a_file_that_is_not_a_spool_is_refused_by_name(tmp_path):
    path = tmp_path / "spool"
    with pytest.raises(SpoolMissing, match="no such file"):
        read(path)
    path.write_bytes(b"short")
    with pytest.raises(NotASpool, match="too short"):
        read(path)
    path.write_bytes(bytes(100_000))
    with pytest.raises(NotASpool, match="magic number"):
        read(path)
    with pytest.raises(SpoolVersion, match=f"version 1, and this program reads version {C['SPOOL_VERSION']}"):
        read(SpoolBuilder(version=1).write(path))
    with pytest.raises(NotASpool, match="chunk size"):
        read(SpoolBuilder(chunk_bytes=4096).write(path))


def test_offers_beyond_the_file_and_the_ring_are_ignored(tmp_path):
    builder = SpoolBuilder(offered=2**63, taken=2**63).add("tick", **tick(1))
    assert len(read(builder.write(tmp_path / "spool")).bulk["tick"]) == 1


def test_a_cut_spool_yields_what_is_left(tmp_path):
    builder = SpoolBuilder()
    for number in range(3_000):
        builder.add("tick", **tick(number))
    image = builder.image()
    path = tmp_path / "spool"
    for size in (
        CHUNKS_OFFSET - 1,
        CHUNKS_OFFSET,
        CHUNKS_OFFSET + 70,
        CHUNKS_OFFSET + CHUNK_BYTES + 6_415,
        len(image) - 1,
    ):
        path.write_bytes(image[:size])
        whole_lines = max(0, size - CHUNKS_OFFSET) // CHUNK_BYTES * 1023
        ticks = len(read(path).bulk["tick"])
        assert whole_lines <= ticks <= whole_lines + 1023
    assert ticks == 3_000


def test_random_damage_never_raises_anything_undocumented(tmp_path):
    builder = SpoolBuilder().start().module(0x1000, 0x2000, "/lib/x.so")
    for number in range(400):
        builder.add("tick", **tick(number)).add("node", hash=90 + number, parent=89 + number, code=42, instruction=3)
        builder.alloc(number, number).free(number, number).note(number, type=5).type(5, b"dict")
    builder.code(42, bytecode=bytes(3_000), part_bytes=500).add("process_end", t_ns=START_MONO_NS + 9)
    image, path, rng = builder.image(), tmp_path / "spool", random.Random(20260101)
    for _ in range(150):
        damaged = bytearray(image)
        for _ in range(rng.randrange(1, 60)):
            damaged[rng.choice([rng.randrange(len(image)), CHUNKS_OFFSET + LINE * rng.randrange(1024)])] = (
                rng.randrange(256)
            )
        path.write_bytes(damaged)
        try:
            read(path)
        except (NotASpool, SpoolVersion):
            continue


# ---- drained chunks ----


def chunks_of_ticks(count: int) -> SpoolBuilder:
    """``count`` chunks of one tick each."""
    builder = SpoolBuilder()
    for number in range(count):
        builder.bulk("tick", np.array([tuple_of(number)], layout.struct_dtype("record_tick")))
    return builder


def tuple_of(number: int) -> np.void:
    record = np.zeros(1, layout.struct_dtype("record_tick"))
    for name, value in tick(number).items():
        record[name] = value
    return record[0]


def times(path: Path, batch_chunks: int = 256) -> list[list[int]]:
    """Times of the ticks of each batch, from the start of the recording."""
    batches = Spool(path, batch_chunks).batches()
    return [(each.bulk["tick"].records["t_ns"] - START_MONO_NS).tolist() for each in batches]


def test_drained_chunks_and_those_in_the_spool_are_read_once_each(tmp_path):
    path = chunks_of_ticks(7).write(tmp_path / "spool", drained=5)
    assert sorted(part.name for part in tmp_path.iterdir()) == ["spool", *(f"spool.part0000{n}" for n in (1, 2, 3))]
    assert times(path) == [[0, 1, 2, 3, 4, 5, 6]]
    assert times(path, batch_chunks=3) == [[0, 1, 2], [3, 4, 5], [6]]
    assert times(path, batch_chunks=7) == [[0, 1, 2, 3, 4, 5, 6]]
    spool = Spool(path, 2)
    assert [len(each.bulk["tick"]) for each in spool.batches()] == [2, 2, 2, 1]
    assert [len(each.bulk["tick"]) for each in spool.batches()] == [2, 2, 2, 1], "as often as one likes"


def test_a_chunk_that_was_drained_and_not_emptied_yet_counts_once(tmp_path):
    builder = chunks_of_ticks(4)
    path = builder.write(tmp_path / "spool")
    part_path(path, 1).write_bytes(builder.part(1, 3))
    assert times(path) == [[0, 1, 2, 3]]


def test_a_part_file_that_was_cut_off_ends_with_its_last_whole_frame(tmp_path):
    builder = chunks_of_ticks(3)
    path, whole = builder.write(tmp_path / "spool", drained=0), builder.part(0, 3)
    path.write_bytes(SpoolBuilder().image())
    ends = [len(builder.part(0, n)) for n in range(4)]
    for size in range(len(whole) + 1):
        part_path(path, 1).write_bytes(whole[:size])
        assert times(path) == [list(range(sum(end <= size for end in ends[1:])))]


def test_a_part_file_of_anything_is_never_believed(tmp_path):
    path, rng = SpoolBuilder().add("tick", **tick(1)).write(tmp_path / "spool"), random.Random(20261121)
    whole = frame_of(1, 77, bytes(64 * 900))
    bomb = bytearray(frame_of(1, 77, bytes(64)))
    bomb[-4:] = b"bomb"
    for data in (b"", whole[:20], bytes(bomb), rng.randbytes(5_000), whole[:28] + rng.randbytes(len(whole) - 28)):
        part_path(path, 1).write_bytes(data)
        assert times(path) == [[1]]
    part_path(path, 1).unlink()
    part_path(path, 1).symlink_to("/dev/zero")
    assert times(path) == [[1]]


def test_unused_slots_are_not_damage(tmp_path):
    builder = SpoolBuilder().add("tick", **tick(1))
    builder.raw((C["SPOOL_PAD"] | 5 << 16).to_bytes(4, "little") + b"\xaa" * (5 * LINE - 4)).add("tick", **tick(2))
    contents = read(builder.write(tmp_path / "spool"))
    assert len(contents.bulk["tick"]) == 2 and contents.damaged == 0
