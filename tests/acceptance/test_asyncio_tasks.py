"""Time that asyncio tasks are suspended: on its await line and within 3 % of the stopwatch, with the names of the tasks, and
nothing that the program could notice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter, interpreters
from tests.support.paths import PATIENCE_S
from tests.support.recording import (
    Json,
    bare,
    environment,
    figure,
    hold_median,
    line_of,
    lines_of,
    losses,
    record,
    record_command,
    report,
    rows,
    run,
    target,
    tool,
)
from tests.support.target_environments import environment_python

WITHIN_PERCENT = 3
#: The environments with uvloop.
SERVERS = [Interpreter(environment_python(each, "servers"), each.version) for each in interpreters()]
#: The target's tasks: name, or its pattern, and outermost coroutine, by the line that they wait on.
WHO = {
    "sleep": ("sleeper", "by_sleep"),
    "queue": ("reader-*", "from_queue"),
    "lock": ("für das Schloß", "for_lock"),
    "nested": ("nested", "outermost"),
    "awaitable": ("object", "through_object"),
    "generator": ("generator", "through_generator"),
    "async-generator": ("async generator", "through_async_generator"),
    "gathered": ("Task-*", "gathered"),
    "gather": ("Task-*", "gather"),
}


def suspended(found: Json, mark: str) -> float:
    """Suspended time on a marked line."""
    suspended_s: float = lines_of(found, target("tasks"))[line_of("tasks", mark)]["suspended_s"]
    return suspended_s


def error_percent(what: str, python: Interpreter, found_s: float, true_s: float, within: float) -> float:
    """The error, which is printed too."""
    error = 100 * (found_s / true_s - 1)
    figure(f"suspended time, {what}", python, error, within, "percent")
    return error


@pytest.mark.measures
def test_every_way_of_awaiting_is_on_its_line_under_its_name(python: Interpreter, tmp_path: Path) -> None:
    def measure(trace: Path) -> dict[str, float]:
        done = record(trace, [target("tasks"), "kinds", "4"], python)
        found, errors = report(trace), {}
        for mark, true_s in done.facts.items():
            errors[mark] = error_percent(mark, python, suspended(found, mark), true_s, WITHIN_PERCENT)
        told = {row["line"]: row for row in report(trace, command="tasks")["tasks"]}
        for mark, (name, coroutine) in WHO.items():
            row = told[line_of("tasks", mark)]
            assert (row["name"], row["coroutine"].rpartition(".")[2]) == (name, coroutine)
            assert row["tasks"] == (2 if mark in ("queue", "gathered") else 1)
        return errors

    hold_median(measure, tmp_path, WITHIN_PERCENT)


@pytest.mark.measures
def test_no_task_is_anothers(any_python: Interpreter, tmp_path: Path) -> None:
    """By the raw rows: a task has one name, and its rows do not overlap."""
    record(tmp_path / "t.parquet", [target("tasks"), "kinds", "2"], any_python)
    found = rows(tmp_path / "t.parquet", "task")
    names = {(row["task"], row["name"]) for row in found}
    assert len({task for task, _ in names}) == len(names) == 12, "eight kinds, gather and its two, and the main task"
    for task, _ in names:
        spans = sorted((row["t_ns"], row["t_ns"] + row["span_ns"]) for row in found if row["task"] == task)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    threads = {row["thread"] for row in rows(tmp_path / "t.parquet", "thread")}
    assert {row["thread"] for row in found} <= threads


@pytest.mark.measures
def test_twenty_tasks_between_two_lines_beside_one_that_computes(python: Interpreter, tmp_path: Path) -> None:
    """The loop hardly ever rests: looks divide the time, and the error is that of sampling."""

    def measure(trace: Path) -> dict[str, float]:
        done = record(trace, [target("tasks"), "busy", "6"], python)
        found = report(trace)
        return {
            mark: error_percent(f"{mark} of a busy loop", python, suspended(found, mark), done.facts[mark], 10)
            for mark in ("step", "turn")
        }

    hold_median(measure, tmp_path, 10)


@pytest.mark.measures
def test_a_loop_that_never_waits_has_suspended_tasks_all_the_same(python: Interpreter, tmp_path: Path) -> None:
    def measure(trace: Path) -> dict[str, float]:
        done = record(trace, [target("tasks"), "hog", "3"], python)
        found_s = suspended(report(trace), "sleep")
        return {"sleep": error_percent("beside a loop that never waits", python, found_s, done.facts["sleep"], 5)}

    hold_median(measure, tmp_path, 5)


@pytest.mark.measures
def test_tasks_that_live_for_ten_milliseconds_are_observed_in_proportion(
    any_python: Interpreter, tmp_path: Path
) -> None:
    def measure(trace: Path) -> dict[str, float]:
        done = record(trace, [target("tasks"), "short", "6"], any_python)
        return {
            "step": error_percent("10 ms tasks", any_python, suspended(report(trace), "step"), done.facts["step"], 10)
        }

    hold_median(measure, tmp_path, 10)


@pytest.mark.measures
def test_ten_thousand_tasks_are_known_from_one_in_several(any_python: Interpreter, tmp_path: Path) -> None:
    """A loss says so. Looks are half a second apart and more: that is what the time of those that begin and end at once is
    known to. (What it costs: benchmarks/watching.py.)"""

    def measure(trace: Path) -> dict[str, float]:
        record(trace, [target("tasks"), "many", "10"], any_python)
        assert losses(report(trace))["tasks_sampled"] == 1
        (row,) = (row for row in report(trace, command="tasks")["tasks"] if row["name"] == "one of many *")
        assert row["tasks"] == pytest.approx(10_000, rel=0.05)
        return {"many": error_percent("10,000 tasks", any_python, row["suspended_s"], 10 * 10_000, 15)}

    hold_median(measure, tmp_path, 15)


@pytest.mark.measures
@pytest.mark.parametrize("server_python", SERVERS, ids=lambda each: each.name)
def test_uvloop_runs_the_same_tasks(server_python: Interpreter, tmp_path: Path) -> None:
    def measure(trace: Path) -> dict[str, float]:
        done = record(trace, [target("tasks"), "kinds", "2", "uvloop"], server_python)
        assert done.status == 0, done.stderr
        found = report(trace)
        marks = ("sleep", "queue", "lock", "nested")
        return {
            mark: error_percent(f"{mark} under uvloop", server_python, suspended(found, mark), done.facts[mark], 5)
            for mark in marks
        }

    hold_median(measure, tmp_path, 5)


def test_tasks_are_found_behind_very_many_threads(any_python: Interpreter, tmp_path: Path) -> None:
    """From 3.14 on each thread state has a list of tasks, and that of the main thread comes last."""
    code = """
