"""The export for OpenTelemetry, read by OpenTelemetry's own classes of the messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.exports.export import FORMATS, METRICS, Asked
from scalene_trace.analyze.exports.shared import protobuf
from scalene_trace.analyze.trace.selection import Selection
from tests.support import otlp
from tests.support.example_traces import APP, THIN, TOTALS, hostile_trace, rich_builder, rich_trace, thin_trace
from tests.support.trace_builder import SECOND, TRACE_ID

#: What OpenTelemetry and the readers of heap profiles call the metrics.
TYPES = dict(zip(METRICS, ("cpu", "wait", "alloc_space", "inuse_space", "copy_space"), strict=True))


class Decoded:
    """An export: ``profiles`` by trace (from 0) and type."""

    def __init__(self, *paths: Path, metrics: tuple[str, ...] | None = None) -> None:
        self.contents = FORMATS["otlp"].make(Asked(paths, Selection(), metrics)).contents
        self.message = otlp.request(self.contents)
        self.tables, self.strings = self.message.dictionary, self.message.dictionary.string_table
        self.resources = [
            {each.key: otlp.plain_value(each.value) for each in found.resource.attributes}
            for found in self.message.resource_profiles
        ]
        self.profiles = {
            (trace, self.strings[profile.sample_type.type_strindex]): profile
            for trace, found in enumerate(self.message.resource_profiles)
            for profile in found.scope_profiles[0].profiles
        }

    def attributes(self, indices: Any) -> dict[str, Any]:
        found = [self.tables.attribute_table[index] for index in indices]
        assert len({each.key_strindex for each in found}) == len(found)
        return {self.strings[each.key_strindex]: otlp.plain_value(each.value) for each in found}

    def frames(self, sample: Any) -> list[tuple[str, str, int, str | None]]:
        """Function, file, line and type of each frame, from the innermost on."""
        found = []
        for index in self.tables.stack_table[sample.stack_index].location_indices:
            location = self.tables.location_table[index]
            (line,) = location.lines
            function = self.tables.function_table[line.function_index]
            names = self.strings[function.name_strindex], self.strings[function.filename_strindex]
            found.append((*names, line.line, self.attributes(location.attribute_indices).get("profile.frame.type")))
        return found

    def totals(self, trace: int = 0) -> dict[str, int]:
        return {
            kind: sum(sum(sample.values) for sample in profile.samples)
            for (of, kind), profile in self.profiles.items()
            if of == trace
        }


def test_the_totals_are_the_reports(tmp_path: Path) -> None:
    decoded = Decoded(rich_trace(tmp_path / "t.parquet"))
    assert decoded.totals() == {TYPES[name]: total for name, total in TOTALS.items()}
    units = {kind: decoded.strings[each.sample_type.unit_strindex] for (_, kind), each in decoded.profiles.items()}
    assert units == {TYPES[name]: metric.unit for name, metric in METRICS.items()}


def test_stacks_threads_and_the_kinds_of_frames(tmp_path: Path) -> None:
    decoded = Decoded(rich_trace(tmp_path / "t.parquet"))
    samples = decoded.profiles[0, "cpu"].samples
    in_zlib = next(sample for sample in samples if decoded.frames(sample)[0][0] == "crc32_z")
    assert [kind for *_, kind in decoded.frames(in_zlib)] == ["native", "cpython", "cpython", "cpython", "cpython"]
    assert decoded.frames(in_zlib)[2] == ("work", APP, 5, "cpython")
    (kernel,) = {decoded.frames(sample)[0] for sample in samples if decoded.frames(sample)[0][0] == "[kernel]"}
    assert kernel[-1] == "kernel"
    attributes = decoded.attributes(in_zlib.attribute_indices)
    assert attributes.items() >= {"scalene.process": 1, "scalene.thread": 1, "thread.id": 1001}.items()
    waiting = [decoded.attributes(each.attribute_indices) for each in decoded.profiles[0, "wait"].samples]
    assert "fetcher" in {each.get("thread.name") for each in waiting}


def test_what_a_resource_is_called(tmp_path: Path) -> None:
    builder = rich_builder()
    labels = {"service": "shop", "version": "1.4.2", "environment": "live", "team": "data"}
    builder.settings |= {"labels": json.dumps(labels), "hostname": "web-1", "started_at": "2026-11-01T00:00:00+00:00"}
    builder.loss("torn_stack", "loss", 7, "stacks were not readable")
    builder.add("mark", t_ns=1 * SECOND, what="pause", text="sample 1s/4s", end_ns=4 * SECOND)
    decoded = Decoded(builder.write(tmp_path / "t.parquet"))
    (resource,) = decoded.resources
    named = {"service.name": "shop", "service.version": "1.4.2", "deployment.environment.name": "live", "team": "data"}
    assert resource.items() >= (named | {"host.name": "web-1", "scalene.trace_id": TRACE_ID}).items()
    profile = decoded.profiles[0, "cpu"]
    assert profile.time_unix_nano == 1_793_491_200 * SECOND
    assert profile.duration_nano == 7 * SECOND, "of which 3 s were paused"
    (comments,) = decoded.attributes(profile.attribute_indices).values()
    assert [each.partition(":")[0] for each in comments] == ["loss"]


@pytest.mark.parametrize("labels", ["[1]", "{", '{"a": 1}', "[" * 100_000, "{}"])
def test_labels_that_are_none_leave_the_service_unknown(labels: str, tmp_path: Path) -> None:
    builder = rich_builder()
    builder.settings["labels"] = labels
    (resource,) = Decoded(builder.write(tmp_path / "t.parquet")).resources
    assert resource["service.name"] == "unknown_service:python"
    assert "a" not in resource


@pytest.mark.parametrize("kind", ["rich", "hostile", *THIN])
def test_the_rules_of_the_tables(kind: str, tmp_path: Path) -> None:
    """The first entry of each table is empty, no entry is there twice, and no sample has the identity of another."""
    path = tmp_path / "t.parquet"
    makers = {"rich": rich_trace, "hostile": hostile_trace}
    decoded = Decoded(makers[kind](path) if kind in makers else thin_trace(kind, path))
    tables = decoded.tables
    for table in (tables.mapping_table, tables.location_table, tables.function_table, tables.link_table,
                  tables.attribute_table, tables.stack_table):  # fmt: skip
        contents = [each.SerializeToString() for each in table]
        assert contents[0] == b""
        assert len(set(contents)) == len(contents)
    assert decoded.strings[0] == ""
    assert len(set(decoded.strings)) == len(decoded.strings)
    for profile in decoded.profiles.values():
        assert len(profile.profile_id) == 16
        identities = [(each.stack_index, *sorted(each.attribute_indices)) for each in profile.samples]
        assert len(set(identities)) == len(identities)
        for sample in profile.samples:
            assert decoded.frames(sample)
            assert len(sample.values) == 1


def test_several_traces_are_several_resources(tmp_path: Path) -> None:
    paths = [rich_trace(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    decoded = Decoded(*paths, metrics=("cpu", "wait"))
    expected = {"cpu": TOTALS["cpu"], "wait": TOTALS["wait"]}
    assert [decoded.totals(0), decoded.totals(1)] == [expected, expected]
    assert Decoded(*paths, metrics=("cpu", "wait")).contents == decoded.contents


def test_fields_of_eight_bytes_and_zeros_that_are_written() -> None:
    assert protobuf.fixed64(3, 1) == bytes.fromhex("190100000000000000")
    assert protobuf.fixed64(3, 0) == b""
    assert protobuf.chosen(3, 0) == bytes.fromhex("1800")
