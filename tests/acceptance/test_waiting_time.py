"""Waiting time: each kind on its line and within 3 % of the stopwatch, and nothing that the program could notice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.paths import PATIENCE_S
from tests.support.recording import (
    Json,
    bare,
    environment,
    figure,
    hold,
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

WITHIN_PERCENT = 3
CLASSES = ("sleep_s", "disk_s", "runnable_s", "gil_s")


def wait_on(found: Json, mark: str, *classes: str) -> float:
    """Waiting time on a marked line, of these classes or of all."""
    line = lines_of(found, target("waits"))[line_of("waits", mark)]
    return sum(line["waits"][name] for name in classes) if classes else line["wait_s"]


def hold_percent(what: str, python: Interpreter, found_s: float, true_s: float) -> None:
    hold({what: error_percent(what, python, found_s, true_s)}, WITHIN_PERCENT)


def error_percent(what: str, python: Interpreter, found_s: float, true_s: float) -> float:
    """The error, which is printed too."""
    error = 100 * (found_s / true_s - 1)
    figure(f"waiting time, {what}", python, error, WITHIN_PERCENT, "percent")
    return error


@pytest.mark.measures
def test_four_ways_of_waiting_are_on_their_lines(python: Interpreter, tmp_path: Path) -> None:
    def measure(trace: Path) -> dict[str, float]:
        done = record(trace, [target("waits"), "four", "2"], python)
        found, errors = report(trace), {}
        for name, true_s in done.facts.items():
            errors[name] = error_percent(f"asleep in {name}", python, wait_on(found, name, "sleep_s"), true_s)
            assert wait_on(found, name) - wait_on(found, name, "sleep_s") <= 0.03 * true_s
        return errors

    hold_median(measure, tmp_path, WITHIN_PERCENT)


@pytest.mark.measures
def test_threads_that_hold_a_lock_in_turns(python: Interpreter, tmp_path: Path) -> None:
    def measure(trace: Path) -> dict[str, float]:
        done = record(trace, [target("waits"), "convoy", "6"], python)
        found, errors = report(trace), {}
        for mark in ("convoy-lock", "convoy-hold"):
            true_s = sum(seconds for name, seconds in done.facts.items() if name.startswith(mark))
            errors[mark] = error_percent(mark, python, wait_on(found, mark), true_s)
        return errors

    hold_median(measure, tmp_path, WITHIN_PERCENT)


@pytest.mark.measures
def test_four_threads_of_pure_python_wait_for_the_gil(python: Interpreter, tmp_path: Path) -> None:
    """The kernel says how long each thread ran, and how long it wanted to and could not; the rest was the GIL."""
    loop = range(line_of("waits", "compute-first"), line_of("waits", "compute-last") + 1)

    def measure(trace: Path) -> dict[str, float]:
        done, errors = record(trace, [target("waits"), "gil", "4"], python), {}
        threads = {row["tid"]: row for row in report(trace, command="threads")["threads"]}
        for number, (tid, watch) in enumerate(done.facts.items()):
            lines = report(trace, "--thread", str(threads[int(tid)]["thread"]))["lines"]
            found_s = sum(line["waits"]["gil_s"] for line in lines if line["line"] in loop)
            true_s = watch["wall_s"] - watch["run_s"] - watch["delay_s"]
            errors[f"thread {number}"] = error_percent("for the GIL", python, found_s, true_s)
            assert found_s <= threads[int(tid)]["waits"]["gil_s"] + 1e-6
            assert watch["wall_s"] - watch["run_s"] >= 0.7 * watch["wall_s"]
        return errors

    hold_median(measure, tmp_path, WITHIN_PERCENT)


@pytest.mark.measures
def test_calls_that_wait_take_as_long_as_bare_and_return_the_same(python: Interpreter, tmp_path: Path) -> None:
    alone = bare([target("calls_that_wait")], python).facts
    watched = record(tmp_path / "t.parquet", [target("calls_that_wait")], python).facts
    for name, call in alone.items():
        assert {**watched[name], "seconds": 0} == {**call, "seconds": 0}, name
        assert watched[name]["seconds"] == pytest.approx(call["seconds"], rel=0.1)


def test_a_program_with_one_thread_remains_one(python: Interpreter, tmp_path: Path) -> None:
    alone = bare([target("alone")], python)
    watched = record(tmp_path / "t.parquet", [target("alone")], python)
    assert (watched.stdout, watched.stderr, watched.status) == (alone.stdout, alone.stderr, alone.status)
    assert b"threads: 1\n" in watched.stdout


@pytest.mark.measures
def test_waits_go_on_across_fork_spawn_and_exec(python: Interpreter, tmp_path: Path) -> None:
    record(tmp_path / "t.parquet", [target("waits"), "family", "1"], python)
    found = report(tmp_path / "t.parquet")
    for mark, naps in {"nap": 1, "child-nap": 2, "image-nap": 1}.items():
        hold_percent(f"across processes, {mark}", python, wait_on(found, mark, "sleep_s"), naps)
    assert {row["process"] for row in rows(tmp_path / "t.parquet", "wait")} <= {
        row["process"] for row in rows(tmp_path / "t.parquet", "process")
    }


def waiting_program(trace: Path, python: Interpreter) -> tuple[subprocess.Popen[bytes], int]:
    """A recording whose program waits for good, and the program's pid."""
    command = record_command(trace, [target("waits"), "forever", "0"], python)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(None), start_new_session=True)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["pid"]


