"""The pprof export, read by a decoder of the wire format that knows nothing of the encoder."""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalene_trace.analyze.exports.export import FORMATS, Asked
from scalene_trace.analyze.exports.shared import protobuf
from scalene_trace.analyze.trace.selection import Selection
from tests.support.example_traces import APP, TOTALS, hostile_trace, rich_trace
from tests.support.trace_builder import MS, TraceBuilder

Labels = dict[str, int | str]
Fields = dict[int, list[Any]]
ACTIVE = set("\x1b\x07\r\x00\n\u202e\u2028\x9b")


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at ``at``, and where the next byte is."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data: bytes) -> Fields:
    """The fields of a message by number: whole numbers, or bytes."""
    found: Fields = defaultdict(list)
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        assert tag & 7 in (0, 2), "only whole numbers and bytes are expected"
        value, at = read_varint(data, at)
        if tag & 7 == 2:
            assert at + value <= len(data)
            found[tag >> 3].append(data[at : at + value])
            at += value
        else:
            found[tag >> 3].append(value)
    return found


def numbers(data: bytes) -> Iterator[int]:
    """A packed list."""
    at = 0
    while at < len(data):
        value, at = read_varint(data, at)
        yield value


class Decoded:
    """A profile: columns as (name, unit), samples as (frames from the innermost on, values, labels)."""

    def __init__(self, contents: bytes) -> None:
        profile = fields(gzip.decompress(contents))
        self.strings = [text.decode() for text in profile[6]]
        assert self.strings[0] == ""
        self.columns = [(self._text(each, 1), self._text(each, 2)) for each in map(fields, profile[1])]
        self.system_names = {self._text(each, 3) for each in map(fields, profile[5])}
        functions = {one[1][0]: one for one in map(fields, profile[5])}
        mappings = {one[1][0]: self._text(one, 5) for one in map(fields, profile[3])}
        self.locations: dict[int, tuple[str, str, int, int, str]] = {}
        for location in map(fields, profile[4]):
            line = fields(location[4][0])
            function = functions[line[1][0]]
            place = (self._text(function, 2), self._text(function, 4), function[5], line[2])
            self.locations[location[1][0]] = (*place[:2], *(sum(each) for each in place[2:]), mappings[location[2][0]])  # type: ignore[misc, arg-type]
        self.samples = [self._sample(fields(each)) for each in profile[2]]
        self.time_ns, self.duration_ns = sum(profile[9]), sum(profile[10])
        self.default = self.strings[sum(profile[14])]
        self.comments = [self.strings[index] for each in profile[13] for index in numbers(each)]

    def _text(self, message: Fields, number: int) -> str:
        return self.strings[sum(message[number])]

    def _sample(self, message: Fields) -> tuple[list[Any], list[int], Labels]:
        frames = [self.locations[id_] for id_ in numbers(message[1][0])]
        values = list(numbers(message[2][0]))
        assert len(values) == len(self.columns)
        labels: Labels = {
            self._text(each, 1): sum(each[3]) if each.get(3) else self._text(each, 2)
            for each in map(fields, message[3])
        }
        return frames, values, labels

    def totals(self) -> dict[str, int]:
        return {name: sum(sample[1][at] for sample in self.samples) for at, (name, _) in enumerate(self.columns)}


def exported(path: Path, *metrics: str) -> Decoded:
    return Decoded(FORMATS["pprof"].make(Asked([path], Selection(), metrics or None)).contents)


@given(st.integers(0, 2**64 - 1))
def test_a_number_is_read_as_it_was_written(value: int) -> None:
    assert read_varint(protobuf.varint(value), 0)[0] == value
    assert fields(protobuf.number(3, value)) == ({3: [value]} if value else {})


@given(st.lists(st.integers(0, 2**63 - 1)))
def test_a_list_is_read_as_it_was_written(values: list[int]) -> None:
    assert list(numbers(fields(protobuf.packed(7, values))[7][0])) == values


