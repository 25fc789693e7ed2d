"""The functions by which a program controls its own recording: ``scalene_trace.recorder``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.package_alone import package_alone
from tests.support.paths import PATIENCE_S
from tests.support.recording import (
    analyze,
    environment,
    record,
    report,
    rows,
    run,
    tool,
)

MARKED = """
import os, sys, threading
from scalene_trace.recorder import mark, pause, recording, resume
heavy = {"numpy", "pyarrow", "cffi", "scalene_trace.recorder.run.record", "scalene_trace.formats"} & set(sys.modules)
assert not heavy, heavy
os.chdir("/")
mark("begin")
with mark("load"):
    sum(range(10**6))
pause()
with mark("in the pause"):
    pass
resume()
thread = threading.Thread(target=mark, args=("thread",))
thread.start()
thread.join()
child = os.fork()
if not child:
    with mark("child"):
        pass
    os._exit(0)
os.waitpid(child, 0)
loop = mark("twice")
for _ in range(2):
    with loop:
        pass
class Odd:
    def __str__(self):
        raise ValueError
mark(Odd())
mark("\\ud800\\n" + "x" * 5000)
print(recording())
"""


def test_a_program_marks_and_pauses_its_own_recording(python: Interpreter, tmp_path: Path) -> None:
    done = record(tmp_path / "t.parquet", ["-c", MARKED], python, env=package_alone(tmp_path))
    assert (done.status, done.stdout) == (0, b"True\n"), done.stderr.decode()
    marks = rows(done.trace, "mark")
    texts = [row["text"] for row in marks]
    assert texts[:7] == ["begin", "load", "", "in the pause", "thread", "child", "twice"]
    assert texts[7] == "twice" and "Odd object" in texts[8] and texts[9].endswith("x") and len(texts[9]) >= 900
    by_text = {row["text"]: row for row in marks}
    assert by_text["begin"]["end_ns"] is None
    assert by_text["load"]["end_ns"] > by_text["load"]["t_ns"] >= by_text["begin"]["t_ns"]
    assert marks[2]["what"] == "pause" and marks[2]["end_ns"] >= by_text["in the pause"]["end_ns"]
    assert by_text["child"]["end_ns"] is not None
    pids = {row["pid"] for row in rows(done.trace, "process")}
    assert {row["pid"] for row in marks} - {None} == pids and len(pids) == 2
    listed = report(done.trace, command="timeline")["marks"]
    assert (
        [row["text"] for row in listed] == texts == [row["text"] for row in report(done.trace, command="info")["marks"]]
    )
    assert b"in the pause" in analyze("info", done.trace).stdout
    assert b"in the pause" in analyze("timeline", done.trace).stdout


def test_the_calls_do_nothing_in_a_program_that_is_not_recorded(python: Interpreter, tmp_path: Path) -> None:
    imports = "import os, sys, __future__; before = set(sys.modules)\n"
    code = (
        imports
        + "from scalene_trace.recorder import mark, pause, recording, resume\n"
        + (
            "pause(); resume(); mark('x')\nwith mark('y'): pass\n"
            "print(recording(), sorted(set(sys.modules) - before - {'itertools', 'time'}))\n"
        )
    )
    env = package_alone(tmp_path)
    expected = b"False ['scalene_trace', 'scalene_trace.recorder', 'scalene_trace.recorder.api']\n"
    done = run([python.path, "-c", code], env=environment(env))
    assert (done.status, done.stdout, done.stderr) == (0, expected, b"")
    for spool in (tmp_path / "gone" / "spool", tmp_path / ("deep" * 40) / "spool", ""):
        done = run([python.path, "-c", code], env=environment(env | {"SCALENE_TRACE_SPOOL": str(spool)}))
        assert done.status == 0 and done.stdout.startswith(b"False") and done.stderr == b""


def test_the_calls_do_nothing_once_the_recorder_is_gone(any_python: Interpreter, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom scalene_trace.recorder import mark, pause, recording\n"
        "print(recording(), flush=True)\nsys.stdin.readline()\n"
        "pause()\nwith mark('late'): pass\nprint(recording(), flush=True)\n"
    )
    command = [*tool("scalene-record"), "-o", str(tmp_path / "t.parquet"), "--python", str(any_python.path), "-c", code]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(package_alone(tmp_path))
    )
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == b"True\n"
    process.kill()
    process.wait(timeout=PATIENCE_S)
    process.stdin.write(b"\n")
    process.stdin.close()
    assert process.stdout.read() == b"False\n"
    process.stdout.close()
    assert run([*tool("scalene-record"), "--recover", tmp_path / "t.parquet.spool"]).status == 0


COUNTED = """
import os, sys, threading
from scalene_trace.recorder import memory
before = memory()
if before is None:
    print("none")
    sys.exit()
kept = [bytearray(1_000_003) for _ in range(20)]
grown = memory()
del kept[5:]
shrunk = memory()
small = [str(each) for each in range(100_000)]
little = memory()
thread = threading.Thread(target=lambda: bytearray(30_000_000))
thread.start()
thread.join()
after = memory()
bytearray(50_000_000)
child = os.fork()
if not child:
    more = bytearray(7_000_000)
    now, most = memory()
    os._exit(0 if abs(now - after[0] - 7_000_000) < 100_000 and most - now < 1_000_000 else 1)
_, status = os.waitpid(child, 0)
print(grown[0] - before[0], shrunk[0] - grown[0], shrunk[1] - grown[0], little[0] - shrunk[0],
      after[1] - little[0], status)
"""


def test_a_program_learns_what_it_has_allocated(tmp_path: Path, python: Interpreter) -> None:
    tree = package_alone(tmp_path)
    done = record(tmp_path / "t.parquet", ["-c", COUNTED], python, env=tree)
    assert done.status == 0, done.stderr.decode()
    grown, shrunk, highest, little, at_peak, status = map(int, done.stdout.split())
    assert status == 0
    assert 0 <= grown - 20_000_060 < 100_000  # malloc rounds up to pages
    assert -15_080_000 < shrunk < -15_000_000
    assert highest == 0
    assert 4_800_000 < little < 8_000_000
    assert 30_000_000 - 200_000 < at_peak < 30_200_000
    for option in ("--no-memory", "--pause-at-start"):
        assert record(tmp_path / "t.parquet", ["-c", COUNTED], python, [option], env=tree).stdout == b"none\n"
    assert run([python.path, "-c", COUNTED], env=environment(tree)).stdout == b"none\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can begin a pid namespace")
def test_marks_in_another_pid_namespace_are_those_of_their_process(tmp_path: Path) -> None:
    code = "from scalene_trace.recorder import mark\nwith mark('load'): sum(range(10**7))"
    words = ["unshare", "--pid", "--fork", sys.executable, "-c", code]
    done = record(tmp_path / "t.parquet", words, env=package_alone(tmp_path))
    assert done.status == 0, done.stderr.decode()
    found = report(done.trace, "--mark", "load")
    assert found["totals"]["cpu_s"] > 0.05
    (row,) = rows(done.trace, "mark")
    assert row["pid"] in {each["pid"] for each in rows(done.trace, "process")}
