"""GPU figures of tiny traces, worked out by hand; how they are shown, compared and drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalene_trace.analyze.exports.export import FORMATS, Asked
from scalene_trace.analyze.trace.selection import Selection
from tests.support.gpu_traces import APP, gpu_trace, used
from tests.support.recording import Json, analyze, report
from tests.support.trace_builder import MS, SECOND


def by_line(found: Json) -> dict[int, Json]:
    return {row["line"]: row for row in found["lines"]}


def test_the_line_that_waits_gets_the_time_whatever_another_thread_does(tmp_path: Path) -> None:
    lines = by_line(found := report(gpu_trace().write(tmp_path / "t.parquet")))
    assert [lines[line]["gpu_s"] for line in (10, 20, 31)] == pytest.approx([1, 0, 0])
    assert [lines[line]["gpu_percent"] for line in (10, 20, 31)] == pytest.approx([100, 0, 0])
    assert [lines[line]["gpu_peak_bytes"] for line in (10, 20, 31)] == [300_000_007, None, None]
    assert found["totals"]["gpu_s"] == pytest.approx(1) and found["totals"]["gpu_peak_bytes"] == 300_000_007
    assert found["traces"][0]["events"]["gpu"] == 51
    functions = {row["function"]: row["gpu_s"] for row in found["functions"]}
    assert functions == {"train": pytest.approx(1), "load": 0, "work": 0}


def test_a_call_that_waits_for_the_device_comes_before_all_else(tmp_path: Path) -> None:
    """Line 31 synchronizes from 2.25 s to 2.75 s, while line 10 waits; two thousand short calls on it cover nothing."""
    builder = gpu_trace()
    stack = builder.stack((APP, "work", 30, 31))
    call = {"process": 1, "thread": 2, "stack": stack, "calls": 1}
    builder.add("device_sync", t_ns=2250 * MS, **call, duration_ns=500 * MS, span_ns=500 * MS)
    lines = by_line(report(builder.write(tmp_path / "t.parquet")))
    assert [lines[line]["gpu_s"] for line in (10, 31)] == pytest.approx([0, 1.0])
    builder.rows["device_sync"][0] |= {"duration_ns": MS, "calls": 2000}
    builder.rows["device_sync"].append(builder.rows["device_sync"][0] | {"thread": 1, "t_ns": 9 * SECOND})
    lines = by_line(report(builder.write(tmp_path / "u.parquet")))
    assert [lines[line]["gpu_s"] for line in (10, 31)] == pytest.approx([0.5, 0.5]), "both threads use CUDA"


def test_a_time_window_has_the_moments_inside(tmp_path: Path) -> None:
    """From 2.5 s to 3.5 s, half of the busy second."""
    trace = gpu_trace().write(tmp_path / "t.parquet")
    found = report(trace, "--from", "2.5", "--to", "3.5")
    assert found["totals"]["gpu_s"] == pytest.approx(0.5) and by_line(found)[10]["gpu_s"] == pytest.approx(0.5)
    assert report(trace, "--thread", "2")["totals"]["gpu_s"] == 0


def test_an_edge_of_an_average_lies_where_the_device_was_busy(tmp_path: Path) -> None:
    """Busy from 2 s to 2.9 s: of the interval from 2.8 s to 3 s its first half, at which line 10 still waited."""
    builder = gpu_trace(busy_ms=900)
    builder.rows["wait"][0] |= {"duration_ns": 900 * MS, "span_ns": 900 * MS}
    builder.rows["wait"][1] |= {"t_ns": 2900 * MS, "duration_ns": 1100 * MS, "span_ns": 1100 * MS}
    lines = by_line(report(builder.write(tmp_path / "t.parquet")))
    assert [lines[line]["gpu_s"] for line in (10, 20)] == pytest.approx([0.9, 0])


def test_a_line_shorter_than_the_average_is_marked(tmp_path: Path) -> None:
    """A wait of 100 ms in an interval of 200 ms that is half busy, between intervals that are idle."""
    builder = gpu_trace(busy_ms=0)
    stack = builder.stack((APP, "blink", 40, 41))
    builder.wait(5 * SECOND, 1, 1, stack, 100 * MS)
    builder.rows["gpu"][25]["busy_ns"] = 100 * MS
    trace = builder.write(tmp_path / "t.parquet")
    lines = by_line(report(trace))
    assert lines[41]["gpu_short"] is True and lines[10]["gpu_short"] is False
    assert lines[41]["gpu_s"] == pytest.approx(0.05), "the other half is that of the thread that computed"
    assert "~50.0" in analyze(trace).stdout.decode()


def test_what_is_not_charged_counts_nowhere(tmp_path: Path) -> None:
    builder = gpu_trace()
    used(builder, 6 * SECOND, SECOND, SECOND, scope="device", process=None, charged=False)
    assert report(builder.write(tmp_path / "t.parquet"))["totals"]["gpu_s"] == pytest.approx(1)


def test_a_device_that_is_anybodys_is_charged_to_any_process(tmp_path: Path) -> None:
    builder = gpu_trace(busy_ms=0)
    other = builder.process()
    thread = builder.thread(other, 0)
    builder.wait(7 * SECOND, other, thread, builder.stack((APP, "other", 50, 51)), SECOND)
    used(builder, 7 * SECOND, SECOND, SECOND // 2, scope="device", process=None)
    found = report(builder.write(tmp_path / "t.parquet"), "--process", str(other))
    assert by_line(found)[51]["gpu_s"] == pytest.approx(0.5)


def test_several_traces_add_up_and_keep_the_highest_peak(tmp_path: Path) -> None:
    first, second = gpu_trace().write(tmp_path / "1.parquet"), gpu_trace(busy_ms=500).write(tmp_path / "2.parquet")
    found = report(first, str(second))
    assert found["totals"]["gpu_s"] == pytest.approx(1.5) and found["totals"]["gpu_peak_bytes"] == 300_000_007
    assert by_line(found)[10]["gpu_s"] == pytest.approx(1.5)


def test_a_diff_has_gpu_time_and_its_gate(tmp_path: Path) -> None:
    before, after = gpu_trace(500).write(tmp_path / "1.parquet"), gpu_trace(1000).write(tmp_path / "2.parquet")
    found = report(after, str(before), command="diff")
    change = found["totals"]["gpu_s"]
    assert (change["before"], change["after"]) == (pytest.approx(0.5), pytest.approx(1.0))
    assert analyze("diff", "--fail-on", "gpu > 0.1s", before, after).status == 1


def test_the_report_has_columns_for_gpus_only_where_one_was_used(tmp_path: Path) -> None:
    text = analyze(gpu_trace().write(tmp_path / "t.parquet")).stdout.decode()
    assert "GPU %  GPU mem" in text and "GPU         1.00 s  10 % of the time, GPU memory 300 MB at most" in text
    unused = gpu_trace(busy_ms=0)
    unused.rows["gpu"].pop()
    trace = unused.write(tmp_path / "u.parquet")
    assert "GPU" not in analyze(trace).stdout.decode().replace("GPU time", "")
    assert (report(trace)["totals"]["gpu_s"], by_line(report(trace))[10]["gpu_peak_bytes"]) == (0, 0)


def test_the_timeline_has_a_track(tmp_path: Path) -> None:
    trace = gpu_trace().write(tmp_path / "t.parquet")
    points = report(trace, command="timeline")["gpu"]
    assert len(points) == 100 and points[25] == {
        "trace": 1, "t_s": 2.5, "gpu_percent": pytest.approx(100), "gpu_memory_bytes": 300_000_007
    }  # fmt: skip
    assert points[35]["gpu_percent"] == 0 and points[35]["gpu_memory_bytes"] is None
    text = analyze("timeline", trace).stdout.decode()
    assert "GPU busy" in text and "100 % at most" in text and "300 MB at most" in text


def exported(name: str, trace: Path) -> Json:
    found: Json = json.loads(FORMATS[name].make(Asked([trace], Selection())).contents)
    return found


def test_exports_have_gpu_memory_and_scalenes_the_share_too(tmp_path: Path) -> None:
    trace = gpu_trace().write(tmp_path / "t.parquet")
    counter = next(each for each in exported("firefox", trace)["counters"] if each["name"] == "GPU memory")
    assert counter["samples"] == {"time": [2000, 2000], "count": [0, 300_000_007], "length": 2}
    events = [each for each in exported("chrome", trace)["traceEvents"] if each["name"] == "GPU memory"]
    assert [(each["ts"], each["args"]) for each in events] == [(2e6, {"bytes": 300_000_007})]
    document = exported("scalene", trace)
    lines = {row["lineno"]: row for row in document["files"][APP]["lines"]}
    assert document["gpu"] is True and lines[10]["n_gpu_percent"] == pytest.approx(100)
    assert (
        lines[10]["n_gpu_avg_memory_mb"] == lines[10]["n_gpu_peak_memory_mb"] and lines[20]["n_gpu_avg_memory_mb"] == 0
    )
    assert lines[10]["n_gpu_peak_memory_mb"] == pytest.approx(300_000_007 / 2**20) and lines[20]["n_gpu_percent"] == 0
