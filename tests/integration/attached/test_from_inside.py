"""A program that records itself: ``scalene_trace.recorder.record``, ``start`` and ``stop``."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.observed_program import until
from tests.support.paths import ROOT
from tests.support.recording import Finished, environment, losses, record, report, rows, run

PROGRAM = """
import os, sys, threading, time
from scalene_trace.recorder import mark, memory, pause, record, recording, resume, start, stop
def spin(cpu_s):
    due = time.process_time() + cpu_s
    while time.process_time() < due:
        sum(range(1000))
def before(): spin(0.3)
def within():
    spin(0.4)
    time.sleep(0.3)
def after(): spin(0.3)
def has_children():
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
"""
BLOCK = """
import ctypes  # where a Python has a loader of its own, this leaves a file open
threads = sorted(os.listdir("/proc/self/task"))
names = sorted(os.listdir("/proc/self/fd"))
before()
with record(sys.argv[1], ["--cpu-interval", "1ms"]) as made:
    assert recording()
    assert has_children() is None
    with mark("block"):
        within()
    pause()
    after()
    resume()
after()
assert not recording()
assert memory() is None
assert sorted(os.listdir("/proc/self/task")) == threads
assert sorted(os.listdir("/proc/self/fd")) == names
print(made.path)
"""


def own(folder: Path, program: str, python: str, *arguments: str | Path) -> Finished:
    """Runs a program that finds our package, and scalene-record on its path."""
    tree = folder / "tree" / "scalene_trace"
    tree.mkdir(parents=True, exist_ok=True)
    for name in ("recorder", "formats"):
        if not (tree / name).exists():
            (tree / name).symlink_to(ROOT / name)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    extra = {"PATH": path, "PYTHONPATH": str(tree.parent)}
    script = folder / "program.py"
    script.write_text(PROGRAM + program)
    return run([python, script, *arguments], cwd=folder, env=environment(None) | extra)


def test_a_block_is_recorded_and_nothing_else(any_python: Interpreter, tmp_path: Path) -> None:
    done = own(tmp_path, BLOCK, str(any_python.path), "t.parquet")
    trace = tmp_path / "t.parquet"
    assert (done.status, done.stdout.decode().strip()) == (0, str(trace)), done.stderr.decode()
    assert done.stderr == b""
    found = report(trace)
    functions = {row["function"]: row for row in found["functions"]}
    assert {"within", "spin"} <= functions.keys()
    assert "before" not in functions
    assert (
        "after" not in functions or functions["after"]["cumulative_cpu_s"] < 0.05
    )  # it was paused when that had begun
    assert 0.3 < found["totals"]["cpu_s"] < 0.6
    assert functions["within"]["cumulative_wait_s"] > 0.25
    assert losses(found).keys() <= {"attached_polled", "attached_unseen", "paused", "torn_stack", "waits_rare"}
    assert [each["text"] for each in rows(trace, "mark")] == ["block", ""]
    assert found["traces"][0]["processes"] == 1


def test_under_the_recorder_it_resumes_and_pauses_its_recording(any_python: Interpreter, tmp_path: Path) -> None:
    program = (
        PROGRAM + "before()\nwith record('other.parquet') as made:\n    kept = bytearray(30_000_000)\n    within()\n"
    )
    program += "after()\nprint(made.path)\n"
    env = {"PYTHONPATH": str(tmp_path / "tree")}
    own(tmp_path, "", sys.executable)
    done = record(tmp_path / "t.parquet", ["-c", program], any_python, ["--pause-at-start"], env=env)
    assert (done.status, done.stdout.decode().strip()) == (0, str(tmp_path / "t.parquet")), done.stderr.decode()
    found = report(tmp_path / "t.parquet")
    functions = {row["function"] for row in found["functions"] if row["cumulative_cpu_s"]}
    assert "within" in functions and not {"before", "after"} & functions
    assert found["totals"]["peak_bytes"] > 30_000_000
    assert not (tmp_path / "other.parquet").exists()


ENDS = {
    "killed": "start(sys.argv[1])\nwithin()\nos.kill(os.getpid(), 9)\n",
    "exits": "print(start(sys.argv[1]), start(sys.argv[1]))\nwithin()\n",
    "raises": "with record(sys.argv[1]):\n    within()\n    raise SystemExit(3)\n",
    "forks": """
