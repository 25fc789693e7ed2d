"""``scalene-record --pid``: what is recorded of a process that was started without the recorder, and that it goes on as
before."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.observed_program import attached, observed, observed_by, until
from tests.support.recording import analyze, line_of, lines_of, losses, record_command, report, rows, run, target
from tests.support.steered_recording import control

FILE = target("observed")
#: What the program answers to its first command.
ANSWER = '{"done": "pid", "said": 0}'
BURN, DIGEST, NAP, SUSPENDED = (line_of("observed", mark) for mark in ("burn", "digest", "nap", "suspended"))


#: Its first thread ends at once, the other one burns for a second when it is told to.
FIRST_THREAD_ENDS = """
import ctypes, os, threading, time
def burn():
    input()
    end = time.thread_time() + 1
    while time.thread_time() < end:
        sum(range(1000))
    os._exit(5)
threading.Thread(target=burn).start()
ctypes.CDLL(None).pthread_exit(None)
"""
#: On a busy machine, polls come late, and samples are read late.
BUSY = {"attached_lost", "torn_stack", "waits_rare"}
THREAD = f"""
import threading, time
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
input()
print('{ANSWER}', flush=True)
input()
"""


def settings(trace: Path) -> dict[str, str]:
    return {row["name"]: row["value"] for row in rows(trace, "setting")}


def test_lines_waits_and_the_program_itself(any_python: Interpreter, tmp_path: Path) -> None:
    with observed_by(any_python) as program:
        program.tell("thread", "burn")
        before = program.tell("state")
        with attached(tmp_path / "t.parquet", program.pid) as recorder:
            program.tell("both", "keep")
            during = program.tell("state")
            done = recorder.stop()
        after = program.tell("state")
        assert program.quit() == (7, b"as ever\n")
    assert (done.status, done.stdout, done.stderr) == (0, b"", b"")
    assert before == during == after and before["tracer"] == "0"
    found = report(tmp_path / "t.parquet")
    lines = lines_of(found, FILE)
    assert found["totals"]["cpu_s"] == pytest.approx(0.8, abs=0.2)
    assert lines[DIGEST]["cpu_s"] == pytest.approx(0.4, abs=0.2)
    burnt = [row["cpu_s"] for row in found["lines"] if row["function"].endswith("burn")]
    assert sum(burnt) == pytest.approx(0.4, abs=0.2)
    assert lines[NAP]["wait_s"] >= 0.4 + 0.8  # the other thread sleeps there all the time
    assert lines[DIGEST]["native_s"] > 0.8 * lines[DIGEST]["cpu_s"]
    assert sum(row["python_s"] for row in found["lines"] if row["function"].endswith("burn")) > 0.8 * sum(burnt)
    assert set(losses(found)) <= BUSY
    (process,) = rows(tmp_path / "t.parquet", "process")
    assert process["python_version"] == any_python.full_name and process["end"] == "running"
    assert process["command"][1:] == [str(FILE)]
    assert settings(tmp_path / "t.parquet")["ended_by"] == "detach"


@pytest.mark.parametrize("way", ["docker_profile", "few_descriptors"])
def test_without_perf_events_user_time_is_unclassified(python: Interpreter, tmp_path: Path, way: str) -> None:
    """The kernel refuses events, or there are too few descriptors for one of each thread."""
    restricted = [sys.executable, str(target("restrict")), way]
    with observed_by(python) as program:
        program.tell(*["thread"] * (20 if way == "few_descriptors" else 1))
        with attached(tmp_path / "t.parquet", program.pid, prefix=restricted) as recorder:
            program.tell("both")
            recorder.stop()
    found = report(tmp_path / "t.parquet")
    assert losses(found)["attached_polled"] == 1
    if way == "few_descriptors":
        engines = [row["engine"] for row in rows(tmp_path / "t.parquet", "thread")]
        assert 0 < engines.count("polled") < len(engines) == 21
        return
    assert {row["engine"] for row in rows(tmp_path / "t.parquet", "thread")} == {"polled"}
    totals = found["totals"]
    assert totals["unclassified_s"] > 0.5
    assert totals["python_s"] == pytest.approx(0, abs=1e-6) and totals["native_s"] == pytest.approx(0, abs=1e-6)
    assert "not told apart" in analyze(tmp_path / "t.parquet").stdout.decode().replace("\n ", "")


def test_threads_come_and_go(python: Interpreter, tmp_path: Path) -> None:
    with observed_by(python) as program, attached(tmp_path / "t.parquet", program.pid) as recorder:
        program.tell("short_thread", "thread")
        recorder.stop()
    main, short, lasting = sorted(rows(tmp_path / "t.parquet", "thread"), key=lambda row: row["t_ns"])
    assert short["cpu_ns"] == pytest.approx(0.5e9, abs=0.1e9) and short["end_ns"] > short["t_ns"]
    assert short["system_ns"] == pytest.approx(0.2e9, abs=0.1e9)
    assert main["end_ns"] is None and lasting["end_ns"] is None
    assert {row["engine"] for row in (main, short, lasting)} == {"perf"}


def test_children_are_followed(python: Interpreter, tmp_path: Path) -> None:
    with observed_by(python) as program, attached(tmp_path / "t.parquet", program.pid) as recorder:
        assert program.tell("fork") == 3
        assert program.tell("spawn") == 0
        recorder.stop()
    found = report(tmp_path / "t.parquet")
    root, forked, *spawned = sorted(rows(tmp_path / "t.parquet", "process"), key=lambda row: row["t_ns"])
    assert (root["cause"], forked["cause"]) == ("root", "fork") and forked["parent"] == root["process"]
    assert (forked["exit_status"], forked["end"]) == (3, "exit")
    by_process = {row["process"]: row for row in rows(tmp_path / "t.parquet", "thread")}
    assert by_process[forked["process"]]["cpu_ns"] == pytest.approx(0.6e9, abs=0.25e9)
    last = spawned[-1]  # the child may have been seen before it called exec
    assert last["python_version"] == python.full_name and last["command"][1] == "-c"
    assert sum(row["cpu_s"] for row in found["lines"] if row["file"].startswith("<string>")) > 0.2
    assert last["parent_pid"] == program.pid


def test_children_can_be_left_out(python: Interpreter, tmp_path: Path) -> None:
    with observed_by(python) as program, attached(tmp_path / "t.parquet", program.pid, "--no-children") as recorder:
        program.tell("fork")
        recorder.stop()
    assert len(rows(tmp_path / "t.parquet", "process")) == 1


def test_children_that_were_there_before_are_recorded(python: Interpreter, tmp_path: Path) -> None:
    with observed_by(python) as program:
        program.begin("long_fork")
        until(lambda: Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text())
        with attached(tmp_path / "t.parquet", program.pid) as recorder:
            assert program.end("long_fork") == 3
            recorder.stop()
    assert [row["cause"] for row in rows(tmp_path / "t.parquet", "process")].count("fork") == 1


def test_tasks_are_observed(any_python: Interpreter, tmp_path: Path) -> None:
    with observed_by(any_python) as program, attached(tmp_path / "t.parquet", program.pid) as recorder:
        program.tell("tasks")
        recorder.stop()
    lines = lines_of(report(tmp_path / "t.parquet"), FILE)
    assert lines[SUSPENDED]["suspended_s"] == pytest.approx(3 * 0.6, abs=0.3)


def test_the_recording_ends_with_the_program(python: Interpreter, tmp_path: Path) -> None:
    with observed_by(python) as program, attached(tmp_path / "t.parquet", program.pid) as recorder:
        program.tell("burn")
        program.begin("quit")  # nobody waits for it before the recorder has seen its status
        done = recorder.wait()
        program.process.wait()
    assert (done.status, done.stderr) == (0, b"")
    (process,) = rows(tmp_path / "t.parquet", "process")
    assert (process["end"], process["exit_status"]) == ("exit", 7)
    known = settings(tmp_path / "t.parquet")
    assert (known["ended_by"], known["exit_status"]) == ("program", "7")


def test_a_duration(python: Interpreter, tmp_path: Path) -> None:
    with observed_by(python) as program, attached(tmp_path / "t.parquet", program.pid, "--duration", "0.5") as recorder:
        program.begin("burn")
        assert recorder.wait().status == 0
        program.end("burn")
        assert program.quit() == (7, b"as ever\n")
    assert 0.4 < report(tmp_path / "t.parquet")["traces"][0]["wall_s"] < 5
    assert settings(tmp_path / "t.parquet")["ended_by"] == "duration"


def test_what_is_used_in_a_pause_is_not_counted(python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    with observed_by(python) as program, attached(trace, program.pid) as recorder:
        assert control(trace, "pause").status == 0
        program.tell("nap", "burn", "burn", "busy_thread", "fork")
        assert control(trace, "resume").status == 0
        program.tell("both")
        recorder.stop()
    found = report(trace)
    assert found["totals"]["cpu_s"] == pytest.approx(0.8, abs=0.3)
    assert {"paused"} <= set(losses(found)) <= {*BUSY, "paused"}


def test_an_exec_begins_another_image(python: Interpreter, tmp_path: Path) -> None:
    """The interpreter is found although it is not loaded yet at the time of the exec."""
    words = ["/bin/sh", "-c", f"read line; echo '{ANSWER}'; read line; exec {python.path} {FILE}"]
    with observed(words) as program, attached(tmp_path / "t.parquet", program.pid) as recorder:
        program.begin("go")
        program.tell("pid", "burn", "both")
        recorder.stop()
    shell, interpreter = sorted(rows(tmp_path / "t.parquet", "process"), key=lambda row: row["process"])
    assert (shell["end"], interpreter["cause"]) == ("exec", "exec")
    assert interpreter["python_version"] == python.full_name
    assert lines_of(report(tmp_path / "t.parquet"), FILE)[DIGEST]["cpu_s"] > 0.1


def test_a_process_without_python(tmp_path: Path) -> None:
    words = ["/bin/sh", "-c", f"read line; echo '{ANSWER}'; read line; sleep 1; exit 4"]
    with observed(words) as program, attached(tmp_path / "t.parquet", program.pid) as recorder:
        program.begin("go")
        assert recorder.wait().status == 0
    found = rows(tmp_path / "t.parquet", "process")
    assert {each["python_version"] for each in found} == {None} and found[0]["exit_status"] == 4
    assert sum(row["duration_ns"] for row in rows(tmp_path / "t.parquet", "wait")) > 0.8e9


def test_the_recorder_may_be_killed(python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    with observed_by(python) as program, attached(trace, program.pid) as recorder:
        program.tell("both")
        recorder.process.kill()
        recorder.wait()
        program.tell("burn")
        assert program.quit() == (7, b"as ever\n")
    done = run([*record_command(trace, [])[:1], "--recover", f"{trace}.spool"])
    assert done.status == 0, done.stderr.decode()
    assert lines_of(report(trace), FILE)[DIGEST]["cpu_s"] > 0.1


def test_cpu_time_that_was_not_observed_is_a_loss(python: Interpreter, tmp_path: Path) -> None:
    """Threads that live for a few milliseconds: what is recorded, and what the loss says is missing, is all there was."""
    with observed_by(python) as program, attached(tmp_path / "t.parquet", program.pid) as recorder:
        used_s = program.tell("short_threads")["cpu_s"]
        recorder.stop()
    found = report(tmp_path / "t.parquet")
    missing_s = losses(found)["attached_unseen"] / 1000
    assert found["totals"]["cpu_s"] + missing_s == pytest.approx(used_s, abs=0.2)
    threads = report(tmp_path / "t.parquet", command="threads")["threads"]
    assert sum(row["cpu_s"] for row in threads) == pytest.approx(found["totals"]["cpu_s"], rel=1e-6)


def test_the_first_thread_may_have_ended(python: Interpreter, tmp_path: Path) -> None:
    code = f"print('{ANSWER}', flush=True)\n" + FIRST_THREAD_ENDS
    words = [str(python.path), "-c", f"input()\n{code}"]
    with observed(words) as program, attached(tmp_path / "t.parquet", program.pid) as recorder:
        program.begin("go")
        done = recorder.wait()
        program.process.wait()
    assert done.status == 0
    found = report(tmp_path / "t.parquet")
    assert found["totals"]["cpu_s"] == pytest.approx(1, abs=0.3)
    assert settings(tmp_path / "t.parquet")["exit_status"] == "5"


def test_a_thread_is_not_a_process(tmp_path: Path) -> None:
    """Its end would be taken for that of the process."""
    with observed([sys.executable, "-c", THREAD]) as program:
        (thread,) = {int(each.name) for each in Path(f"/proc/{program.pid}/task").iterdir()} - {program.pid}
        done = run([*record_command(tmp_path / "t.parquet", [])[:1], "--pid", str(thread)])
    assert done.status == 125 and f"Name the process: --pid {program.pid}" in done.stderr.decode()


def test_a_long_command_line_is_cut(any_python: Interpreter, tmp_path: Path) -> None:
    words = [str(any_python.path), str(FILE), "x" * 100_000]
    with observed(words) as program, attached(tmp_path / "t.parquet", program.pid) as recorder:
        recorder.stop()
    (process,) = rows(tmp_path / "t.parquet", "process")
    assert process["cause"] == "root" and process["command"][:2] == words[:2]