def test_known_bytes_of_the_wire_format() -> None:
    # the examples of protobuf's own documentation: 150, "testing", and -2 as an int64
    assert protobuf.number(1, 150) == bytes.fromhex("089601")
    assert protobuf.chunk(2, b"testing") == bytes.fromhex("120774657374696e67")
    assert protobuf.varint(-2) == bytes.fromhex("feffffffffffffffff01")
    assert protobuf.packed(6, [3, 270, 86942]) == bytes.fromhex("3206038e029ea705")


def test_the_totals_are_the_reports(tmp_path: Path) -> None:
    decoded = exported(rich_trace(tmp_path / "t.parquet"))
    expected = {name.replace("-", "_"): total for name, total in TOTALS.items()}
    expected |= {"cpu_python": 40 * MS, "cpu_native": 20 * MS, "cpu_system": 1 * MS}
    assert decoded.totals() == expected
    assert {unit for name, unit in decoded.columns if name in ("cpu", "wait", "cpu_native")} == {"nanoseconds"}
    assert {unit for name, unit in decoded.columns if name in ("allocated", "live_at_peak", "copies")} == {"bytes"}
    assert decoded.default == "cpu"


def test_stacks_go_from_what_ran_to_the_outermost_frame(tmp_path: Path) -> None:
    decoded = exported(rich_trace(tmp_path / "t.parquet"), "cpu")
    frames = {sample[0][0][0]: sample[0] for sample in decoded.samples}
    program = "app.py --fast"
    assert frames["crc32_z"] == [
        ("crc32_z", "libz", 0, 0, "libz"),
        ("decode", "/usr/lib/python3.12/json/decoder.py", 30, 30, program),
        ("work", APP, 3, 5, program),
        ("main", APP, 10, 13, program),
        ("<module>", APP, 1, 20, program),
    ]
    labels = {sample[0][0][0]: sample[2] for sample in decoded.samples}
    assert labels["work"] == {"process": 1, "thread": 1, "thread_name": "thread-1"}
    assert labels["[no Python stack]"] == {"process": 2, "thread": 3, "thread_name": "thread-3"}


def test_only_native_functions_have_a_linker_name(tmp_path: Path) -> None:
    """pprof would take ``<module>`` for arguments of a C++ template, and leave it out."""
    assert exported(rich_trace(tmp_path / "t.parquet")).system_names == {"", "crc32_z"}


def test_the_moment_and_the_losses_are_in_it(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.process()
    builder.loss("torn_stack", "loss", 7, "stacks were not readable")
    builder.add("mark", t_ns=1_000_000_000, what="pause", text="sample 1s/4s", end_ns=4_000_000_000)
    decoded = exported(builder.write(tmp_path / "t.parquet"))
    assert decoded.time_ns == 1_767_323_045_000_006_000
    assert decoded.duration_ns == 7_000_000_000, "of which 3 s were paused"
    assert decoded.comments == ["loss: torn_stack x7: stacks were not readable"]


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    asked = Asked([rich_trace(tmp_path / "t.parquet")], Selection())
    assert FORMATS["pprof"].make(asked) == FORMATS["pprof"].make(asked)


def test_several_traces_are_distinguished(tmp_path: Path) -> None:
    path = rich_trace(tmp_path / "t.parquet")
    decoded = Decoded(FORMATS["pprof"].make(Asked([path, path], Selection(), ("copies",))).contents)
    assert [sample[2]["trace"] for sample in decoded.samples] == [1, 2]
    assert decoded.totals() == {"copies": 2 * TOTALS["copies"]}


@pytest.mark.parametrize("metric", TOTALS)
def test_hostile_text_is_escaped(metric: str, tmp_path: Path) -> None:
    decoded = exported(hostile_trace(tmp_path / "t.parquet"), metric)
    assert decoded.samples
    assert not ACTIVE & set("".join(decoded.strings))
