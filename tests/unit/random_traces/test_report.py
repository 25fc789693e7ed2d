"""The queries against a second computation in plain Python, on random traces."""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from scalene_trace.analyze.report.libraries import build_libraries
from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.results.report import Report
from scalene_trace.analyze.trace.selection import Selection
from tests.support.random_traces import (
    SYMBOLS,
    functions_on,
    oracle_charges,
    oracle_classes,
    oracle_footprint,
    oracle_owner,
    oracle_scales,
    selections,
    traces,
    within,
    within_window,
)
from tests.support.trace_builder import TraceBuilder


def oracle_lines(builder: TraceBuilder, selection: Selection) -> dict[Any, dict[str, float]]:
    """Figures by (file, line), None for samples without one."""
    class_of = oracle_classes(builder)
    scales = oracle_scales(builder)
    sums: dict[Any, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for charge in within_window(oracle_charges(builder), selection):
        tick = charge.tick
        row, scale = sums[oracle_owner(builder, charge.stack)], charge.part * scales.get(tick["thread"], 1) / 1e9
        row["ticks"] += charge.is_first
        row[f"{class_of(tick)}_s"] += tick["user_ns"] * scale
        row["parallel_native_s"] += tick["user_ns"] * scale * charge.is_parallel
        row["system_s"] += tick["system_ns"] * scale
        row["gc_s"] += (tick["user_ns"] + tick["system_ns"]) * scale * tick["gc"]
        row["variance"] += ((tick["user_ns"] + tick["system_ns"]) * scale) ** 2
    for sample in within(builder.rows.get("memory", []), selection):
        row = sums[oracle_owner(builder, sample["stack"])]
        row["growth_bytes"] += sample["net_bytes"]
    return sums


def oracle_cumulative(builder: TraceBuilder, selection: Selection) -> dict[Any, float]:
    """CPU time by (file, function, first line) of every function of the user's on the stack."""
    scales = oracle_scales(builder)
    sums: dict[Any, float] = defaultdict(float)
    for charge in within_window(oracle_charges(builder), selection):
        tick = charge.tick
        time_s = charge.part * (tick["user_ns"] + tick["system_ns"]) * scales.get(tick["thread"], 1) / 1e9
        for key in functions_on(builder, charge.stack):
            sums[key] += time_s
    return sums


def oracle_peak(builder: TraceBuilder) -> int:
    """Highest sum over the processes alive, looked at after each moment at which anything changed."""
    rows = (*builder.rows.get("memory", []), *builder.rows["process"])
    moments_ns = {row["t_ns"] for row in rows} | {row["end_ns"] for row in rows if row.get("end_ns") is not None}
    return max(oracle_footprint(builder, t_ns, is_gone) for t_ns in sorted(moments_ns) for is_gone in (False, True))


def built(builder: TraceBuilder, selection: Selection) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        return build_report([builder.write(Path(folder) / "t.parquet")], selection)


@given(traces(), selections)
def test_lines_and_totals_equal_a_second_computation(builder: TraceBuilder, selection: Selection) -> None:
    report, expected = built(builder, selection), oracle_lines(builder, selection)
    found = {(line.file, line.line): line for line in report.lines}
    assert set(found) == set(expected) - {None}
    parts = ("python_s", "native_s", "unclassified_s", "system_s")
    whole = sum(sums[name] for sums in expected.values() for name in parts)
    variance = sum(sums["variance"] for sums in expected.values())
    for key, sums in expected.items():
        line = report.unattributed if key is None else found[key]
        for name in (*parts, "ticks", "parallel_native_s", "gc_s", "growth_bytes"):
            assert getattr(line, name) == pytest.approx(sums[name], abs=1e-9), (key, name)
        parts_s = sum(sums[name] for name in parts)
        assert line.cpu_s == pytest.approx(parts_s, abs=1e-9), key
        error = math.hypot(math.sqrt(sums["variance"]), 1.5 * variance / whole if whole else 0)
        assert line.cpu_error_s == pytest.approx(error, abs=1e-9), key
    assert report.totals.cpu_s == pytest.approx(whole, abs=1e-9)


@given(traces(), selections)
def test_functions_equal_a_second_computation(builder: TraceBuilder, selection: Selection) -> None:
    report, expected = built(builder, selection), oracle_cumulative(builder, selection)
    found = {(each.file, each.function, each.first_line): each.cumulative_cpu_s for each in report.functions}
    for key, time_s in expected.items():
        assert found[key] == pytest.approx(time_s, abs=1e-9)
    own = sum(each.cpu_s or 0.0 for each in report.functions)
    assert own == pytest.approx(sum(line.cpu_s or 0.0 for line in report.lines), abs=1e-9)


def oracle_libraries(builder: TraceBuilder, selection: Selection) -> dict[Any, float]:
    """Native time by library and function."""
    names = {1: "libone", 3: "three/core"}
    class_of = oracle_classes(builder)
    scales, sums = oracle_scales(builder), defaultdict[Any, float](float)
    for charge in within_window(oracle_charges(builder), selection):
        tick = charge.tick
        if class_of(tick) == "native":
            module, address = tick["pc_module"], tick["pc_offset"]
            if tick["pc_class"] != "extension" and tick["extension_module"]:
                module, address = tick["extension_module"], tick["extension_offset"] - 1
            name = next((s[3] for s in SYMBOLS if s[0] == module and s[1] <= address < s[2]), None)
            time_s = charge.part * tick["user_ns"] * scales.get(tick["thread"], 1) / 1e9
            sums[names.get(module), name] += time_s
    return sums


@given(traces(), selections)
def test_libraries_equal_a_second_computation(builder: TraceBuilder, selection: Selection) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = build_libraries([builder.write(Path(folder) / "t.parquet")], selection, {}, None, None)
    assert {(row.library, row.symbol): pytest.approx(row.native_s, abs=1e-9) for row in table.rows} == oracle_libraries(
        builder, selection
    )


@given(traces())
def test_the_peak_equals_a_second_computation(builder: TraceBuilder) -> None:
    report = built(builder, Selection())
    assert report.totals.peak_bytes == oracle_peak(builder)
    assert report.timeline is not None
    assert max(value for _, value in report.timeline) == report.totals.peak_bytes
