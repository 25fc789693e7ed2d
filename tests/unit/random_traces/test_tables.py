"""Waits, copies, threads, processes, resident sets, marks and exports against a second computation, on random traces."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalene_trace.analyze.exports.export import FORMATS, Asked
from scalene_trace.analyze.exports.shared.profile import METRICS, read_profile
from scalene_trace.analyze.html.model import build_document
from scalene_trace.analyze.report import reduction
from scalene_trace.analyze.report.libraries import build_libraries
from scalene_trace.analyze.report.processes import build_processes
from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.report.threads import build_threads
from scalene_trace.analyze.report.timeline import build_timeline, peak_rss
from scalene_trace.analyze.results.base import to_json
from scalene_trace.analyze.trace import queries, views
from scalene_trace.analyze.trace.making.unmade import Unmade
from scalene_trace.analyze.trace.selection import Selection
from scalene_trace.analyze.trace.traces import open_traces
from tests.support.random_traces import (
    frames_of,
    functions_on,
    oracle_charges,
    oracle_classes,
    oracle_owner,
    oracle_scales,
    selections,
    traces,
    within,
    within_window,
)
from tests.support.trace_builder import SECOND, Row, TraceBuilder

CLASSES = ("sleep", "disk", "runnable", "gil")
FEATURES = json.dumps(["cpu", "wait", "memory", "alloc", "copy", "children"])
moments = st.integers(0, 9 * SECOND)


@st.composite
def full_traces(draw: st.DrawFn) -> TraceBuilder:
    """Ticks and footprint samples as elsewhere; with waits, copies, allocations, collections, resident sets, marks."""
    builder: TraceBuilder = draw(traces())
    builder.settings["features"] = FEATURES
    some_stack = st.sampled_from([*builder.stack_ids.values(), None])
    some_thread = st.sampled_from(builder.rows["thread"])
    for _ in range(draw(st.integers(0, 6))):
        thread, span = draw(some_thread), draw(st.integers(0, 3 * SECOND))
        length = draw(st.integers(0, span))
        builder.wait(
            draw(moments), thread["process"], thread["thread"], draw(some_stack), length,
            span_ns=span, **{"class": draw(st.sampled_from(CLASSES))},
        )  # fmt: skip
    for _ in range(draw(st.integers(0, 4))):
        thread = draw(some_thread)
        builder.copy(draw(moments), thread["process"], thread["thread"], draw(some_stack), draw(st.integers(1, 10**8)))
        builder.alloc(
            draw(moments), thread["process"], thread["thread"], draw(some_stack), draw(st.integers(1, 10**6)),
            draw(st.none() | st.integers(0, SECOND)), interval_bytes=draw(st.sampled_from((1, 65_536))),
        )  # fmt: skip
    _of_processes(draw, builder)
    return builder


def _of_processes(draw: st.DrawFn, builder: TraceBuilder) -> None:
    some_process = st.sampled_from(builder.rows["process"])
    for t_ns in draw(st.lists(moments, max_size=8, unique=True)):
        process = draw(some_process)["process"]
        builder.add("rss", t_ns=t_ns, process=process, rss_bytes=draw(st.integers(0, 10**9)), shared_bytes=0)
    for t_ns in draw(st.lists(moments, max_size=5, unique=True)):
        counts = [draw(st.integers(0, 3)) for _ in range(3)]
        builder.collections(t_ns, draw(some_process)["process"], 1, *counts)
    for t_ns in draw(st.lists(moments, max_size=4, unique=True)):
        end_ns = draw(st.none() | st.integers(t_ns, 10 * SECOND))
        builder.add(
            "mark", t_ns=t_ns, what=draw(st.sampled_from(("mark", "set"))), text=str(t_ns), end_ns=end_ns, pid=1
        )


def with_file(builder: TraceBuilder, use: Any) -> Any:
    """What ``use`` gives for the path of the trace."""
    with tempfile.TemporaryDirectory() as folder:
        return use(builder.write(Path(folder) / "t.parquet"))


def oracle_wait_s(wait: Row, selection: Selection) -> float | None:
    """The part of a wait that lies in the selection; None = it does not touch it."""
    from_ns, to_ns = selection.from_ns or 0, selection.to_ns or 10**18
    start, span = wait["t_ns"], wait["span_ns"]
    if start + span < from_ns or start >= to_ns:
        return None
    if selection.processes and wait["process"] not in selection.processes:
        return None
    if selection.threads and wait["thread"] not in selection.threads:
        return None
    inside = max(0, min(start + span, to_ns) - max(start, from_ns)) / span if span else 1
    return float(wait["duration_ns"] / 1e9 * inside)


def oracle_waits(builder: TraceBuilder, selection: Selection) -> list[tuple[Row, float]]:
    """The waits of the selection, each with its part."""
    parts = [(row, oracle_wait_s(row, selection)) for row in builder.rows.get("wait", [])]
    return [(row, part) for row, part in parts if part is not None]


@given(full_traces(), selections)
def test_waits_and_copies_by_line_equal_a_second_computation(builder: TraceBuilder, selection: Selection) -> None:
    report = with_file(builder, lambda path: build_report([path], selection))
    expected: dict[Any, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for row, wait_s in oracle_waits(builder, selection):
        expected[oracle_owner(builder, row["stack"])][f"{row['class']}_s"] += wait_s
    for row in within(builder.rows.get("copy", []), selection):
        expected[oracle_owner(builder, row["stack"])]["copy_bytes"] += row["bytes"]
    found = {(line.file, line.line): line for line in report.lines} | {None: report.unattributed}
    for key, line in found.items():
        for name in CLASSES:
            assert getattr(line.waits, f"{name}_s") == pytest.approx(expected[key][f"{name}_s"], abs=1e-9)
        assert line.copy_bytes == expected[key]["copy_bytes"]
    whole_s = sum(wait_s for _, wait_s in oracle_waits(builder, selection))
    assert report.totals.wait_s == pytest.approx(whole_s, abs=1e-9)


@given(full_traces(), selections)
def test_waits_with_callees_equal_a_second_computation(builder: TraceBuilder, selection: Selection) -> None:
    report = with_file(builder, lambda path: build_report([path], selection))
    expected = defaultdict[Any, float](float)
    for row, wait_s in oracle_waits(builder, selection):
        for key in functions_on(builder, row["stack"]):
            expected[key] += wait_s
    found = {(each.file, each.function, each.first_line): each.cumulative_wait_s for each in report.functions}
    assert set(expected) <= set(found)
    for key, wait_s in found.items():
        assert wait_s == pytest.approx(expected[key], abs=1e-9), key


@given(full_traces(), selections)
def test_threads_equal_a_second_computation(builder: TraceBuilder, selection: Selection) -> None:
    table = with_file(builder, lambda path: build_threads([path], selection, {}))
    class_of = oracle_classes(builder)
    scales, expected = oracle_scales(builder), defaultdict[Any, float](float)
    window = Selection(from_s=selection.from_s, to_s=selection.to_s)
    for tick in within(builder.rows.get("cpu", []), window):
        scale = scales.get(tick["thread"], 1) / 1e9
        expected[tick["thread"], class_of(tick)] += tick["user_ns"] * scale
        expected[tick["thread"], "system"] += tick["system_ns"] * scale
    for row, wait_s in oracle_waits(builder, selection):
        expected[row["thread"], row["class"]] += wait_s
    chosen = [
        row["thread"]
        for row in within(builder.rows["thread"], Selection(processes=selection.processes, threads=selection.threads))
    ]
    assert sorted(row.thread for row in table.rows) == sorted(chosen)
    for row in table.rows:
        for name in ("python", "native", "system"):
            assert getattr(row, f"{name}_s") == pytest.approx(expected[row.thread, name], abs=1e-9)
        for name in CLASSES:
            assert getattr(row.waits, f"{name}_s") == pytest.approx(expected[row.thread, name], abs=1e-9)


@given(full_traces())
def test_processes_equal_a_second_computation(builder: TraceBuilder) -> None:
    table = with_file(builder, lambda path: build_processes([path], (), {}, None, None))
    class_of = oracle_classes(builder)
    scales = oracle_scales(builder)
    assert len(table.rows) == len(builder.rows["process"])
    for row in table.rows:
        ticks = [tick for tick in builder.rows.get("cpu", []) if tick["process"] == row.process]
        times = defaultdict[str, float](float)
        for tick in ticks:
            scale = scales.get(tick["thread"], 1) / 1e9
            times[class_of(tick)] += tick["user_ns"] * scale
            times["system"] += tick["system_ns"] * scale
        threads = [each for each in builder.rows["thread"] if each["process"] == row.process]
        assert (row.ticks, row.threads) == (len(ticks), len(threads))
        assert row.cpu_s == pytest.approx(sum(each["cpu_ns"] for each in threads) / 1e9)
        for name in ("python", "native", "system"):
            assert getattr(row, f"{name}_s") == pytest.approx(times[name], abs=1e-9)
        _check_memory(builder, row)


def _check_memory(builder: TraceBuilder, row: Any) -> None:
    (process,) = (each for each in builder.rows["process"] if each["process"] == row.process)
    samples = [each for each in builder.rows.get("memory", []) if each["process"] == row.process]
    told = [each["footprint_bytes"] for each in samples] + [process["start_footprint_bytes"]]
    assert row.peak_bytes == max([*told, process["end_footprint_bytes"] or 0])
    assert row.growth_bytes == sum(each["net_bytes"] for each in samples)


def oracle_peak_rss(builder: TraceBuilder, selection: Selection) -> int | None:
    """The highest sum of what each process had last, within the window; what was before it counts at its start."""
    ends = {row["process"]: row["end_ns"] for row in builder.rows["process"] if row["end_ns"] is not None}
    last_end = max(ends.values(), default=0)
    rows = [
        row for row in builder.rows.get("rss", []) if not selection.processes or row["process"] in selection.processes
    ]
    gone = {process: end for process, end in ends.items() if end < last_end}
    gone = {process: end for process, end in gone.items() if not selection.processes or process in selection.processes}
    times = sorted({row["t_ns"] for row in rows} | set(gone.values()))
    from_ns, to_ns = selection.from_ns or 0, selection.to_ns or 10**18
    known = [t_ns for t_ns in times if t_ns < to_ns]
    moments_ns = [t_ns for t_ns in known if t_ns >= from_ns] + [t_ns for t_ns in known if t_ns < from_ns][-1:]
    return max((_resident(rows, gone, t_ns) for t_ns in moments_ns), default=None)


def _resident(rows: list[Row], gone: dict[int, int], t_ns: int) -> int:
    last: dict[int, int] = {}
    for row in sorted(rows, key=lambda row: row["t_ns"]):
        if row["t_ns"] <= t_ns:
            last[row["process"]] = row["rss_bytes"]
    return sum(size for process, size in last.items() if gone.get(process, 10**18) > t_ns)


@given(full_traces(), selections)
def test_the_resident_set_equals_a_second_computation(builder: TraceBuilder, selection: Selection) -> None:
    def found(path: Path) -> int | None:
        with open_traces([path], selection) as opened:
            return peak_rss(opened.connection, selection).get(1)

    assert with_file(builder, found) == oracle_peak_rss(builder, selection)


@given(full_traces(), selections)
def test_marks_collections_and_counts_equal_a_second_computation(builder: TraceBuilder, selection: Selection) -> None:
    def found(path: Path) -> tuple[list[Any], ...]:
        with open_traces([path], selection) as opened:
            names = ("mark_list", "collection_marks", "collection_list", "event_counts")
            return tuple(queries.rows(opened.connection, name) for name in names)

    marks, collections, listed, counted = with_file(builder, found)
    from_ns, to_ns = selection.from_ns or 0, selection.to_ns or 10**18
    expected = [
        row["text"] for row in sorted(builder.rows.get("mark", []), key=lambda row: row["t_ns"])
        if max(row["t_ns"], row["end_ns"] or 0) >= from_ns and row["t_ns"] < to_ns
    ]  # fmt: skip
    assert [row["text"] for row in marks] == expected
    window = Selection(from_s=selection.from_s, to_s=selection.to_s, processes=selection.processes)
    each = [
        (row["t_ns"], generation, row[f"generation{generation}"])
        for row in within(builder.rows.get("gc", []), window) for generation in range(3) if row[f"generation{generation}"]
    ]  # fmt: skip
    assert [(row["t_s"], row["generation"], row["collections"]) for row in collections] == [
        (t_ns / 1e9, generation, number) for t_ns, generation, number in sorted(each)
    ]
    assert sorted((row["t_ns"], row["generation"], row["collections"]) for row in listed) == sorted(each)
    counts = {row["kind"]: row["records"] for row in counted}
    assert {kind: counts.get(kind, 0) for kind in builder.rows} == {k: len(rows) for k, rows in builder.rows.items()}


def oracle_values(builder: TraceBuilder, selection: Selection, metric: str) -> dict[Any, float]:
    """The values of a metric in seconds or bytes by process, thread and Python frames, outermost first."""
    found = defaultdict[Any, float](float)
    if metric == "cpu":
        scales = oracle_scales(builder)
        for charge in within_window(oracle_charges(builder), selection):
            tick = charge.tick
            scale = charge.part * scales.get(tick["thread"], 1) / 1e9
            found[_key(builder, tick, charge.own_stack)] += (tick["user_ns"] + tick["system_ns"]) * scale
    elif metric == "wait":
        for row, wait_s in oracle_waits(builder, selection):
            found[_key(builder, row, row["stack"])] += wait_s
    elif metric == "copies":
        for row in within(builder.rows.get("copy", []), selection):
            found[_key(builder, row, row["stack"])] += row["bytes"]
    return {key: value for key, value in found.items() if value}


def _key(builder: TraceBuilder, row: Row, stack: int | None) -> Any:
    frames = [(function, file, first, line or first) for file, function, first, line in frames_of(builder, stack)]
    return row["process"], row["thread"], tuple(reversed(frames))


@given(full_traces(), selections, st.booleans())
def test_exported_values_equal_a_second_computation(builder: TraceBuilder, selection: Selection, by_time: bool) -> None:
    profile = with_file(builder, lambda path: read_profile([path], selection, by_time=by_time))
    for metric in ("cpu", "wait", "copies"):
        found = defaultdict[Any, int](int)
        for each in profile.values[metric]:
            python = tuple(frame[:4] for frame in profile.stacks.of(each.stack) if frame.kind == "python")
            found[each.process, each.thread, python] += each.value
        expected = oracle_values(builder, selection, metric)
        slack = 0.5 * (len(profile.values[metric]) + 1)  # each value is rounded to a nanosecond or a byte
        for key in found.keys() | expected.keys():
            assert found[key] == pytest.approx(expected.get(key, 0) * METRICS[metric].scale, abs=slack)


@given(full_traces(), selections)
def test_totals_of_exports_are_those_of_the_report(builder: TraceBuilder, selection: Selection) -> None:
    def found(path: Path) -> tuple[Any, ...]:
        speedscope = FORMATS["speedscope"].make(Asked([path], selection)).contents
        return build_report([path], selection), read_profile([path], selection), json.loads(speedscope)

    report, profile, speedscope = with_file(builder, found)
    totals, lines = report.totals, [*report.lines, report.unattributed]
    expected = {
        "cpu": totals.cpu_s * 1e9,
        "wait": totals.wait_s * 1e9,
        "allocated": totals.alloc_bytes,
        "live-at-peak": sum(line.live_at_peak_bytes or 0 for line in lines),
        "copies": totals.copy_bytes,
    }
    assert set(profile.values) == set(expected)
    shown = {each["name"]: sum(each["weights"]) for each in speedscope["profiles"]}
    for metric, total in expected.items():
        slack = 1 + (len(lines) if metric == "live-at-peak" else 0)  # the report rounds each line
        assert sum(each.value for each in profile.values[metric]) == pytest.approx(total, abs=slack)
        assert shown.get(METRICS[metric].title, 0) == pytest.approx(total, abs=slack)


@given(st.lists(full_traces(), min_size=2, max_size=4), selections)
def test_traces_reduced_together_are_those_reduced_one_by_one(
    builders: list[TraceBuilder], selection: Selection
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        paths = [builder.write(Path(folder) / f"{n}.parquet") for n, builder in enumerate(builders)]
        together = to_json(build_report(paths, selection))
        patch.setattr(reduction, "batches_of", lambda paths, cores: ([[path] for path in paths], cores))
        assert_alike(together, to_json(build_report(paths, selection)))


def answers(path: Path, selection: Selection) -> dict[str, Any]:
    """What reports, pages and exports say about a trace."""
    found: dict[str, Any] = {
        "report": to_json(build_report([path], selection)),
        "page": build_document([path], selection),
        "libraries": to_json(build_libraries([path], selection, {}, None, None)),
        "timeline": to_json(build_timeline([path], selection, {})),
    }
    for name in ("speedscope", "scalene"):
        found[name] = json.loads(FORMATS[name].make(Asked([path], selection)).contents)
    return found


@given(full_traces(), selections)
def test_all_answers_are_the_same_with_all_views_as_tables(builder: TraceBuilder, selection: Selection) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = builder.write(Path(folder) / "t.parquet")
        expected = answers(path, selection)
        stored: list[str] = []
        store_all = Unmade.store_all
        patch.setattr(Unmade, "store_all", lambda self: (stored.append("all"), store_all(self)))
        patch.setattr(views, "MOST_STORED", 20_000)
        assert_alike(answers(path, selection), expected)
        assert len(stored) >= len(expected)


def assert_alike(found: Any, expected: Any, at: str = "") -> None:
    """Equal, but for the last digits of sums of floats."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), at
        for key in expected:
            assert_alike(found[key], expected[key], f"{at}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), at
        for index, each in enumerate(expected):
            assert_alike(found[index], each, f"{at}[{index}]")
    else:
        is_float = isinstance(expected, float)
        assert found == (pytest.approx(expected, rel=1e-9, abs=1e-9) if is_float else expected), at
