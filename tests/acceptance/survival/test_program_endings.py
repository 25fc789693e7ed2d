"""However a program ends, its recording is complete, and its exit status is passed on."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest

from scalene_trace.formats.spool.reader import read_header
from scalene_trace.recorder.folder import place
from tests.support.interpreters import Interpreter
from tests.support.paths import PATIENCE_S
from tests.support.recording import (
    bare,
    environment,
    figure,
    line_of,
    lines_of,
    record,
    record_command,
    report,
    rows,
    run,
    target,
    tool,
)

DEATHS = ("SIGKILL", "_exit", "exit", "segfault", "SIGTERM", "SIGINT", "SIGHUP", "SIGABRT", "exception")


@pytest.mark.parametrize("how", DEATHS)
def test_a_program_ends_as_it_does_bare_and_what_it_did_is_in_the_trace(
    how: str, python: Interpreter, tmp_path: Path
) -> None:
    alone = bare([target("dying"), how, "0.1"], python, cwd=tmp_path)
    options = ["--cpu-interval", "1ms"]
    done = record(tmp_path / "t.parquet", [target("dying"), how, "0.6"], python, options, cwd=tmp_path)
    assert (done.status, done.stderr) == (alone.status, alone.stderr)
    lines = lines_of(report(tmp_path / "t.parquet"), target("dying"))
    assert lines[line_of("dying", "work")]["cpu_s"] > 0.3, "of 0.6 s"
    assert lines[line_of("dying", "kept")]["growth_bytes"] == pytest.approx(30_000_000, abs=11_000_000)


@pytest.mark.samples
@pytest.mark.parametrize("how", DEATHS)
def test_a_death_loses_no_cpu_time(how: str, python: Interpreter, tmp_path: Path) -> None:
    before_s = children_s()
    alone = bare([target("dying"), how, "0.1"], python, cwd=tmp_path)
    after_s = children_s() - before_s - alone.facts["cpu_s"]
    done = record(
        tmp_path / "t.parquet", [target("dying"), how, "0.6"], python, ["--cpu-interval", "1ms"], cwd=tmp_path
    )
    found = report(tmp_path / "t.parquet")
    ratio = found["totals"]["cpu_s"] / truth_s(tmp_path / "t.parquet", done.facts["cpu_s"], after_s)
    figure(f"CPU time in the trace after {how}", python, 100 * (ratio - 1), 5, "percent")
    assert ratio == pytest.approx(1, abs=0.05)


def children_s() -> float:
    """CPU time of the processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def truth_s(trace: Path, said_s: float, after_s: float) -> float:
    """CPU time of a process to its end where it said so, else what the program ``said`` just before it died, and what
    dying takes bare."""
    (process,) = rows(trace, "process")
    if process["user_ns"] is None:
        return said_s + after_s
    whole_s: float = (process["user_ns"] + process["system_ns"]) / 1e9
    assert whole_s > 0.98 * said_s
    return whole_s


def start(trace: Path, python: Interpreter, seconds: str = "0.6") -> subprocess.Popen[bytes]:
    """A recorded program that has done its work, said so, and sleeps; in a session of its own."""
    command = record_command(trace, [target("dying"), "wait", seconds], python)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(None), start_new_session=True)
    assert process.stdout is not None
    json.loads(process.stdout.readline())
    return process


def finish(process: subprocess.Popen[bytes]) -> int:
    """The status of a recording that was told to end, as a shell would show it."""
    process.communicate(timeout=PATIENCE_S)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


FINALIZES = """
import os, time
print(os.getpid(), flush=True)
class Late:
    def __del__(self, clock=time.thread_time, read=os.read, write=os.write):
        end = clock() + 0.05
        while clock() < end:
            pass
        write(1, b"ending\\n")
        read(0, 1)
os.read(0, 1)
late = Late()
"""


@pytest.mark.parametrize("options", [[], ["--no-memory"]], ids=["all", "ticks"])
def test_the_recorder_knows_when_the_interpreter_begins_to_finalize(
    options: list[str], python: Interpreter, tmp_path: Path
) -> None:
    trace = tmp_path / "t.parquet"
    command = record_command(trace, ["-c", FINALIZES], python, options)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(None))
    assert process.stdin and process.stdout
    pid = int(process.stdout.readline())
    spool = place.spool_of(Path(f"{trace}.spool"))
    assert read_header(spool)["finalizing"] == 0
    process.stdin.write(b".")
    process.stdin.flush()
    assert process.stdout.readline() == b"ending\n"
    assert read_header(spool)["finalizing"] == pid
    process.communicate(b".", timeout=PATIENCE_S)
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1], ids=lambda number: number.name)
def test_a_signal_to_the_recorder_reaches_the_program(
    number: signal.Signals, python: Interpreter, tmp_path: Path
) -> None:
    process = start(tmp_path / "t.parquet", python)
    process.send_signal(number)
    assert finish(process) == 128 + number
    assert report(tmp_path / "t.parquet")["totals"]["cpu_s"] > 0.25


def test_control_c_in_the_terminal_ends_the_program_and_keeps_the_trace(python: Interpreter, tmp_path: Path) -> None:
    process = start(tmp_path / "t.parquet", python)
    os.killpg(process.pid, signal.SIGINT)
    assert finish(process) == 128 + signal.SIGINT
    assert report(tmp_path / "t.parquet")["totals"]["cpu_s"] > 0.25


def spool_of(trace: Path) -> Path:
    """The spool of a recording whose recorder is dead."""
    found = list(trace.parent.glob(f"{trace.name}.spool*"))
    assert len(found) == 1, found
    return found[0]


def recover(spool: Path) -> Path:
    """Recovers a spool; the trace that came of it."""
    done = run([*tool("scalene-record"), "--recover", spool], cwd=spool.parent)
    assert done.status == 0, done.stderr.decode()
    return next(iter(spool.parent.glob("*.parquet")))


def test_a_killed_recorder_leaves_a_spool_that_recovers(python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    process = start(trace, python)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    assert not trace.exists()
    found = report(recover(spool_of(trace)))
    assert lines_of(found, target("dying"))[line_of("dying", "work")]["cpu_s"] > 0.2


def test_a_program_goes_on_when_only_its_recorder_is_killed(python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    process = start(trace, python)
    process.kill()
    process.wait(timeout=PATIENCE_S)
    time.sleep(0.5)
    alive = children_in_session(process.pid)
    assert len(alive) == 1, "the program must outlive its recorder"
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    recovered = recover(spool_of(trace))
    assert report(recovered)["totals"]["cpu_s"] > 0.25
    settings = {row["name"]: row["value"] for row in rows(recovered, "setting")}
    assert settings["recovered"] == "true"


def children_in_session(session: int) -> list[int]:
    """Pids of the processes of a session, the dead left out."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(folder.name))
    return found
