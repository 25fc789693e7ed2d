"""``scalene-record --doctor`` says of this host what a recording then finds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.support import perf_events
from tests.support.interpreters import Interpreter
from tests.support.recording import Json, environment, losses, record_command, report, run, target, tool


def examined(folder: Path, python: Interpreter, *program: str | Path, refused: str = "") -> tuple[int, dict[str, Json]]:
    """The exit status and the checks. ``refused``: system calls that a filter refuses."""
    filtered = [sys.executable, target("refuse_readv"), refused] if refused else []
    command = [*tool("scalene-record"), "--doctor", "--json", "--python", python.path, "-o", folder / "t.parquet"]
    done = run([*filtered, *command, *program], env=environment(None), cwd=folder)
    assert done.stderr == b""
    found = json.loads(done.stdout)
    assert found["complete"] == (done.status == 0)
    return done.status, {each["name"]: each for each in found["checks"]}


def test_this_host_is_examined_and_nothing_is_started(any_python: Interpreter, tmp_path: Path) -> None:
    program = tmp_path / "app.py"
    program.write_text("open('started', 'w')")
    status, found = examined(tmp_path, any_python, program)
    assert [each.name for each in tmp_path.iterdir()] == ["app.py"]
    assert found["interpreter"]["found"].startswith(f"CPython {any_python.name}")
    assert not found["perf_events"]["losses"] or not perf_events.are_allowed()
    assert status == any(each["recorded"] in ("in part", "not") for each in found.values())


def test_what_it_says_is_what_a_recording_loses(python: Interpreter, tmp_path: Path) -> None:
    refused = "process_vm_readv,perf_event_open"
    status, found = examined(tmp_path, python, refused=refused)
    said = {loss for each in found.values() for loss in each["losses"]}
    code = "x = 0\nfor i in range(1_000_000): x += i\nimport time; time.sleep(0.2)"
    command = record_command(tmp_path / "t.parquet", ["-c", code], python)
    done = run([sys.executable, target("refuse_readv"), refused, *command], env=environment(None))
    lost = losses(report(tmp_path / "t.parquet"))
    assert (status, done.status) == (1, 0) and {"engine_posix", "waits_off"} <= lost.keys() & said
    assert lost.keys() <= said | {"read_refused"}  # stacks_off is the severer form of it
    assert ("stacks_off" in lost) == ("stacks_off" in said)
