"""Records of events: what they unfold to, and what of them is damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalene_trace.formats.spool import reader
from scalene_trace.formats.spool.layout import constants, struct_dtype
from scalene_trace.formats.spool.reader import Records, Spool
from tests.support.spool_builder import START_MONO_NS, SpoolBuilder

C = constants()
LINE, LINES = C["SPOOL_SLOT_BYTES"], C["EVENTS_SLOTS"]
HEADER = {"thread": 7, "t_ns": START_MONO_NS + 100, "collections": 3, "flags": C["ALLOC_PYTHON"] | 128 << 3}
#: A block of 100 bytes (112 in its pool) and its free, by stacks 0x51 and 0x52, of type 0x99.
PAIR = [
    ("STACK", 0, 1, 1, 0x51),
    ("ALLOC", 5, 1, 100 | 7 << 10, 12),
    ("STACK", 0, 2, 2, 0x52),
    ("TYPE_NAME", 0, 1, 1, 0x99),
    ("FREE", 9, 2, 1 | C["FREE_RESIZED"] << 8, 12),
]


def events(*told: tuple[str, int, int, int, int]) -> bytes:
    """Events, and zeros up to the end of the record."""
    rows = [(after, C[f"EVENT_{kind}"], stack, more, value) for kind, after, stack, more, value in told]
    return np.array(rows, struct_dtype("spool_event")).tobytes().ljust((LINES - 1) * LINE, b"\0")


def read(builder: SpoolBuilder, path: Path, briefly: bool = False) -> Records:
    """The only batch."""
    (records,) = Spool(builder.write(path / "spool")).batches(briefly)
    return records


def fields(records: Records, kind: str, row: int = 0) -> dict[str, Any]:
    """A record without the fields that are 0."""
    record = records.bulk[kind].records[row]
    return {name: int(record[name]) for name in record.dtype.names or () if name != "reserved" and record[name]}


def test_events_are_the_records_that_they_stand_for(tmp_path: Path) -> None:
    more = [
        ("THREAD", 0, 0, 0, 8 | 4 << 32),
        ("BYTES", 0, C["ALLOC_CALLOC"], 24, 5000),
        ("ALLOC_LARGE", 20, 0, 0, 13),
        ("BYTES", 0, C["ALLOC_REALLOC"] | 128, 0, 640),
        ("ALLOC_LARGE", 21, 1, 0, 14),
        ("TYPED", 30, 0, 1, 14),
    ]
    found = read(SpoolBuilder().add("events", process=2, payload=events(*PAIR, *more), **HEADER), tmp_path)
    first = {"thread": 7, "collections": 3, "id": 12}
    base = 128 << 3
    small = {"stack": 0x51, "size_bytes": 100, "usable_bytes": 112, "source": C["ALLOC_PYMALLOC"]}
    assert fields(found, "alloc") == first | small | {
        "t_ns": START_MONO_NS + 105,
        "interval_bytes": 1,
        "flags": C["ALLOC_PYTHON"] | base,
    }
    assert fields(found, "free") == first | {
        "t_ns": START_MONO_NS + 109,
        "stack": 0x52,
        "type": 0x99,
        "flags": C["FREE_RESIZED"],
    }
    later = {"thread": 8, "collections": 4, "interval_bytes": 1}
    assert fields(found, "alloc", 1) == later | {
        "t_ns": START_MONO_NS + 120,
        "id": 13,
        "size_bytes": 5000,
        "usable_bytes": 5024,
        "source": C["ALLOC_CALLOC"],
        "flags": base,
    }
    assert fields(found, "alloc", 2)["source"] == C["ALLOC_REALLOC"]
    assert fields(found, "alloc", 2)["flags"] == C["ALLOC_PYTHON"] | base
    assert fields(found, "note") == {"thread": 8, "id": 14, "type": 0x99, "flags": C["NOTE_TYPE"]}
    assert found.bulk["alloc"].process.tolist() == [2, 2, 2] and found.damaged == 0


def test_an_open_record_has_the_events_up_to_the_first_unwritten_one(tmp_path: Path) -> None:
    """Its process was killed, or goes on: nothing of it is damaged."""
    head = np.zeros(1, struct_dtype("record_events"))
    head["head"], head["thread"], head["t_ns"] = C["SPOOL_OPEN_EVENTS"] | LINES << 16, 7, START_MONO_NS
    half_written = ("ALLOC", 9, 1, 100 | 7 << 10, 0)
    data = head.tobytes() + events(*PAIR, half_written, ("ALLOC", 10, 1, 100 | 7 << 10, 13))
    found = read(SpoolBuilder().raw(data), tmp_path)
    assert [len(found.bulk[kind]) for kind in ("alloc", "free", "note")] == [1, 1, 0] and found.damaged == 0


def test_what_cannot_be_an_event_is_left_out_and_counted(tmp_path: Path) -> None:
    lone = [("ALLOC_LARGE", 1, 1, 0, 13), ("BYTES", 0, 1, 0, 10), ("FREE", 2, 200, 200, 13)]
    builder = SpoolBuilder().add("events", payload=events(*lone), **HEADER)
    builder.raw(builder.image()[:0])
    found = read(builder, tmp_path)
    assert len(found.bulk["alloc"]) == 0 and found.damaged == 1
    assert fields(found, "free") == {"thread": 7, "collections": 3, "id": 13, "t_ns": START_MONO_NS + 102}
    short = read(SpoolBuilder().add("events", payload=b"\1" * LINE, **HEADER), tmp_path)
    assert len(short.bulk["alloc"]) == len(short.bulk["free"]) == 0


def test_events_behind_a_missing_one_of_a_finished_record_are_counted(tmp_path: Path) -> None:
    data = bytearray(events(*PAIR, *PAIR))
    data[5 * 16 : 6 * 16] = bytes(16)  # five events are read, one is missing, four are lost behind it
    found = read(SpoolBuilder().add("events", payload=bytes(data), **HEADER), tmp_path)
    assert [len(found.bulk[kind]) for kind in ("alloc", "free")] == [1, 1] and found.damaged == 4


def test_numbers_hold_in_one_record_only(tmp_path: Path) -> None:
    other = [("STACK", 0, 1, 1, 0x61), *PAIR[1:2], ("FREE", 8, 2, 1, 12)]
    builder = SpoolBuilder().add("events", payload=events(*PAIR), **HEADER)
    found = read(builder.add("events", payload=events(*other), **HEADER), tmp_path)
    assert found.bulk["alloc"].records["stack"].tolist() == [0x51, 0x61]
    assert sorted(found.bulk["free"].records["stack"].tolist()) == [0, 0x52]
    assert sorted(found.bulk["free"].records["type"].tolist()) == [0, 0x99]


def test_the_brief_form_has_all_that_the_survey_asks_for(tmp_path: Path) -> None:
    more = [("THREAD", 0, 0, 0, 8 | 4 << 32), ("ALLOC", 20, 1, 100 | 7 << 10, 13), ("FREE", 21, 1, 0, 13)]
    builder = SpoolBuilder().add("events", payload=events(*PAIR, *more), **HEADER)
    alloc = read(builder, tmp_path, briefly=True).bulk["alloc"].records
    assert {0x51, 0x52} <= set(alloc["stack"].tolist())
    seen = {(int(row["thread"]), int(row["t_ns"]) - START_MONO_NS, int(row["collections"])) for row in alloc}
    assert seen - {(0, 100, 0)} == {(7, 105, 3), (7, 109, 3), (8, 120, 4), (8, 121, 4)}


def test_chunks_with_events_alone_are_read_like_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk has 15 records of events, then padding."""
    builder = SpoolBuilder()
    for chunk in range(3):
        for record in range(15 - chunk):
            told = [("STACK", 0, 1, 1, 0x51), ("ALLOC", 5 + record, 1, 100 | 7 << 10, 12 + 100 * chunk + record)]
            builder.add("events", process=2 + chunk, payload=events(*told), **HEADER)
        builder.raw(np.uint32(C["SPOOL_PAD"] | 63 << 16).tobytes().ljust(63 * LINE, b"\1"), 2 + chunk)
    found = read(builder, tmp_path)
    alone = reader._events_alone
    ways = []
    monkeypatch.setattr(reader, "_events_alone", lambda heads: ways.append(len(alone(heads))) or alone(heads[:0]))
    slowly = read(builder, tmp_path)
    assert 15 in ways and 0 in ways
    assert len(found.bulk["alloc"]) == 42 and found.damaged == slowly.damaged == 0
    for kind in found.bulk:
        assert found.bulk[kind].records.tolist() == slowly.bulk[kind].records.tolist()
        assert found.bulk[kind].process.tolist() == slowly.bulk[kind].process.tolist()