@pytest.mark.measures
def test_a_killed_program_has_its_wait_up_to_the_end(python: Interpreter, tmp_path: Path) -> None:
    process, pid = waiting_program(tmp_path / "t.parquet", python)
    start = time.monotonic()
    time.sleep(3)
    os.kill(pid, signal.SIGKILL)
    waited_s = time.monotonic() - start
    process.communicate(timeout=PATIENCE_S)
    hold_percent("until SIGKILL", python, wait_on(report(tmp_path / "t.parquet"), "forever"), waited_s)


@pytest.mark.measures
def test_a_killed_recorder_leaves_the_waits_that_go_on(python: Interpreter, tmp_path: Path) -> None:
    process, pid = waiting_program(tmp_path / "t.parquet", python)
    start = time.monotonic()
    time.sleep(3)
    process.kill()
    waited_s = time.monotonic() - start
    os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    recovered = run([*tool("scalene-record"), "--recover", tmp_path / "t.parquet.spool"])
    assert recovered.status == 0, recovered.stderr
    hold_percent("until the recorder died", python, wait_on(report(tmp_path / "t.parquet"), "forever"), waited_s)


def test_without_the_watcher_waits_are_not_known(any_python: Interpreter, tmp_path: Path) -> None:
    record(tmp_path / "t.parquet", [target("waits"), "four", "0.2"], any_python, ["--no-wait"])
    found = report(tmp_path / "t.parquet")
    assert found["traces"][0]["events"]["wait"] is None and rows(tmp_path / "t.parquet", "wait") == []
    for row in (found["totals"], found["unattributed"], *found["lines"]):
        assert row["wait_s"] is None and set(row["waits"].values()) == {None}


@pytest.mark.measures
def test_a_time_window_cuts_waits(any_python: Interpreter, tmp_path: Path) -> None:
    """By the raw rows: each row counts with the part of its span that lies inside."""
    record(tmp_path / "t.parquet", [target("waits"), "four", "2"], any_python)
    found = report(tmp_path / "t.parquet", "--from", "0.5", "--to", "1.3")
    expected_s = 0.0
    for row in rows(tmp_path / "t.parquet", "wait"):
        first_ns, last_ns = max(row["t_ns"], 500_000_000), min(row["t_ns"] + row["span_ns"], 1_300_000_000)
        expected_s += max(0, last_ns - first_ns) / max(row["span_ns"], 1) * row["duration_ns"] / 1e9
    assert found["totals"]["wait_s"] == pytest.approx(expected_s, rel=1e-6)
    assert expected_s > 2.5, "five threads wait most of 0.8 s"


