"""Rotations that fail while the program runs, and recordings without rotation."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scalene_trace.cli.record import command
from scalene_trace.recorder.errors import SetupError
from scalene_trace.recorder.run import rotation
from scalene_trace.recorder.run.rotation import Rotation
from scalene_trace.recorder.settings import Settings


def test_the_first_failure_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    recording: Any = SimpleNamespace(
        folder=tmp_path,
        facts=SimpleNamespace(trace_id="ab" * 16),
        header=SimpleNamespace(start_mono_ns=0, start_real_ns=1),
    )
    told: list[Exception] = []
    rotating = Rotation(recording, 1, Settings(rotate_ns=10**9), told.append)
    monkeypatch.setattr(rotation, "read_state", fails)
    for _ in range(3):
        monkeypatch.setattr(rotating, "_due_s", time.monotonic())
        rotating.turn()
        rotating.stop()
    assert (rotating.failures, [type(each) for each in told]) == (3, [PermissionError])


def test_a_recording_that_does_not_rotate_imports_nothing_of_it() -> None:
    code = "import sys, scalene_trace.cli.record.command; print(*(name for name in sys.modules if '.rotat' in name))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "\n"


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command.os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(SetupError, match=r"Traces cannot be written in .*: permission denied"):
        command.run(["-o", str(tmp_path), "--rotate", "1h", "x.py"])