start(sys.argv[1])
child = os.fork()
if not child:
    assert stop() is None
    spin(0.2)
    os._exit(0)
os.waitpid(child, 0)
within()
print(stop(), stop())
""",
}


@pytest.mark.parametrize("how", ENDS)
def test_every_end_leaves_a_trace(tmp_path: Path, how: str) -> None:
    done = own(tmp_path, ENDS[how], sys.executable, tmp_path / "t.parquet")
    assert done.status == {"killed": 128 + signal.SIGKILL, "raises": 3}.get(how, 0), done.stderr.decode()
    until(lambda: (tmp_path / "t.parquet").exists() and not (tmp_path / "t.parquet.spool").exists())
    said = {"exits": "True True\n", "forks": f"{tmp_path}/t.parquet None\n"}.get(how, "")
    assert done.stdout.decode() == said
    found = report(tmp_path / "t.parquet")
    assert "within" in {row["function"] for row in found["functions"]}
    assert found["traces"][0]["processes"] == (2 if how == "forks" else 1)


def test_two_recordings_one_after_the_other_into_a_folder(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    program = "for _ in range(2):\n    with record('made') as made:\n        within()\n    print(made.path)\n    time.sleep(1)\n"
    done = own(tmp_path, program, sys.executable)
    paths = done.stdout.decode().split()
    assert len(set(paths)) == 2, done.stderr.decode()
    assert sorted(map(str, (tmp_path / "made").iterdir())) == sorted(paths)


@pytest.mark.parametrize(
    ("output", "sentence"),
    [("missing/t.parquet", b"missing does not exist"), ("/dev/null", b"not a regular file")],
)
def test_what_cannot_be_recorded_is_said_and_the_program_goes_on(tmp_path: Path, output: str, sentence: bytes) -> None:
    program = (
        "with record(sys.argv[1]) as made:\n    print(recording())\nprint(made.path, start(sys.argv[1]), stop())\n"
    )
    done = own(tmp_path, program, sys.executable, output)
    assert (done.status, done.stdout.decode()) == (0, "False\nNone False None\n"), done.stderr.decode()
    assert sentence in done.stderr
    assert b"Traceback" not in done.stderr


def test_without_the_tool_the_program_goes_on(tmp_path: Path) -> None:
    own(tmp_path, "", sys.executable)
    program = "import sys; sys.version_info = (3, 10, 0)\n" + PROGRAM + "print(start('t.parquet'))\n"
    done = run(
        [sys.executable, "-c", program], cwd=tmp_path, env={"PATH": "/nowhere", "PYTHONPATH": str(tmp_path / "tree")}
    )
    assert (done.status, done.stdout) == (0, b"False\n"), done.stderr.decode()
    assert b"scalene-record" in done.stderr


@pytest.mark.parametrize("under_recorder", [False, True])
def test_marks_that_were_set_just_before_the_end_are_in_the_trace(tmp_path: Path, under_recorder: bool) -> None:
    program = "with record('t.parquet'):\n    for number in range(40):\n        mark(number)\n"
    if under_recorder:
        own(tmp_path, "", sys.executable)
        env = {"PYTHONPATH": str(tmp_path / "tree")}
        done = record(tmp_path / "t.parquet", ["-c", PROGRAM + program], options=["--python", sys.executable], env=env)
    else:
        done = own(tmp_path, program, sys.executable)
    assert done.status == 0, done.stderr.decode()
    found = [each["text"] for each in rows(tmp_path / "t.parquet", "mark") if each["what"] == "mark"]
    assert found == [str(number) for number in range(40)]
