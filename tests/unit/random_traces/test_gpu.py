"""GPU time and memory by line against a second computation in plain Python, on random traces."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.results.report import Report
from scalene_trace.analyze.trace.selection import Selection
from tests.support.trace_builder import MS, SECOND, Row, TraceBuilder

APP, INSTALLED = "/home/me/app.py", "/usr/lib/python3.12/queue.py"
CUDA, OTHER = 7, 8
INTERVAL_NS = 10 * MS
moments = st.integers(0, 2 * SECOND)


@st.composite
def gpu_traces(draw: st.DrawFn) -> TraceBuilder:
    """Threads that tick and wait, some in CUDA; devices that are busy and hold memory."""
    builder = TraceBuilder()
    builder.settings["features"] = '["cpu", "wait", "gpu"]'
    builder.settings["wall_ns"] = str(3 * SECOND)
    builder.add("module", id=CUDA, path="/usr/lib/x86_64-linux-gnu/libcuda.so.1", **{"class": "extension"})
    builder.add("module", id=OTHER, path="/usr/lib/libcurl.so.4", **{"class": "extension"})
    stacks = [builder.stack((APP, "f", 1, line)) for line in (10, 11)]
    stacks += [
        builder.stack((INSTALLED, "get", 5, 7), (APP, "g", 20, 21)),
        builder.stack((INSTALLED, "run", 3, 4)),
        None,
    ]
    for _ in range(draw(st.integers(1, 2))):
        process = builder.process()
        for _ in range(draw(st.integers(1, 3))):
            _thread(draw, builder, process, stacks)
    for _ in range(draw(st.integers(1, 3))):
        _device(draw, builder, draw(st.sampled_from([None, 1, len(builder.rows["process"])])))
    return builder


def _thread(draw: st.DrawFn, builder: TraceBuilder, process: int, stacks: list[int | None]) -> None:
    thread = builder.thread(process, cpu_ns=0)
    uses_cuda = draw(st.booleans())
    first = draw(moments)
    for t_ns in draw(st.lists(st.integers(first, first + 300 * MS), max_size=12, unique=True)):
        module = draw(st.sampled_from([None, OTHER, *([CUDA] * uses_cuda)]))
        column = draw(st.sampled_from(["pc_module", "extension_module"]))
        builder.tick(t_ns, process, thread, draw(st.sampled_from(stacks)), **{column: module})
    for t_ns in draw(st.lists(moments, max_size=4, unique=True)):
        kind, length = draw(st.sampled_from(["sleep", "disk", "gil", "runnable"])), draw(st.integers(1, SECOND))
        builder.wait(t_ns, process, thread, draw(st.sampled_from(stacks)), length, **{"class": kind})
    for t_ns in draw(st.lists(moments, max_size=2, unique=True)):
        call, length = draw(st.sampled_from(["device_sync", "device_copy"])), draw(st.integers(1, SECOND))
        more: Row = {"direction": "d2h", "bytes": 1} if call == "device_copy" else {}
        more |= {"calls": 1, "duration_ns": draw(st.sampled_from([length, length // 2, length // 3]))}
        builder.add(
            call, t_ns=t_ns, process=process, thread=thread, stack=draw(st.sampled_from(stacks)), span_ns=length, **more
        )


def _device(draw: st.DrawFn, builder: TraceBuilder, process: int | None) -> None:
    """Intervals one after the other, some left out, and looks at memory."""
    device = sum(row["busy_ns"] is not None for row in builder.rows.get("gpu", []))
    common: Row = {"process": process, "device": device, "scope": "device" if process is None else "process"}
    common |= {"charged": draw(st.sampled_from([True, True, True, False]))}
    period, start = draw(st.sampled_from([SECOND // 6, SECOND])), draw(st.integers(0, SECOND))
    for index in range(draw(st.integers(1, 6))):
        busy_ns = draw(st.sampled_from([0, period // 3, period // 2, period]))
        if draw(st.booleans()) or index == 0:
            row = {"duration_ns": period, "busy_ns": busy_ns, "memory_bytes": None}
            builder.add("gpu", t_ns=start + index * period, **common, **row)
    for index in range(draw(st.integers(0, 3))):
        span = draw(st.sampled_from([0, 200 * MS]))
        memory = {"duration_ns": span, "busy_ns": None, "memory_bytes": draw(st.integers(0, 10**10))}
        builder.add("gpu", t_ns=start + index * 400 * MS, **common, **memory)


@dataclass(frozen=True)
class Moment:
    """Something of a GPU that is to be charged. ``process`` None = to any."""

    t_ns: int
    process: int | None
    gpu_s: float
    memory_bytes: int | None


def moments_of(builder: TraceBuilder) -> list[Moment]:
    """The rule of gpu_moments, once more."""
    found, rows = [], [row for row in builder.rows.get("gpu", []) if row["charged"]]
    series: dict[Any, list[Row]] = defaultdict(list)
    looks: dict[Any, int] = defaultdict(int)
    for row in rows:
        if row["busy_ns"] is not None:
            series[row["process"], row["device"], row["scope"]].append(row)
        else:
            looks[row["process"], row["t_ns"], row["duration_ns"]] += row["memory_bytes"]
    for each in series.values():
        each.sort(key=lambda row: row["t_ns"])
        for index, row in enumerate(each):
            found += _pieces(
                row, each[index - 1] if index else None, each[index + 1] if index + 1 < len(each) else None
            )
    for (process, t_ns, span), memory in looks.items():
        number = span // (50 * MS) + 1
        found += [Moment(t_ns + span * i // max(number - 1, 1), process, 0.0, memory) for i in range(number)]
    return found


def _pieces(row: Row, before: Row | None, after: Row | None) -> list[Moment]:
    start, length, busy = row["t_ns"], row["duration_ns"], row["busy_ns"]
    left = right = 0.0
    if before and before["t_ns"] + before["duration_ns"] >= start - length:
        left = before["busy_ns"] / before["duration_ns"]
    if after and after["t_ns"] <= start + 2 * length:
        right = after["busy_ns"] / after["duration_ns"]
    if busy and max(left, right) > busy / length and min(left, right) <= max(left, right) / 2:
        span = max(int(busy / max(left, right)), 1)
        start, length = (start + length - span if right > left else start), span
    number = min(-(-length // (10 * MS)), 150)
    middles = (start + length * (2 * place + 1) // (2 * number) for place in range(number))
    return [Moment(t_ns, row["process"], busy / 1e9 / number, None) for t_ns in middles]


@dataclass(frozen=True)
class State:
    """What a thread was at: nearer to the GPU the smaller the rank."""

    from_ns: int
    to_ns: int
    stack: int
    rank: int


def states_of(builder: TraceBuilder, thread: Row) -> tuple[list[State], list[State], list[State]]:
    """Waits, ticks and calls of CUDA of a thread, by their beginning."""
    ticks = sorted((r for r in builder.rows.get("cpu", []) if r["thread"] == thread["thread"]), key=lambda r: r["t_ns"])
    waits = [row for row in builder.rows.get("wait", []) if row["thread"] == thread["thread"]]
    in_cuda = [CUDA in (row.get("pc_module"), row.get("extension_module")) for row in ticks]
    places = {row["stack"] for row, is_cuda in zip(ticks, in_cuda, strict=True) if is_cuda}
    calls = [row for kind in ("device_sync", "device_copy") for row in builder.rows.get(kind, [])]
    calls = sorted((row for row in calls if row["thread"] == thread["thread"]), key=lambda row: row["t_ns"])
    uses_cuda = any(in_cuda) or bool(calls)
    found_ticks, found_waits, found_calls = [], [], []
    for row in calls:
        if row["stack"] is not None and 2 * row["duration_ns"] >= row["span_ns"]:
            found_calls.append(State(row["t_ns"], row["t_ns"] + row["span_ns"], row["stack"], 0))
    for index, row in enumerate(ticks):
        before = (row["t_ns"] - ticks[index - 1]["t_ns"]) // 2 if index else 2 * INTERVAL_NS
        after = (ticks[index + 1]["t_ns"] - row["t_ns"] + 1) // 2 if index + 1 < len(ticks) else 2 * INTERVAL_NS
        spans = row["t_ns"] - min(before, 2 * INTERVAL_NS), row["t_ns"] + min(after, 2 * INTERVAL_NS)
        if row["stack"] is not None:
            found_ticks.append(State(*spans, row["stack"], 1 if in_cuda[index] else 2 if uses_cuda else 4))
    for row in waits:
        if row["stack"] is not None:
            rests = row["class"] in ("sleep", "disk")
            rank = 1 if rests and row["stack"] in places else 2 if uses_cuda else 3 if rests else 4
            found_waits.append(State(row["t_ns"], row["t_ns"] + row["span_ns"], row["stack"], rank))
    return sorted(found_waits, key=lambda each: each.from_ns), found_ticks, found_calls


def state_at(states: list[State], t_ns: int) -> State | None:
    begun = [state for state in states if state.from_ns <= t_ns]
    return begun[-1] if begun and t_ns < begun[-1].to_ns else None


def owner_of(builder: TraceBuilder, stack: int | None) -> int | None:
    """The line of the innermost frame of the user's."""
    locations = next((row["locations"] for row in builder.rows["stack"] if row["stack"] == stack), [])
    by_id = {row["id"]: row for row in builder.rows["location"]}
    return next((by_id[each]["line"] for each in locations if by_id[each]["file"] == APP), None)


