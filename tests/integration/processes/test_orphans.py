"""A recorder that is PID 1 of a container, or a subreaper, does what an init does: it reaps orphans and forwards signals."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.paths import PATIENCE_S, ROOT
from tests.support.recording import Json, environment, record, record_command, rows, run, target

UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc"]
PR_SET_CHILD_SUBREAPER = 36
#: How long the program waits for its orphans to be reaped: less than run() waits for the program.
REAPED_S = PATIENCE_S / 2


def as_pid_1(trace: Path, python: Interpreter, *arguments: str) -> Json:
    """Records targets/orphans.py with a recorder that is PID 1 of a new namespace; what the program has seen."""
    if run([*UNSHARE, "true"]).status:
        pytest.skip("cannot create a pid namespace")
    command = record_command(trace, [target("orphans"), *arguments], python)
    done = run([*UNSHARE, *command], env=environment(None))
    assert (done.status, done.stderr) == (3, b"")
    assert done.facts["parent"] == 1
    return done.facts


def test_orphans_are_reaped_by_a_recorder_that_is_pid_1(any_python: Interpreter, tmp_path: Path) -> None:
    found = as_pid_1(tmp_path / "t.parquet", any_python, "40", str(REAPED_S))
    assert found["adopted_by_parent"]
    assert (found["orphans"], found["left"]) == (40, 0)
    processes = rows(tmp_path / "t.parquet", "process")
    assert len(processes) == 81 and processes[0]["exit_status"] == 3


def test_signals_to_pid_1_reach_the_program(any_python: Interpreter, tmp_path: Path) -> None:
    """Also those that are not usual: images set their own stop signal, SIGWINCH or SIGRTMIN+3 for example."""
    assert as_pid_1(tmp_path / "t.parquet", any_python, "0", str(REAPED_S), "signals")["caught"]


def test_orphans_are_reaped_by_a_recorder_that_is_a_subreaper(any_python: Interpreter, tmp_path: Path) -> None:
    def become_subreaper() -> None:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    program = [target("orphans"), "40", str(REAPED_S)]
    done = record(tmp_path / "t.parquet", program, any_python, preexec_fn=become_subreaper, timeout_s=PATIENCE_S)
    assert (done.status, done.stderr) == (3, b"")
    assert done.facts["adopted_by_parent"] and done.facts["parent"] != os.getpid()
    assert (done.facts["orphans"], done.facts["left"]) == (40, 0)


def test_the_recorder_starts_no_child_but_the_program() -> None:
    """It would take the status of another child for that of an orphan. Names are read when the program has ended, and
    orphans are not reaped any more; the process that reads them forks. ``--doctor`` (host.py) forks too, and records
    nothing."""
    ways = ("subprocess", "os.spawn", "os.popen", "os.system", "multiprocessing")
    texts = {path: path.read_text() for folder in ("recorder", "cli/record") for path in (ROOT / folder).rglob("*.py")}
    del texts[ROOT / "recorder" / "own_recorder.py"]  # it runs in a program that starts a recorder
    assert {path.name for path, text in texts.items() if any(way in text for way in ways)} == {"demangle.py"}
    assert {path.name for path, text in texts.items() if "posix_spawn" in text or "os.fork" in text} == {
        "program.py",
        "demangler.py",
        "host.py",
    }