def told_of(record: bytes) -> tuple[list[tuple[str, dict[str, int]]], int]:
    """What a record of events says, event by event: kind and fields that are not 0 of each; and how many events are damaged."""
    head = np.frombuffer(record, struct_dtype("record_events"), 1)[0]
    rows = np.frombuffer(record, struct_dtype("spool_event"), offset=LINE)
    names = {number: name.removeprefix("EVENT_") for name, number in C.items() if name.startswith("EVENT_")}
    thread, collections, stacks, types = int(head["thread"]), int(head["collections"]), {}, {}
    found, damaged, before, is_over = [], 0, None, False
    for after_ns, kind, stack, more, value in rows.tolist():
        is_over = is_over or not kind or not value
        if is_over:
            damaged += bool(kind and value and head["head"] & 0xFFFF == C["RECORD_EVENTS"])
            continue
        name, bytes_before, before = names.get(kind), before, None
        timed = {"thread": thread, "collections": collections, "t_ns": int(head["t_ns"]) + after_ns, "id": value}
        if name == "STACK" and stack:
            stacks[stack] = value
        elif name == "TYPE_NAME" and more & 255:
            types[more & 255] = value
        elif name == "THREAD":
            thread, collections = value & 0xFFFFFFFF, value >> 32
        elif name == "BYTES":
            before = (stack, more, value)
        elif name == "FREE":
            found.append(
                ("free", timed | {"stack": stacks.get(stack), "type": types.get(more & 255), "flags": more >> 8})
            )
        elif name == "TYPED":
            note = {"thread": thread, "id": value, "type": types.get(more & 255), "flags": C["NOTE_TYPE"]}
            found.append(("note", note))
        elif name == "ALLOC" or (name == "ALLOC_LARGE" and bytes_before):
            source, beyond, size = (
                bytes_before if name == "ALLOC_LARGE" else (C["ALLOC_PYMALLOC"] | 128, 0, more & 1023)
            )
            flags = int(head["flags"]) & (0xFFFF if source & 128 else 0xFFFF ^ C["ALLOC_PYTHON"])
            usable = size + beyond if name == "ALLOC_LARGE" else more // 1024 * 16
            sizes = {"size_bytes": size, "usable_bytes": usable, "interval_bytes": 1, "source": source & 127}
            found.append(("alloc", timed | sizes | {"stack": stacks.get(stack), "flags": flags}))
        else:
            damaged += name not in ("STACK", "TYPE_NAME")
    return [(kind, {name: value for name, value in fields.items() if value}) for kind, fields in found], damaged