def charged(builder: TraceBuilder, selection: Selection) -> tuple[dict[int | None, float], dict[int | None, int]]:
    """GPU time and most memory by line (None = no line)."""
    times, peaks = defaultdict[int | None, float](float), dict[int | None, int]()
    states = [(row, *states_of(builder, row)) for row in builder.rows["thread"]]
    for moment in moments_of(builder):
        if not (selection.from_ns or 0) <= moment.t_ns < (selection.to_ns or 10**18):
            continue
        met = []
        for thread, *of_thread in states:
            if moment.process in (None, thread["process"]):
                here = [each for each in (state_at(each, moment.t_ns) for each in of_thread) if each]
                met += [(min(here, key=lambda each: (each.rank, each.stack)), thread)] if here else []
        least = min((state.rank for state, _ in met), default=0)
        nearest = [(state.stack, row["process"]) for state, row in met if state.rank == least] or [
            (None, moment.process)
        ]
        for stack, process in nearest:
            if not selection.processes or process in selection.processes:
                line = owner_of(builder, stack)
                times[line] += moment.gpu_s / len(nearest)
                if moment.memory_bytes is not None:
                    peaks[line] = max(peaks.get(line, 0), moment.memory_bytes)
    return times, peaks


windows = st.tuples(moments, moments).map(sorted)
selections = st.builds(
    lambda window, process: Selection(window[0] / 1e9, (window[1] + 1) / 1e9, (process,) if process else ()),
    windows, st.sampled_from([0, 1]),
) | st.just(Selection())  # fmt: skip


