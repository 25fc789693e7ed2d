"""``scalene-analyze live``: a recording that runs, as tables that are printed again and again."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.paths import PATIENCE_S
from tests.support.recording import Finished, environment, losses, report, run, target, tool
from tests.support.steered_recording import Steered, steered

FILE = target("steered")


def live(*arguments: str | Path) -> Finished:
    return run([*tool("scalene-analyze"), "live", *arguments])


def text_of(*arguments: str | Path) -> str:
    done = live(*arguments)
    assert (done.status, done.stderr) == (0, b""), done.stderr.decode()
    return done.stdout.decode()


def row_of(text: str, what: str) -> list[str]:
    """The words of the first row with ``what``."""
    return next(line for line in text.splitlines() if what in line).split()


def percent(text: str, what: str) -> float:
    return float(row_of(text, what)[0].lstrip("~"))


def test_lines_threads_and_processes_of_a_running_program(any_python: Interpreter, tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    with steered(trace, any_python) as recording:
        recording.tell("work", "hold")
        lines = text_of("--count", "1", "--window", "0", trace)
        assert "recording · pid" in lines and "since the start" in lines
        assert percent(lines, "sum(range(500))") > 1 and str(FILE.name) in lines
        processes = text_of("--count", "1", "--view", "processes", str(recording.process.pid))  # named by the recorder
        found = re.search(r"([0-9.]+) MB .* 1 +([0-9]+) +running +python.* ", processes)
        assert found and float(found[1]) > 30, processes
        pid = found[2]
        threads = text_of("--count", "1", "--view", "threads", "--window", "0", pid)  # by a recorded process
        found = re.search(r"\n +([0-9.]+) +[0-9.]+ .* 1 *\n", threads)
        assert found and float(found[1]) > 1, threads
        assert recording.quit() == 0
    assert losses(report(trace)) == {}, "snapshots leave nothing in the trace"


def test_the_window_is_the_last_seconds(any_python: Interpreter, tmp_path: Path) -> None:
    with steered(tmp_path / "t.parquet", any_python) as recording:
        recording.tell("work")
        time.sleep(1.5)
        late = text_of("--count", "1", "--window", "1", recording.trace)
        assert "last 1.0" in late and "sum(range(500))" not in late
        assert "sum(range(500))" in text_of("--count", "1", "--window", "60", recording.trace)
        recording.quit()


def test_it_ends_with_the_recording(any_python: Interpreter, tmp_path: Path) -> None:
    with steered(tmp_path / "t.parquet", any_python) as recording:
        shown = subprocess.Popen(
            [*tool("scalene-analyze"), "live", "--refresh", "0.2", "--window", "60", recording.trace],
            stdout=subprocess.PIPE, env=environment(None),
        )  # fmt: skip
        assert shown.stdout is not None
        first = b"".join(shown.stdout.readline() for _ in range(2))
        recording.tell("work")
        assert recording.quit() == 0
        rest, _ = shown.communicate(timeout=PATIENCE_S)
    assert shown.returncode == 0 and b"recording \xc2\xb7" in first
    last = rest.decode().rpartition("ended ·")[2]
    assert "t.parquet" in last and "sum(range(500))" in last


def test_what_cannot_be_followed_is_said(tmp_path: Path) -> None:
    cases = {
        "nothing.parquet": "No recording to nothing.parquet is running",
        "1": "Process 1 is in no recording that can be asked. Start one with: scalene-record --pid 1",
        "4194999": "There is no process 4194999.",
        "4" * 5000: "No recording to 444",
    }
    for name, expected in cases.items():
        done = live("--count", "1", name)
        assert done.status == 2 and expected in done.stderr.decode()
    for option, value, expected in (
        ("--view", "rows", "It can be lines, functions, memory, threads, processes."),
        ("--sort", "CPU", "Columns: CPU %,"),
        ("--refresh", "0", "at least 0.2"),
    ):
        done = live(option, value, "nothing.parquet")
        assert done.status == 2 and expected in done.stderr.decode()


@pytest.mark.parametrize("is_killed", [False, True], ids=["ended", "killed"])
def test_a_new_recording_of_the_same_trace_is_followed(
    is_killed: bool, any_python: Interpreter, tmp_path: Path
) -> None:
    from scalene_trace.cli.live.following import ENDED, PAUSED, RECORDING, Following

    def begun() -> Steered:
        return opened.__enter__()

    opened = steered(tmp_path / "t.parquet", any_python)
    recording = begun()
    recording.tell("work")
    following = Following(str(recording.trace))
    first = following.take()
    assert (first.state, first.trace) == (RECORDING, recording.trace) and first.recorded_s and first.recorded_s > 0.5
    recording.control("pause")
    paused = following.take()
    assert paused.state == PAUSED
    if is_killed:
        recording.process.kill()
        recording.process.wait()
    else:
        recording.quit()
    after = following.take()
    assert (after.state, after.version == paused.version, "has died" in after.note) == (ENDED, is_killed, is_killed)
    opened.__exit__(None, None, None)
    opened = steered(tmp_path / "t.parquet", any_python)
    recording = begun()
    recording.tell("work")
    again = following.take()
    recording.quit()
    for folder in tmp_path.glob("*.spool*"):  # that the killed recorder has left
        shutil.rmtree(folder)
    assert again.state == RECORDING and again.version != after.version
