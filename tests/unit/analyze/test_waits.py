"""Waiting time in the report and by thread, on traces whose figures are worked out by hand, and on random ones."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalene_trace.analyze.report.report import build_report
from scalene_trace.analyze.results.report import Waits
from scalene_trace.analyze.trace.selection import Selection
from tests.support.recording import analyze, report
from tests.support.trace_builder import MS, SECOND, TraceBuilder

APP = "/home/me/app.py"
LIBRARY = "/usr/lib/python3.12/queue.py"


def waiting_trace() -> TraceBuilder:
    """Two threads. The first waits 2 s for a queue (line 10) and 0.4 s of 0.8 s for the GIL (line 20); the second 1 s on
    disk without a stack, and 30 ms for a CPU on line 10."""
    builder = TraceBuilder()
    builder.settings["features"] = '["cpu", "wait"]'
    process = builder.process(end_ns=9 * SECOND)
    first, second = builder.thread(process, 0, end_ns=9 * SECOND), builder.thread(process, 0)
    get = builder.stack((LIBRARY, "get", 1, 5), (APP, "work", 9, 10))
    compute = builder.stack((APP, "compute", 19, 20))
    builder.wait(1 * SECOND, process, first, get, 2 * SECOND)
    builder.wait(4 * SECOND, process, first, compute, 400 * MS, span_ns=800 * MS, **{"class": "gil"})
    builder.wait(5 * SECOND, process, second, None, 1 * SECOND, **{"class": "disk"})
    builder.wait(7 * SECOND, process, second, get, 30 * MS, **{"class": "runnable"})
    return builder


def test_waits_belong_to_the_line_of_the_users_own_code(tmp_path: Path) -> None:
    found = report(waiting_trace().write(tmp_path / "t.parquet"))
    lines = {row["line"]: row for row in found["lines"]}
    assert lines[10]["wait_s"] == pytest.approx(2.03)
    assert lines[10]["waits"] == pytest.approx({"sleep_s": 2, "disk_s": 0, "runnable_s": 0.03, "gil_s": 0})
    assert lines[20]["waits"] == pytest.approx({"sleep_s": 0, "disk_s": 0, "runnable_s": 0, "gil_s": 0.4})
    assert found["unattributed"]["waits"]["disk_s"] == pytest.approx(1)
    assert found["totals"]["wait_s"] == pytest.approx(3.43)
    assert found["totals"]["waits"] == pytest.approx({"sleep_s": 2, "disk_s": 1, "runnable_s": 0.03, "gil_s": 0.4})
    assert {row["function"]: row["wait_s"] for row in found["functions"]} == pytest.approx(
        {"work": 2.03, "compute": 0.4}
    )
    assert found["traces"][0]["events"]["wait"] == 4


def test_a_window_takes_its_part_of_each_wait(tmp_path: Path) -> None:
    """From 2.5 s to 4.2 s: half a second of the queue, and a quarter of the 0.8 s that held 0.4 s for the GIL."""
    found = report(waiting_trace().write(tmp_path / "t.parquet"), "--from", "2.5", "--to", "4.2")
    assert found["totals"]["waits"] == pytest.approx({"sleep_s": 0.5, "disk_s": 0, "runnable_s": 0, "gil_s": 0.1})


def test_threads_show_what_each_waited_for(tmp_path: Path) -> None:
    trace = waiting_trace().write(tmp_path / "t.parquet")
    first, second = report(trace, command="threads")["threads"]
    assert (first["thread"], first["name"], first["tid"], first["end_s"]) == (1, "thread-1", 2001, 9)
    assert first["waits"] == pytest.approx({"sleep_s": 2, "disk_s": 0, "runnable_s": 0, "gil_s": 0.4})
    assert second["wait_s"] == pytest.approx(1.03) and second["end_s"] is None
    assert [row["thread"] for row in report(trace, "--sort", "thread", command="threads")["threads"]] == [2, 1]
    assert [row["thread"] for row in report(trace, "--thread", "2", command="threads")["threads"]] == [2]
    text = analyze("threads", trace).stdout.decode()
    assert "GIL" in text and "400 ms" in text and "thread-2" in text


def test_the_report_has_a_column_for_waits_where_there_are_any(tmp_path: Path) -> None:
    text = analyze(waiting_trace().write(tmp_path / "t.parquet")).stdout.decode()
    assert "Waiting     3.43 s  all threads: sleep 58 %, disk 29 %, runnable 1 %, GIL 12 %" in text
    assert any("2.03 s" in line and line.split()[0] == "10" for line in text.splitlines() if line.strip())


@pytest.mark.parametrize(
    ("idle_ms", "lacks_stacks", "is_said"),
    [(0, False, False), (100, False, False), (9_000, False, True), (9_000, True, True)],
)
@pytest.mark.parametrize("width", [80, 120])
def test_waits_of_threads_without_a_python_stack_stand_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int, idle_ms: int, lacks_stacks: bool, is_said: bool
) -> None:
    builder = TraceBuilder()
    if lacks_stacks:
        builder.loss("unknown_python", "error", 1, "an interpreter was recorded without Python stacks")
    process = builder.process()
    thread = builder.thread(process, 0)
    builder.tick(MS, process, thread, builder.stack(("/home/me/app.py", "f", 1, 2)))
    builder.wait(MS, process, thread, builder.stack(("/home/me/app.py", "f", 1, 3)), 3_000 * MS, **{"class": "sleep"})
    for class_name, share in (("sleep", 0.75), ("runnable", 0.25)) if idle_ms else ():
        length_ns = round(idle_ms * share) * MS
        builder.wait(MS, process, builder.thread(process, 0), None, length_ns, **{"class": class_name})
    monkeypatch.setenv("COLUMNS", str(width))
    text = analyze(builder.write(tmp_path / "t.parquet")).stdout.decode()
    said = "unknown: Python stacks could not be read" if lacks_stacks else "without Python code"
    assert (f"9.00 s of it {said}" in text) is is_said and ("of it without" in text) is (is_said and not lacks_stacks)
    shown = [
        line for line in text.splitlines() if line.startswith("Waiting") or ("of it " in line and "9.00 s" in line)
    ]
    assert shown and all(len(line) <= width for line in shown)


def test_short_waits_without_a_python_stack_are_not_mentioned(tmp_path: Path) -> None:
    """As at the end of each short program, when its stack is gone."""
    builder = TraceBuilder()
    process = builder.process()
    builder.wait(MS, process, builder.thread(process, 0), None, 4 * MS, **{"class": "runnable"})
    text = analyze(builder.write(tmp_path / "t.parquet")).stdout.decode()
    assert "Waiting       4 ms  all threads: runnable 100 %\n" in text and "of it" not in text


def test_a_trace_without_the_sampler_knows_no_waits(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.thread(builder.process(), 0)
    found = build_report([builder.write(tmp_path / "t.parquet")], Selection())
    assert found.totals.wait_s is None and found.totals.waits == Waits()
    (thread,) = report(tmp_path / "t.parquet", command="threads")["threads"]
    assert thread["wait_s"] is None and set(thread["waits"].values()) == {None}


times = st.integers(0, 9 * SECOND)
one_wait = st.tuples(
    times, times, st.integers(0, 100), st.sampled_from(("sleep", "disk", "runnable", "gil")), st.integers(0, 3)
)


@given(waits=st.lists(one_wait, max_size=12), window=st.tuples(times, times).map(sorted))
def test_waits_by_line_equal_a_second_computation(
    waits: list[tuple[int, int, int, str, int]], window: list[int]
) -> None:
    builder = TraceBuilder()
    builder.settings["features"] = '["wait"]'
    thread = builder.thread(builder.process(), 0)
    stacks = [builder.stack((APP, "f", 1, line)) for line in range(10, 13)]
    from_ns, to_ns = window[0], window[1] + 1
    expected: defaultdict[tuple[int, str], float] = defaultdict(float)
    for t_ns, span_ns, percent, kind, line in waits:
        stack, duration_ns = (stacks[line] if line < 3 else None), span_ns * percent // 100
        builder.wait(t_ns, 1, thread, stack, duration_ns, span_ns=span_ns, **{"class": kind})
        inside = max(0, min(t_ns + span_ns, to_ns) - max(t_ns, from_ns)) / span_ns if span_ns else 0
        expected[10 + line, kind] += duration_ns * inside / 1e9
    with tempfile.TemporaryDirectory() as folder:
        path = builder.write(Path(folder) / "t.parquet")
        found = build_report([path], Selection(from_s=from_ns / 1e9, to_s=to_ns / 1e9))
    for row in (*found.lines, found.unattributed):
        for kind in ("sleep", "disk", "runnable", "gil"):
            value = getattr(row.waits, f"{kind}_s")
            assert value == pytest.approx(expected[row.line or 13, kind], abs=1e-6)
    assert found.totals.wait_s == pytest.approx(sum(expected.values()), abs=1e-6)