def reported(builder: TraceBuilder, selection: Selection) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        return build_report([builder.write(Path(folder) / "t.parquet")], selection)


@given(gpu_traces(), selections)
def test_gpu_time_and_memory_by_line_equal_a_second_computation(builder: TraceBuilder, selection: Selection) -> None:
    report = reported(builder, selection)
    times, peaks = charged(builder, selection)
    found = {row.line: row for row in (*report.lines, report.unattributed)}
    assert {line for line, gpu_s in times.items() if gpu_s} <= set(found)
    for line, row in found.items():
        assert row.gpu_s == pytest.approx(times[line], abs=1e-9)
        if report.totals.gpu_peak_bytes:
            assert row.gpu_peak_bytes == peaks.get(line)
    assert report.totals.gpu_s == pytest.approx(sum(times.values()), abs=1e-9)
    functions = {row.function: row.gpu_s for row in report.functions}
    assert functions.get("f", 0) == pytest.approx(times[10] + times[11], abs=1e-9)


@given(gpu_traces())
def test_all_gpu_time_that_counts_is_charged_once(builder: TraceBuilder) -> None:
    counted = [row for row in builder.rows["gpu"] if row["charged"] and row["busy_ns"] is not None]
    whole_s = sum(row["busy_ns"] for row in counted) / 1e9
    assert reported(builder, Selection()).totals.gpu_s == pytest.approx(whole_s, abs=1e-9)
