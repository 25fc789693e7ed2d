"""Allocations and copies against a second computation in plain Python, on random traces."""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalene_trace.analyze.report.memory import MemoryQuery, build_memory
from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.results.memory import MemoryReport
from scalene_trace.analyze.results.report import Report
from scalene_trace.analyze.trace.selection import Selection
from tests.support.random_allocations import ALLOCATORS, described
from tests.support.random_traces import frames, functions_on, oracle_footprint, oracle_owner, selections, within
from tests.support.trace_builder import SECOND, Row, TraceBuilder

SIZES = (1, 24, 511, 4_096, 65_536, 1_999_993, 70_000_001)

sizes = st.sampled_from(SIZES)
moments = st.integers(0, 9 * SECOND)


@st.composite
def traces(draw: st.DrawFn) -> TraceBuilder:
    """Up to three processes with allocations, copies and what their counters told; all exact, or sampled."""
    builder = TraceBuilder()
    stacks = [builder.stack(*each) for each in draw(st.lists(st.lists(frames, min_size=1, max_size=4), min_size=1))]
    some_stack = st.sampled_from([*stacks, None])
    intervals = st.just(1) if draw(st.booleans()) else st.sampled_from((1, 512, 65_536, 2**30, None))
    builder.settings |= draw(st.sampled_from(({}, {"alloc_interval": "1"}, {"alloc_interval": "auto"})))
    for index in range(draw(st.integers(1, 3))):
        start_ns = draw(moments) if index else 0
        end_ns = draw(st.none() | st.integers(9 * SECOND, 12 * SECOND))
        process = builder.process(start_ns, end_ns=end_ns, end_footprint_bytes=draw(st.none() | sizes))
        for thread in (builder.thread(process, cpu_ns=0) for _ in range(2)):
            for _ in range(draw(st.integers(0, 12))):
                _allocation(draw, builder, process, thread, some_stack, intervals, start_ns)
            for t_ns in draw(st.lists(moments, max_size=2)):
                builder.copy(t_ns, process, thread, draw(some_stack), draw(sizes))
        for t_ns in sorted(draw(st.lists(st.integers(start_ns, 9 * SECOND), max_size=4, unique=True))):
            if draw(st.booleans()):
                builder.heap(t_ns, process, draw(sizes))
            else:
                builder.memory(t_ns, process, 1, None, 0, draw(sizes))
    return builder


def _allocation(
    draw: st.DrawFn,
    builder: TraceBuilder,
    process: int,
    thread: int,
    some_stack: st.SearchStrategy[int | None],
    intervals: st.SearchStrategy[int | None],
    start_ns: int,
) -> None:
    size, interval = draw(sizes), draw(intervals)
    allocator, is_python = draw(st.sampled_from(ALLOCATORS))
    columns: Row = {"interval_bytes": interval, "allocator": allocator, "python": is_python}
    columns["usable_bytes"] = (size + 15) // 16 * 16
    columns["block_bytes"] = draw(st.sampled_from((None, None, 3 * columns["usable_bytes"])))
    if interval not in (1, None):
        columns["life_interval_bytes"] = draw(st.sampled_from((interval, 2 * interval, None)))
    life = draw(st.none() | st.integers(1, 8 * SECOND))
    columns |= {"at_exit": life is not None and draw(st.booleans()), "survived": draw(st.none() | st.integers(0, 2))}
    columns |= {"free_stack": draw(some_stack) if life else None, "type": draw(st.sampled_from((None, "dict", "list")))}
    builder.alloc(draw(st.integers(start_ns, 9 * SECOND)), process, thread, draw(some_stack), size, life, **columns)


# The second computation


def last_end(builder: TraceBuilder, selection: Selection) -> int | None:
    ends = [row["end_ns"] for row in _processes(builder, selection) if row["end_ns"] is not None]
    return max(ends, default=None)