import asyncio, threading
threading.stack_size(65536)
end = threading.Event()
for _ in range(1100):
    threading.Thread(target=end.wait).start()
async def sleeper():
    await asyncio.sleep(4)
async def main():
    await asyncio.gather(*[sleeper() for _ in range(5)])
asyncio.run(main())
end.set()
"""
    record(tmp_path / "t.parquet", ["-c", code], any_python)
    found = rows(tmp_path / "t.parquet", "task")
    assert len({row["task"] for row in found}) == 6 and sum(row["duration_ns"] for row in found) > 6 * 1e9
    assert "tasks_unread" not in losses(report(tmp_path / "t.parquet"))


def test_without_the_watcher_tasks_are_not_known(any_python: Interpreter, tmp_path: Path) -> None:
    record(tmp_path / "t.parquet", [target("tasks"), "kinds", "0.3"], any_python, ["--no-wait"])
    found = report(tmp_path / "t.parquet")
    assert found["traces"][0]["events"]["task"] is None and rows(tmp_path / "t.parquet", "task") == []
    for row in (found["totals"], found["unattributed"], *found["lines"]):
        assert row["suspended_s"] is None


def test_a_program_without_asyncio_has_no_tasks(any_python: Interpreter, tmp_path: Path) -> None:
    record(tmp_path / "t.parquet", [target("waits"), "four", "0.3"], any_python)
    found = report(tmp_path / "t.parquet")
    assert found["traces"][0]["events"]["task"] == 0 and found["totals"]["suspended_s"] == 0


def test_the_program_computes_and_prints_what_it_does_alone(python: Interpreter, tmp_path: Path) -> None:
    alone = bare([target("aio")], python)
    watched = record(tmp_path / "t.parquet", [target("aio")], python)
    assert (watched.stdout, watched.stderr, watched.status) == (alone.stdout, alone.stderr, alone.status)


@pytest.mark.measures
def test_a_forked_child_has_none_of_its_parents_tasks(any_python: Interpreter, tmp_path: Path) -> None:
    """It has copies of them in its memory, and no loop that runs them."""
    code = """
