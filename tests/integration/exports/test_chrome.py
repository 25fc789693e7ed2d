"""The trace-event export: counters, slices that do not overlap, names, moments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scalene_trace.analyze.exports.export import FORMATS, Asked
from scalene_trace.analyze.trace.selection import Selection
from tests.support.example_traces import THIN, hostile_trace, rich_trace, thin_trace
from tests.support.page_traces import device_trace
from tests.support.trace_builder import MS, SECOND, TraceBuilder

Event = dict[str, Any]


def exported(*paths: Path, selection: Selection | None = None) -> list[Event]:
    contents = FORMATS["chrome"].make(Asked(paths, selection or Selection())).contents
    events: list[Event] = json.loads(contents)["traceEvents"]
    check(events)
    return events


def check(events: list[Event]) -> None:
    """Every event has what its phase asks for, and the slices of a thread stand one after the other."""
    ends: dict[tuple[int, int], float] = {}
    for event in events:
        assert {"ph", "name", "pid", "tid"} <= set(event)
        assert event["ph"] == "M" or isinstance(event["ts"], float)
        if event["ph"] == "X":
            key = (event["pid"], event["tid"])
            assert event["dur"] > 0 and event["ts"] >= ends.get(key, 0) - 0.001
            ends[key] = event["ts"] + event["dur"]
        if event["ph"] == "C":
            assert all(isinstance(value, int | float) for value in event["args"].values())


def of(events: list[Event], phase: str, name: str = "") -> list[Event]:
    return [event for event in events if event["ph"] == phase and event["name"].startswith(name)]


def test_processes_and_threads_have_names(tmp_path: Path) -> None:
    events = exported(rich_trace(tmp_path / "t.parquet"))
    named = {(event["pid"], event["tid"]): event["args"]["name"] for event in of(events, "M", "thread_name")}
    assert named == {(1001, 1001): "thread-1", (1001, 2002): "fetcher", (1002, 2003): "thread-3"}
    assert [event["pid"] for event in of(events, "M", "process_name")] == [1001, 1002]


def test_memory_is_a_counter(tmp_path: Path) -> None:
    events = exported(rich_trace(tmp_path / "t.parquet"))
    footprint = [(event["ts"], event["args"]["bytes"]) for event in of(events, "C", "allocated minus freed")]
    assert footprint == [(2_000_000, 11_000_003), (4_000_000, 4)]
    assert [event["args"]["bytes"] for event in of(events, "C", "resident set")] == [50_000_000]


def test_cpu_counters_add_up_to_the_report(tmp_path: Path) -> None:
    events = of(exported(rich_trace(tmp_path / "t.parquet")), "C", "CPUs in use")
    sums = {name: sum(event["args"][name] for event in events) * 0.01 for name in ("python", "native", "system")}
    assert sums == pytest.approx({"python": 0.040, "native": 0.020, "system": 0.001})
    first = [(event["ts"], event["args"]["python"]) for event in events if event["pid"] == 1001][:2]
    assert first == [(1_000_000, 1.0), (1_010_000, 0)], "10 ms in a piece of 10 ms, then none"


def test_waits_are_slices_with_their_stack(tmp_path: Path) -> None:
    slices = of(exported(rich_trace(tmp_path / "t.parquet")), "X")
    found = {(event["name"], event["tid"]): (event["ts"], event["dur"]) for event in slices}
    assert found == {("wait: sleep", 1001): (4_000_000, 2_000_000), ("wait: GIL", 2002): (4_000_000, 500_000)}
    assert slices[1]["args"]["stack"] == ["main (/home/me/app.py:12)", "<module> (/home/me/app.py:20)"]


def test_waits_that_overlap_are_cut(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.settings["features"] = '["wait"]'
    process = builder.process()
    first, second = builder.thread(process, cpu_ns=0), builder.thread(process, cpu_ns=0)
    for start, length in ((0, 100), (50, 100), (60, 10), (150, 0)):
        builder.wait(start * MS, process, first, None, length * MS)
    builder.wait(50 * MS, process, second, None, 100 * MS)
    slices = of(exported(builder.write(tmp_path / "t.parquet")), "X")
    assert [(event["tid"], event["ts"], event["dur"]) for event in slices] == [
        (2001, 0, 100_000),
        (2001, 100_000, 50_000),
        (2002, 50_000, 100_000),
    ]


def test_devices_are_counters_and_calls_of_cuda_libraries_slices(tmp_path: Path) -> None:
    events = exported(device_trace(tmp_path / "t.parquet"))
    busy = [(event["ts"], event["args"]["percent"]) for event in of(events, "C", "GPU 1 busy")]
    assert busy == [(5_000_000, 40), (6_000_000, 0)]
    shares = [event["args"]["percent"] for event in of(events, "C", "GPU 0 busy") if 2e6 <= event["ts"] < 3.4e6]
    assert shares == [100, 100, 100, 100, 100, 100, 50]
    assert [event["args"]["bytes"] for event in of(events, "C", "GPU 1 memory")] == [100_000_007, 200_000_003]
    begun, ended = of(events, "b", "device"), of(events, "e", "device")
    assert len(begun) == len(ended) == 16 and len({event["id"] for event in begun}) == 16
    first = next(event for event in begun if event["name"] == "device copy: h2d")
    assert first["args"] == {"calls": 1, "inside_s": 0.002, "stack": ["train (/home/me/app.py:10)"], "bytes": 3_000_017}
    (end,) = (event for event in ended if event["id"] == first["id"])
    assert (first["ts"], end["ts"]) == (1_000_000, 1_003_000)
    assert sum(event["args"]["inside_s"] for event in begun if event["name"] == "device wait") == pytest.approx(5.0)


def test_collections_and_marks_are_there(tmp_path: Path) -> None:
    events = exported(rich_trace(tmp_path / "t.parquet"))
    found = [(event["name"], event["ts"], event["args"]) for event in of(events, "i")]
    assert found == [
        ("garbage collection, generation 0", 6_000_000, {"collections": 3}),
        ("garbage collection, generation 2", 6_000_000, {"collections": 1}),
    ]
    assert [event["ts"] for phase in "be" for event in of(events, phase, "mark: load")] == [2_000_000, 3_000_000]


def test_images_and_traces_with_one_pid_are_distinguished(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for _ in range(2):
        builder.thread(builder.process(pid=7), cpu_ns=0)
    path = builder.write(tmp_path / "t.parquet")
    pids = [event["pid"] for event in of(exported(path, path), "M", "process_name")]
    assert pids == [7, 1_000_007, 10_000_007, 11_000_007]


def test_a_time_window_cuts_the_waits(tmp_path: Path) -> None:
    events = exported(rich_trace(tmp_path / "t.parquet"), selection=Selection(from_s=4.25, to_s=5))
    assert [(event["ts"], event["dur"]) for event in of(events, "X")] == [(4_250_000, 250_000), (4_250_000, 750_000)]
    assert of(events, "C", "CPUs in use") == []


@pytest.mark.parametrize("kind", [*THIN, "hostile"])
def test_thin_and_hostile_traces_keep_to_the_format(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    exported(hostile_trace(path) if kind == "hostile" else thin_trace(kind, path))


def test_a_week_has_no_more_pieces_than_an_hour(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.settings["wall_ns"] = str(7 * 86_400 * SECOND)
    thread = builder.thread(builder.process(), cpu_ns=0)
    for index in range(30_000):
        builder.tick(index * 20 * SECOND, 1, thread, None)
    assert len(of(exported(builder.write(tmp_path / "t.parquet")), "C")) <= 10_002