def _processes(builder: TraceBuilder, selection: Selection) -> list[Row]:
    return [r for r in builder.rows["process"] if not selection.processes or r["process"] in selection.processes]


def oracle_exact_levels(builder: TraceBuilder, selection: Selection) -> Callable[[int], int]:
    """The exact footprint of the processes asked for, at any moment."""
    processes = {row["process"]: row["end_ns"] for row in _processes(builder, selection)}
    last = last_end(builder, selection)
    lives = []
    for alloc in map(described, builder.rows.get("alloc", [])):
        if alloc["process"] in processes:
            gone = processes[alloc["process"]]
            end = alloc["end_ns"] if alloc["end_ns"] is not None else gone if gone != last else None
            lives.append((alloc["t_ns"], end, alloc["usable_bytes"]))
    return lambda t_ns: sum(size for start, end, size in lives if start <= t_ns and (end is None or end > t_ns))


def is_exact(builder: TraceBuilder) -> bool:
    allocs = builder.rows.get("alloc", [])
    is_set = builder.settings.get("alloc_interval", "1") == "1"
    return is_set and bool(allocs) and all(alloc["interval_bytes"] == 1 for alloc in allocs)


def oracle_moment(builder: TraceBuilder, selection: Selection) -> tuple[int, int] | None:
    """(footprint, when) of the first highest moment within the window."""
    start, end = selection.from_ns or 0, selection.to_ns or 10**18
    if is_exact(builder):
        level = oracle_exact_levels(builder, selection)
        ends = (alloc["end_ns"] for alloc in map(described, builder.rows["alloc"]) if alloc["end_ns"] is not None)
        times = {alloc["t_ns"] for alloc in builder.rows["alloc"]} | set(ends)
    else:
        level = lambda t_ns: oracle_footprint(builder, t_ns, selection=selection)  # noqa: E731
        told = (*builder.rows.get("memory", []), *builder.rows.get("heap", []), *builder.rows["process"])
        times = {row["t_ns"] for row in told}
    times |= {row["end_ns"] for row in builder.rows["process"] if row["end_ns"] is not None} | {start}
    found = [(level(t_ns), -t_ns) for t_ns in times if start <= t_ns < end]
    footprint, before = max(found, default=(0, 0))
    return (footprint, -before) if footprint > 0 else None


def oracle_base_interval(builder: TraceBuilder) -> int:
    """The interval for what has no sample: of traces without base intervals, the coarsest one of their samples."""
    intervals = [alloc["interval_bytes"] for alloc in builder.rows.get("alloc", []) if alloc["interval_bytes"]]
    asked = builder.settings.get("alloc_interval", "0")
    return max(intervals, default=262_144 if asked == "auto" else int(asked))


def is_at_peak(alloc: Row, builder: TraceBuilder, moment: int | None) -> bool:
    process = builder.rows["process"][alloc["process"] - 1]
    is_there = process["end_ns"] is None or process["end_ns"] >= (moment or 0)
    has_begun = moment is not None and process["t_ns"] <= moment and alloc["t_ns"] <= moment
    return has_begun and is_there and (alloc["end_ns"] is None or alloc["end_ns"] > (moment or 0))


def oracle_figures(allocs: Iterable[Row], builder: TraceBuilder, selection: Selection) -> dict[str, float]:
    """Sums over these allocations."""
    sums: dict[str, float] = defaultdict(float)
    peak = oracle_moment(builder, selection)
    for alloc in allocs:
        size, parts, count, live = alloc["size_bytes"], alloc["parts"], alloc["weight"], alloc["live"]
        sums["samples"] += 1
        if count is not None:
            sums["bytes"] += count * size
            sums["count"] += count / parts
            sums["variance"] += count * (count - 1) * size * size * parts
        if live is not None:
            sums["peak"] += live * size * is_at_peak(alloc, builder, peak and peak[1])
            sums["end"] += live * size * (alloc["end_ns"] is None)
    return sums