import asyncio, os, time
async def sleeper():
    await asyncio.sleep(1.5)
async def main():
    task = asyncio.create_task(sleeper(), name="parents")
    await asyncio.sleep(0.2)
    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
    await task
    os.wait()
asyncio.run(main())
"""
    record(tmp_path / "t.parquet", ["-c", code], any_python)
    found = rows(tmp_path / "t.parquet", "task")
    parent = min(row["process"] for row in rows(tmp_path / "t.parquet", "process"))
    assert {row["process"] for row in found} == {parent}
    assert 1.35e9 < sum(row["duration_ns"] for row in found if row["name"] == "parents") < 1.65e9


@pytest.mark.measures
def test_a_child_that_is_observed_with_its_parents_loop_has_no_tasks(any_python: Interpreter, tmp_path: Path) -> None:
    code = """
import os, time
def compute():
    while time.process_time() < 0.008:
        pass
os.register_at_fork(after_in_child=compute)  # before that of asyncio
import asyncio
async def main():
    task = asyncio.create_task(asyncio.sleep(1.2), name="parents")
    for _ in range(8):
        await asyncio.sleep(0.1)
        if os.fork() == 0:
            time.sleep(0.3)
            os._exit(0)
    await task
    for _ in range(8):
        os.wait()
asyncio.run(main())
"""
    record(tmp_path / "t.parquet", ["-c", code], any_python)
    processes = rows(tmp_path / "t.parquet", "process")
    assert len(processes) == 9
    found = rows(tmp_path / "t.parquet", "task")
    assert {row["process"] for row in found} == {min(row["process"] for row in processes)}


@pytest.mark.measures
def test_a_killed_recorder_leaves_most_of_the_suspensions_that_go_on(any_python: Interpreter, tmp_path: Path) -> None:
    command = record_command(tmp_path / "t.parquet", [target("tasks"), "forever", "0"], any_python)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(None), start_new_session=True)
    assert process.stdout is not None
    pid = json.loads(process.stdout.readline())["pid"]
    start = time.monotonic()
    time.sleep(3)
    process.kill()
    waited_s = time.monotonic() - start
    os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    recovered = run([*tool("scalene-record"), "--recover", tmp_path / "t.parquet.spool"])
    assert recovered.status == 0, recovered.stderr
    assert 0.8 * waited_s <= suspended(report(tmp_path / "t.parquet"), "forever") <= 1.03 * waited_s


@pytest.mark.measures
def test_a_killed_program_has_its_tasks_up_to_the_end(any_python: Interpreter, tmp_path: Path) -> None:
    command = record_command(tmp_path / "t.parquet", [target("tasks"), "forever", "0"], any_python)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(None), start_new_session=True)
    assert process.stdout is not None
    pid = json.loads(process.stdout.readline())["pid"]
    start = time.monotonic()
    time.sleep(3)
    os.kill(pid, signal.SIGKILL)
    waited_s = time.monotonic() - start
    process.communicate(timeout=PATIENCE_S)
    error = error_percent(
        "until SIGKILL", any_python, suspended(report(tmp_path / "t.parquet"), "forever"), waited_s, WITHIN_PERCENT
    )
    assert abs(error) <= WITHIN_PERCENT