@pytest.mark.measures
def test_every_second_of_a_thread_is_accounted_for(python: Interpreter, tmp_path: Path) -> None:
    """What ran and what waited add up to the life of each thread."""
    record(tmp_path / "t.parquet", [target("waits"), "convoy", "2"], python)
    found = report(tmp_path / "t.parquet", command="threads")
    exact = {row["thread"]: row["cpu_ns"] / 1e9 for row in rows(tmp_path / "t.parquet", "thread")}
    for row in found["threads"]:
        life_s = row["end_s"] - row["start_s"]
        assert row["wait_s"] == pytest.approx(sum(row["waits"][name] for name in CLASSES))
        assert exact[row["thread"]] + row["wait_s"] == pytest.approx(life_s, rel=0.03, abs=0.02)


@pytest.mark.measures
def test_the_watcher_rests_while_a_thousand_threads_do(any_python: Interpreter, tmp_path: Path) -> None:
    """1 % of one core. Their waits are known all the same."""

    def measure(trace: Path) -> dict[str, float]:
        done = record(trace, [target("idle_threads"), "1000", "10"], any_python)
        share = 100 * done.facts["watcher_s"] / done.facts["wall_s"]
        started_ms = 1000 * done.facts["started"]["watcher_s"]
        figure("CPU of the watcher for the start of 1,000 threads", any_python, started_ms, 1000, "ms")
        figure("CPU of the watcher beside 1,000 idle threads", any_python, share, 1, "percent of a core")
        line = lines_of(report(trace), target("idle_threads"))[line_of("idle_threads", "wait")]
        assert 1000 * done.facts["wall_s"] <= line["wait_s"] <= 1150 * done.facts["wall_s"], (
            "their start and end beside"
        )
        return {"share of a core, percent": share}

    hold_median(measure, tmp_path, 1)


@pytest.mark.measures
@pytest.mark.parametrize(
    ("end", "images"), [("os._exit(0)", 401), ("os.execv('/bin/true', ['true'])", 801)], ids=["exit", "exec"]
)
def test_children_that_end_at_once_are_not_a_loss(
    end: str, images: int, any_python: Interpreter, tmp_path: Path
) -> None:
    """Many are gone, or going, or another program when they are first looked at: nothing of theirs was refused."""
    code = f"""
import os
for _ in range(400):
    if os.fork() == 0:
        {end}
    os.wait()
"""
    done = record(tmp_path / "t.parquet", ["-c", code], any_python)
    assert (done.stderr, done.status) == (b"", 0)
    found = report(tmp_path / "t.parquet")
    assert found["traces"][0]["processes"] == images and "waits_off" not in losses(found)


@pytest.mark.measures
@pytest.mark.parametrize("first_s", [0, 0.3])
def test_where_processes_may_not_be_read_waits_are_off_and_said_so(
    first_s: float, any_python: Interpreter, tmp_path: Path
) -> None:
    """A process that is not dumpable may be read by the privileged alone: here, the recorder is not. A wait that was met before
    does not get the later ones."""
    code = f"import ctypes, time; time.sleep({first_s}); ctypes.CDLL(None).prctl(4, 0); time.sleep(0.5); print('done')"
    unprivileged = ["setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace"]
    command = record_command(tmp_path / "t.parquet", ["-c", code], any_python)
    done = run([*(unprivileged if os.geteuid() == 0 else []), *command], env=environment(None))
    assert (done.stdout, done.stderr, done.status) == (b"done\n", b"", 0)
    assert losses(report(tmp_path / "t.parquet"))["waits_off"] == 1
    seen_ns = sum(row["duration_ns"] for row in rows(tmp_path / "t.parquet", "wait") if row["class"] == "sleep")
    assert seen_ns < first_s * 1e9 + 450_000_000, "only what was before"