def built(builder: TraceBuilder, selection: Selection) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        return build_report([builder.write(Path(folder) / "t.parquet")], selection)


def memory_of(builder: TraceBuilder, selection: Selection, asked: MemoryQuery) -> MemoryReport:
    with tempfile.TemporaryDirectory() as folder:
        return build_memory([builder.write(Path(folder) / "t.parquet")], selection, asked, {})


def by_owner(builder: TraceBuilder, selection: Selection) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = defaultdict(list)
    for alloc in map(described, within(builder.rows.get("alloc", []), selection)):
        groups[oracle_owner(builder, alloc["stack"])].append(alloc)
    return groups


@given(traces(), selections)
def test_lines_equal_a_second_computation(builder: TraceBuilder, selection: Selection) -> None:
    builder.settings["features"] = '["memory", "alloc", "copy"]'
    report = built(builder, selection)
    peak, groups = oracle_moment(builder, selection), by_owner(builder, selection)
    assert report.totals.peak_bytes == (peak[0] if peak else 0)
    found: dict[Any, Any] = {(line.file, line.line): line for line in report.lines} | {None: report.unattributed}
    base = oracle_base_interval(builder)
    for key, line in found.items():
        sums = oracle_figures(groups.get(key, []), builder, selection)
        assert line.alloc_bytes == pytest.approx(sums["bytes"], abs=0.51, rel=1e-9), key
        seen = [each["interval_bytes"] or 0 for each in groups.get(key, [])]
        coarsest = max([base, *seen])
        assert line.alloc_unseen_bytes == (3 * coarsest if coarsest > 1 else 0), key
        error = math.hypot(math.sqrt(sums["variance"]), line.alloc_unseen_bytes / 2)
        assert line.alloc_error_bytes == pytest.approx(error, abs=0.51, rel=1e-6), key
        assert line.live_at_end_bytes == pytest.approx(sums["end"], abs=0.51, rel=1e-9), key
        python = sum(
            each["weight"] * each["size_bytes"] for each in groups.get(key, []) if each["weight"] and each["python"]
        )
        fraction = python / sums["bytes"] if sums["bytes"] else None
        assert line.python_alloc_fraction == pytest.approx(fraction, abs=1e-9), key
        if peak is not None:
            assert line.live_at_peak_bytes == pytest.approx(sums["peak"], abs=0.51, rel=1e-9), key
        copies = within(builder.rows.get("copy", []), selection)
        assert line.copy_bytes == sum(row["bytes"] for row in copies if oracle_owner(builder, row["stack"]) == key)
    assert set(groups) - {None} <= set(found)


@given(traces(), selections)
def test_functions_with_callees_equal_a_second_computation(builder: TraceBuilder, selection: Selection) -> None:
    builder.settings["features"] = '["memory", "alloc", "copy"]'
    report = built(builder, selection)
    peak, groups = oracle_moment(builder, selection), defaultdict[Any, list[Row]](list)
    for alloc in map(described, within(builder.rows.get("alloc", []), selection)):
        for key in functions_on(builder, alloc["stack"]):
            groups[key].append(alloc)
    found = {(each.file, each.function, each.first_line): each for each in report.functions}
    assert set(groups) <= set(found)
    for key, each in found.items():
        sums = oracle_figures(groups.get(key, []), builder, selection)
        assert each.cumulative_alloc_bytes == pytest.approx(sums["bytes"], abs=0.51, rel=1e-9), key
        error = math.hypot(math.sqrt(sums["variance"]), (each.alloc_unseen_bytes or 0) / 2)
        assert each.cumulative_alloc_error_bytes == pytest.approx(error, abs=0.51, rel=1e-6), key
        assert each.cumulative_live_at_end_bytes == pytest.approx(sums["end"], abs=0.51, rel=1e-9), key
        if peak is not None:
            assert each.cumulative_live_at_peak_bytes == pytest.approx(sums["peak"], abs=0.51, rel=1e-9), key


