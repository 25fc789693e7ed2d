"""The Firefox Profiler export: its tables fit together, and its figures are the report's."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.exports.export import FORMATS, Asked
from scalene_trace.analyze.trace.selection import Selection
from tests.support.example_traces import APP, THIN, TOTALS, hostile_trace, rich_trace, thin_trace
from tests.support.page_traces import device_trace
from tests.support.trace_builder import SECOND, TraceBuilder

Table = dict[str, Any]


def exported(*paths: Path, selection: Selection | None = None) -> Table:
    contents = FORMATS["firefox"].make(Asked(paths, selection or Selection())).contents
    document: Table = json.loads(contents)
    check(document)
    return document


def check(document: Table) -> None:
    """What the profiler relies on: columns of one length, indices that lead somewhere, times in order."""
    assert document["meta"]["preprocessedProfileVersion"] == 60
    shared = document["shared"]
    for name, table in shared.items():
        if name != "stringArray":
            check_lengths(table)
    texts, frames = len(shared["stringArray"]), shared["frameTable"]
    check_indices(shared["stackTable"]["frame"], frames["length"])
    check_indices(frames["func"], shared["funcTable"]["length"])
    check_indices(frames["category"], len(document["meta"]["categories"]))
    check_indices(shared["funcTable"]["name"], texts)
    check_indices(shared["funcTable"]["source"], shared["sources"]["length"])
    check_indices(shared["sources"]["filename"], texts)
    check_indices([each for each in shared["funcTable"]["resource"] if each != -1], shared["resourceTable"]["length"])
    check_indices(shared["resourceTable"]["lib"], len(document["libs"]))
    for index, prefix in enumerate(shared["stackTable"]["prefix"]):
        assert prefix is None or prefix < index, "parents come before their children"
    for thread in document["threads"]:
        check_thread(thread, shared, document["meta"])
    for counter in document["counters"]:
        check_lengths(counter["samples"])
        check_times(counter["samples"]["time"])
        assert document["threads"][counter["mainThreadIndex"]]["pid"] == counter["pid"]


def check_thread(thread: Table, shared: Table, meta: Table) -> None:
    schemas = {schema["name"] for schema in meta["markerSchema"]}
    for name in {"samples", "markers", "nativeAllocations"} & set(thread):
        check_lengths(thread[name])
    check_times(thread["samples"]["time"], strictly=True)
    check_indices(thread["samples"]["stack"], shared["stackTable"]["length"])
    check_indices(thread["markers"]["name"], len(shared["stringArray"]))
    check_times(thread["markers"]["startTime"])
    assert {data["type"] for data in thread["markers"]["data"]} <= schemas
    if allocations := thread.get("nativeAllocations"):
        check_times(allocations["time"])
        check_indices(allocations["stack"], shared["stackTable"]["length"])
        check_blocks(allocations)


def check_blocks(allocations: Table) -> None:
    """No address is allocated twice, and nothing is freed that was not allocated."""
    held: dict[int, int] = defaultdict(int)
    for address, size in zip(allocations["memoryAddress"], allocations["weight"], strict=True):
        assert (held[address] == 0) == (size >= 0)
        held[address] += size
        assert held[address] >= 0


def check_lengths(table: Table) -> None:
    lists = {name: len(column) for name, column in table.items() if isinstance(column, list)}
    assert set(lists.values()) <= {table["length"]}, lists


def check_indices(indices: list[int | None], length: int) -> None:
    assert all(index is None or 0 <= index < length for index in indices)


def check_times(times: list[float], strictly: bool = False) -> None:
    assert times == sorted(times)
    assert not strictly or len(set(times)) == len(times)


def frames_of(document: Table, stack: int | None) -> list[str]:
    """The functions of a stack, outermost first."""
    shared, found = document["shared"], list[str]()
    while stack is not None:
        function = shared["frameTable"]["func"][shared["stackTable"]["frame"][stack]]
        found.append(shared["stringArray"][shared["funcTable"]["name"][function]])
        stack = shared["stackTable"]["prefix"][stack]
    return found[::-1]


def test_processes_and_threads_are_there(tmp_path: Path) -> None:
    document = exported(rich_trace(tmp_path / "t.parquet"))
    found = [(each["name"], each["pid"], each["tid"], each["isMainThread"]) for each in document["threads"]]
    assert found == [
        ("python3 app.py, thread-1", "1001", 1001, True),
        ("fetcher", "1001", 2002, False),
        ("python3 app.py, thread-3", "1002", 2003, True),
    ]
    assert document["meta"]["startTime"] == pytest.approx(1_767_323_045_000.006, abs=0.001)
    assert document["meta"]["product"] == "app.py --fast"


def test_samples_weigh_what_the_report_says(tmp_path: Path) -> None:
    document = exported(rich_trace(tmp_path / "t.parquet"))
    samples = [thread["samples"] for thread in document["threads"]]
    assert {each["weightType"] for each in samples} == {"tracing-ms"}
    assert sum(sum(each["weight"]) for each in samples) == pytest.approx(TOTALS["cpu"] / 1e6)
    first = samples[0]
    assert first["time"] == [0, 1_000, 1_000.000001, 2_000, 10_000]
    assert first["weight"] == [0, 10, 1, 20, 0]
    assert [frames_of(document, stack) for stack in first["stack"]] == [
        [],
        ["<module>", "main", "work"],
        ["<module>", "main", "work", "[kernel]"],
        ["<module>", "main", "work", "decode", "crc32_z"],
        [],
    ]


def test_native_frames_name_their_library_and_python_frames_their_file(tmp_path: Path) -> None:
    shared = (document := exported(rich_trace(tmp_path / "t.parquet")))["shared"]
    functions, texts = shared["funcTable"], shared["stringArray"]
    names = [texts[name] for name in functions["name"]]
    native, work = names.index("crc32_z"), names.index("work")
    assert document["libs"][shared["resourceTable"]["lib"][functions["resource"][native]]]["name"] == "libz"
    assert texts[shared["sources"]["filename"][functions["source"][work]]] == APP
    assert functions["lineNumber"][work] == 3
    lines = {
        line for line, at in zip(shared["frameTable"]["line"], shared["frameTable"]["func"], strict=True) if at == work
    }
    assert lines == {4, 5}


def test_waits_collections_and_marks_are_markers(tmp_path: Path) -> None:
    document = exported(rich_trace(tmp_path / "t.parquet"))
    texts = document["shared"]["stringArray"]
    markers = document["threads"][0]["markers"]
    found = [
        (texts[name], start, end, phase)
        for name, start, end, phase in zip(*(markers[key] for key in ("name", "startTime", "endTime", "phase")), strict=True)
    ]  # fmt: skip
    assert found == [
        ("mark", 2_000, 3_000, 1),
        ("wait: sleep", 4_000, 6_000, 1),
        ("garbage collection, generation 0", 6_000, None, 0),
        ("garbage collection, generation 2", 6_000, None, 0),
    ]
    assert frames_of(document, markers["data"][1]["cause"]["stack"]) == ["<module>", "main"]
    assert markers["data"][2] == {"type": "gc", "generation": 0, "collections": 3}
    assert document["threads"][1]["markers"]["data"][0]["what"] == "GIL"


def test_allocations_are_there_until_they_are_freed(tmp_path: Path) -> None:
    document = exported(rich_trace(tmp_path / "t.parquet"))
    allocations = document["threads"][0]["nativeAllocations"]
    assert sum(size for size in allocations["weight"] if size > 0) == TOTALS["allocated"]
    assert allocations["time"] == [1_000, 1_000, 3_000]
    assert sorted(allocations["weight"]) == [-1_999_993, 1_999_993, 3_000_017]


def test_memory_tracks_hold_differences(tmp_path: Path) -> None:
    counters = exported(rich_trace(tmp_path / "t.parquet"))["counters"]
    found = {(each["name"], each["pid"]): (each["samples"]["time"], each["samples"]["count"]) for each in counters}
    assert found == {
        ("allocated minus freed", "1001"): ([2_000, 2_000, 4_000], [0, 11_000_003, -10_999_999]),
        ("resident set", "1001"): ([2_000, 2_000], [0, 50_000_000]),
    }


def test_devices_have_tracks_of_their_time_and_memory(tmp_path: Path) -> None:
    """Device 0 has every 200 ms a sample of the first process, 1.4 s busy, device 1 one second of the other at 40 %, from 5 s on."""
    trace = device_trace(tmp_path / "t.parquet")
    counters = {(each["name"], each["pid"]): each for each in exported(trace)["counters"]}
    assert set(counters) == {
        ("GPU 0 busy", "1001"), ("GPU 0 memory", "1001"), ("GPU 1 memory", "1001"), ("GPU 1 busy", "1002"),
    }  # fmt: skip
    second = counters["GPU 1 busy", "1002"]
    assert second["samples"] == {"time": [5_000, 6_000], "count": [0, 400], "length": 2}
    assert second["display"]["tooltipRows"][0]["format"] == {"unit": "percent"}
    busy_ms = sum(sum(each["samples"]["count"]) for name, each in counters.items() if name[0].endswith("busy"))
    assert busy_ms == pytest.approx(1_800)
    memory = counters["GPU 1 memory", "1001"]["samples"]
    assert memory == {"time": [2_000, 2_000, 3_000], "count": [0, 100_000_007, 99_999_996], "length": 3}
    cut = {each["name"]: each["samples"] for each in exported(trace, selection=Selection(5.5, 5.75))["counters"]}
    assert cut == {"GPU 1 busy": {"time": [5_500, 5_750], "count": [0, 100], "length": 2}}


def test_calls_of_cuda_libraries_are_markers(tmp_path: Path) -> None:
    document = exported(device_trace(tmp_path / "t.parquet"))
    texts, markers = document["shared"]["stringArray"], document["threads"][0]["markers"]
    found = [(texts[name], data) for name, data in zip(markers["name"], markers["data"], strict=True)]
    calls = [(name, data) for name, data in found if data["type"].startswith("device-")]
    copied = [(data["direction"], data["bytes"]) for _, data in calls if data["type"] == "device-copy"]
    assert sorted(copied) == sorted(2 * [
        ("host to device", 3_000_017), ("device to host", 1_000_003),
        ("not told by the call", 500_009), ("device to device", 70_001),
    ])  # fmt: skip
    name, data = calls[0]
    assert name == "device copy: host to device" and frames_of(document, data["cause"]["stack"]) == ["train"]
    waits_ms = sum(data["inside"] for name, data in calls if name == "device wait")
    assert waits_ms == pytest.approx(2 * (250 + 500 + 750 + 1_000))


def test_a_time_window_bounds_the_profile(tmp_path: Path) -> None:
    selection = Selection(from_s=1.5, to_s=5)
    thread = exported(rich_trace(tmp_path / "t.parquet"), selection=selection)["threads"][0]
    assert thread["samples"]["time"] == [1_500, 2_000, 5_000]
    assert thread["markers"]["endTime"] == [3_000, 5_000]


def test_several_traces_and_images_of_one_process_are_distinguished(tmp_path: Path) -> None:
    path = rich_trace(tmp_path / "t.parquet")
    builder = TraceBuilder()
    for _ in range(2):
        builder.thread(builder.process(pid=7), cpu_ns=0)
    other = builder.write(tmp_path / "u.parquet")
    document = exported(path, other)
    keys = [each["pid"] for each in document["threads"]]
    assert keys == ["trace 1: 1001", "trace 1: 1001", "trace 1: 1002", "trace 2: 7", "trace 2: 7.2"]


@pytest.mark.parametrize("kind", [*THIN, "hostile"])
def test_thin_and_hostile_traces_make_tables_that_fit(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    document = exported(hostile_trace(path) if kind == "hostile" else thin_trace(kind, path))
    assert document["threads"]


def test_samples_of_one_moment_stand_a_nanosecond_apart(tmp_path: Path) -> None:
    builder = TraceBuilder()
    thread = builder.thread(builder.process(), cpu_ns=0)
    for _ in range(3):
        builder.tick(SECOND, 1, thread, builder.stack((APP, "f", 1, 2)))
    (document,) = exported(builder.write(tmp_path / "t.parquet"))["threads"]
    assert document["samples"]["time"] == [0, 1_000, 1_000.000001, 1_000.000002, 10_000]
