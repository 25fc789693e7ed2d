"""What a program's own recorder is told, and which processes are signalled in its place: none."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalene_trace.cli.record.command import _NEEDS_THE_SHIM, _OF_MEMORY
from scalene_trace.cli.record.options import OPTIONS
from scalene_trace.formats.spool.layout import struct_dtype
from scalene_trace.recorder import api, inside, own_recorder
from scalene_trace.recorder.api import exchange
from scalene_trace.recorder.control.server import LONGEST_LINE_BYTES
from scalene_trace.recorder.folder.files import MARKS_NAME
from scalene_trace.recorder.folder.marks import read_marks
from tests.support.fuzz_targets import controlled

#: Options that a program may give for a recording of itself.
GIVEN_INSIDE = {
    *("--cpu-interval", "--gpu-interval", "--no-gpu", "--children", "--no-children", "--duration", "--label"),
    *("--sample", "--no-source", "--with-sources", "--no-argv", "--snapshot-every", "--pause-at-start", "--verbose"),
}
OF_TYPER = {"--help", "--version", "--install-completion", "--show-completion"}
REFUSED = sorted({*_NEEDS_THE_SHIM, *_OF_MEMORY, *OF_TYPER, "--pid", "--memory", "--doctor", "-o"})


@pytest.mark.parametrize("name", REFUSED)
def test_an_option_that_a_program_cannot_give_is_refused_with_its_name(name: str) -> None:
    for word in (name, f"{name}=1"):
        with pytest.raises(ValueError, match=f"^the option {word} cannot be given here"):
            inside._words_of(["--cpu-interval", "1ms", word])


def test_each_option_is_refused_or_given_to_the_recorder() -> None:
    names = {name for each in OPTIONS for name in (each.name, each.off_name) if name}
    assert names | OF_TYPER == GIVEN_INSIDE | set(inside._REFUSED)
    assert not GIVEN_INSIDE & set(inside._REFUSED)
    assert inside._words_of(sorted(GIVEN_INSIDE)) == sorted(GIVEN_INSIDE)


@pytest.mark.parametrize("has_pipe", [True, False])
def test_a_process_that_has_the_pid_of_a_recorder_that_has_ended_is_left_alone(has_pipe: bool, tmp_path: Path) -> None:
    read, write = os.pipe()
    with subprocess.Popen(["sleep", "60"]) as other:
        recorder = own_recorder.Recorder(str(tmp_path / "t.parquet"), read)
        recorder.pid, recorder._start = other.pid, b"1"
        if not has_pipe:
            os.close(read)
        assert recorder.end() is None
        assert other.poll() is None
        other.kill()
    os.close(write)


@pytest.mark.leaves_spool
@pytest.mark.parametrize(
    ("what", "has_ended"),
    [("records", False), ("writes its trace", True), ("is out of reach", False), ("stands still", True)],
)
def test_a_recorder_that_writes_its_trace_records_nothing_more(what: str, has_ended: bool, tmp_path: Path) -> None:
    read, write = os.pipe()
    recorder = own_recorder.Recorder(str(tmp_path / "t.parquet"), read)
    (tmp_path / "t.parquet").touch()  # a snapshot
    if what != "is out of reach":
        header = np.zeros(1, struct_dtype("spool_header"))
        header["ended"] = what != "records"
        (tmp_path / "t.parquet.spool").mkdir()
        (tmp_path / "t.parquet.spool/spool").write_bytes(header.tobytes())
    with subprocess.Popen(["sleep", "0.4" if what == "writes its trace" else "60"]) as process:
        recorder.pid, recorder._start = process.pid, own_recorder._state_of(process.pid)[1]
        os.write(write, b"\n")  # it has said something
        if what == "stands still":
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        found, state = recorder.has_ended(), own_recorder._state_of(process.pid)[0]
        process.kill()
    assert (found, state in (b"Z", b"")) == (has_ended, what == "writes its trace")
    recorder.close()
    os.close(write)


@pytest.mark.parametrize(("scope", "calls"), [("1\n", 1), ("0\n", 0), ("2\n", 0), (None, 0)])
def test_the_program_says_who_may_trace_it_only_where_that_counts(
    scope: str | None, calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []

    class Library:
        def __init__(self, _: object) -> None:
            self.prctl = lambda *words: called.append(words)

    monkeypatch.setattr(ctypes, "CDLL", Library)
    monkeypatch.setattr(own_recorder, "_YAMA", str(tmp_path / "scope"))
    if scope:
        (tmp_path / "scope").write_text(scope)
    own_recorder._allow(1)
    assert len(called) == calls


def test_a_long_text_is_left_out_of_a_request_that_the_recorder_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(api, "attached_folder", "/recording.spool")
    monkeypatch.setattr(api, "_ask", lambda request, _: asked.append(request))
    wide = "\N{SNAKE}" * 1000
    for text in ("x" * 60_000, "x" * 50_000):
        api.tell_source(wide, wide, text)
    api.tell_source("f", "t", "x" * 60_000)
    assert [len(each["text"]) for each in asked] == [0, 0, 60_000]
    assert all(len(json.dumps(each)) <= LONGEST_LINE_BYTES for each in asked)


def test_a_pause_without_hold_holds_for_everybody(tmp_path: Path) -> None:
    def ask(command: str, **more: object) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(exchange(str(tmp_path), {"command": command, **more}, 0))
        return answer

    def is_paused() -> bool:
        return bool(ask("status")["paused"])

    with controlled(tmp_path):
        assert inside._hold(str(tmp_path)) == "on"
        assert not ask("pause", hold=True)["changed"] and not is_paused()
        ask("pause")
        assert [inside._hold(str(tmp_path)) for _ in range(2)] == ["held", "held"] and not is_paused()
        ask("pause")
        assert inside._hold(str(tmp_path)) == "held" and not is_paused(), "a new block is recorded"
        ask("resume")
        assert not ask("pause", hold=True)["changed"] and not is_paused(), "somebody else wants it"
        ask("mark", text="a", id=1, pid=7)
        ask("mark", text="b", id=1, pid="7")
        ask("end", id=1, pid=7)
    first, second = [each for each in read_marks(tmp_path / MARKS_NAME) if each.what == "mark"]
    assert (first.pid, first.end_ns is None) == (7, False)
    assert (second.pid, second.end_ns) == (os.getpid(), None)
    assert inside._hold(str(tmp_path)) == "none"