def oracle_is_temporary(alloc: Row, builder: TraceBuilder, asked: MemoryQuery) -> bool:
    if alloc["end_ns"] is None:
        return False
    owner = oracle_owner(builder, alloc["stack"])
    is_same_line = owner is not None and owner == oracle_owner(builder, alloc["free_stack"])
    is_short = asked.temporary_s is not None and alloc["end_ns"] - alloc["t_ns"] <= asked.temporary_s * 1e9
    if asked.temporary_allocations is None:
        return is_same_line or is_short
    others = sum(
        each["weight"] / each["parts"]
        for each in map(described, builder.rows["alloc"])
        if each["process"] == alloc["process"] and alloc["t_ns"] < each["t_ns"] < alloc["end_ns"] and each["weight"]
    )
    return is_same_line or is_short or others <= asked.temporary_allocations + 1e-6


queries = st.builds(
    MemoryQuery,
    by=st.sampled_from(("line", "type", "allocator")),
    temporary_s=st.sampled_from((None, 0.5, 3)),
    temporary_allocations=st.sampled_from((None, 0, 2)),
)


@given(traces(), selections, queries)
def test_rows_of_memory_equal_a_second_computation(
    builder: TraceBuilder, selection: Selection, asked: MemoryQuery
) -> None:
    report = memory_of(builder, selection, asked)
    rows = [alloc for group in by_owner(builder, selection).values() for alloc in group]
    groups: dict[Any, list[Row]] = defaultdict(list)
    for alloc in rows:
        owner = oracle_owner(builder, alloc["stack"]) or (None, None)
        names = {"line": owner, "type": (alloc["type"],), "allocator": (alloc["allocator"], alloc["python"])}
        groups[names[asked.by]].append(alloc)
    outside = groups.pop((None, None), []) if asked.by == "line" else []
    assert report.unattributed.samples == len(outside)
    assert (report.totals.samples, len(report.memory)) == (len(rows), len(groups))
    for row in report.memory:
        is_python = row.family in ("pools", "python", "frames", "arenas")
        names = {"line": (row.file, row.line), "type": (row.type,), "allocator": (row.allocator, is_python)}
        group = groups[names[asked.by]]
        sums = oracle_figures(group, builder, selection)
        assert row.samples == sums["samples"]
        assert row.alloc_bytes == pytest.approx(sums["bytes"], abs=0.51, rel=1e-9)
        assert row.allocations == pytest.approx(sums["count"], abs=0.51, rel=1e-9)
        assert row.live_at_end_bytes == pytest.approx(sums["end"], abs=0.51, rel=1e-9)
        temporary = [each for each in group if each["live"] and oracle_is_temporary(each, builder, asked)]
        expected = sum(each["live"] * each["size_bytes"] for each in temporary)
        assert row.temporary_bytes == pytest.approx(expected, abs=0.51, rel=1e-9)
        _check_lives(row, group)


def _check_lives(row: Any, group: list[Row]) -> None:
    followed = [each for each in group if each["live"] is not None]
    freed = [each for each in followed if each["end_ns"] is not None]
    whole = sum(each["live"] / each["parts"] for each in freed)
    lifetimes_s = sum(each["live"] / each["parts"] * (each["end_ns"] - each["t_ns"]) for each in freed) / 1e9
    assert row.mean_lifetime_s == (pytest.approx(lifetimes_s / whole) if whole else None)
    known = [each for each in group if each["survived"] is not None]
    counts = [each for each in known if each["live"] is not None]
    young = sum(each["live"] / each["parts"] for each in counts if each["survived"] == 0 and each["end_ns"] is not None)
    old = sum(each["live"] / each["parts"] for each in counts if each["survived"])
    if counts:
        assert (row.died_young, row.survived) == (pytest.approx(young, abs=0.51), pytest.approx(old, abs=0.51))
    elif not known:
        assert (row.died_young, row.survived) == (None, None)