@pytest.mark.parametrize("seed", range(12))
def test_any_events_are_the_records_that_reading_them_one_by_one_gives(tmp_path: Path, seed: int) -> None:
    random, builder, records = np.random.default_rng(seed), SpoolBuilder(), []
    for number in range(40):
        rows = np.zeros((LINES - 1) * LINE // 16, struct_dtype("spool_event"))
        rows["after_ns"] = np.sort(random.integers(0, 1 << 32, len(rows)))
        rows["kind"] = random.integers(1, 9 + (number % 8 == 0), len(rows))
        rows["stack"], rows["more"] = random.integers(0, 256, len(rows)), random.integers(0, 1 << 16, len(rows))
        rows["value"] = random.integers(1, 1 << 46, len(rows), np.uint64)
        rows["kind"][1:][(rows["kind"][1:] == C["EVENT_ALLOC_LARGE"]) & (random.random(len(rows) - 1) < 0.7)] = 0
        rows["kind"][rows["kind"] == 0] = C["EVENT_ALLOC"]
        missing = random.integers(0, len(rows), 2) if number % 4 == 0 else []
        rows["value"][missing] = 0
        head = np.zeros(1, struct_dtype("record_events"))
        for name, value in HEADER.items():
            head[name] = value
        head["t_ns"] += number << 32
        kind = "SPOOL_OPEN_EVENTS" if number % 8 == 4 else "RECORD_EVENTS"
        head["head"] = C[kind] | LINES << 16
        records.append(head.tobytes() + rows.tobytes())
        builder.raw(records[-1], 2 + number % 3)
    found = [told_of(record) for record in records]
    batch = read(builder, tmp_path)
    for kind in ("alloc", "free", "note"):
        expected = [fields for told, _ in found for name, fields in told if name == kind]
        got = [fields(batch, kind, row) for row in range(len(batch.bulk[kind]))]
        assert len(expected) > 100 and sorted(map(str, map(sorted, map(dict.items, got)))) == sorted(
            map(str, map(sorted, map(dict.items, expected)))
        )
    assert batch.damaged == sum(damaged for _, damaged in found) > 0
    brief = read(builder, tmp_path, briefly=True)
    assert brief.damaged == batch.damaged
    timed = [fields for told, _ in found for name, fields in told if name != "note"]
    rows = brief.bulk["alloc"].records
    assert {(each["thread"], each["collections"]) for each in timed} <= set(
        zip(rows["thread"].tolist(), rows["collections"].tolist(), strict=True)
    )
    assert {each["stack"] for each in timed if "stack" in each} <= set(rows["stack"].tolist())
    assert max(each["t_ns"] for each in timed) <= int(rows["t_ns"].max())
