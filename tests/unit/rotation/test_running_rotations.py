"""Rotations that fail while the program runs, and recordings without rotation."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from scalene_trace.cli.record import command
from scalene_trace.recorder.errors import SetupError
from scalene_trace.recorder.run import rotation
from scalene_trace.recorder.run.rotation import Rotation
from scalene_trace.recorder.run.session import Session
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


@pytest.mark.parametrize("fails", [False, True])
def test_limits_of_marks_count_anew_from_a_cut_that_has_succeeded(
    fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(copies: Path, begin: Any, commit: Any) -> None:
        begin()
        if fails:
            raise OSError(28, "No space left on device")
        commit(1, {})

    recording = MagicMock(folder=tmp_path, watcher=None, header=MagicMock(start_mono_ns=0, start_real_ns=1, losses=[]))
    recording.facts.trace_id, recording.drain.cut = "ab" * 16, cut
    recording.losses.return_value, recording.alloc_interval.return_value = {}, "0"
    rotating = Rotation(recording, 1, Settings(rotate_ns=10**9))
    with suppress(OSError):
        rotating._cut(rotating._state)
    assert recording.marks.begin_anew.call_count == (not fails)


def test_a_rotation_that_raises_stops_neither_the_recorder_nor_its_other_work() -> None:
    session: Any = object.__new__(Session)
    parts = {
        name: MagicMock() for name in ("_prepared", "_commands", "_drain", "_rss", "_rotation", "_header", "_snapshots")
    }
    session.__dict__.update(parts, _early_end=None, _end_s=float("inf"), _snapshot_s=0.0, _taken=0, _turned_s=0.0)
    session.__dict__.update(_cycle=None, _budget=None, _spending=None, _noticed_s=0.0, _whole_s=0.0)
    parts["_rotation"].turn.side_effect = ValueError
    parts["_prepared"].space.full_ahead = 1
    session.turn()
    assert parts["_rotation"].turn.called and parts["_snapshots"].request.called


def test_a_recording_that_does_not_rotate_imports_nothing_of_it() -> None:
    code = "import sys, scalene_trace.cli.record.command; print(*(name for name in sys.modules if '.rotat' in name))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "\n"


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command.os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(SetupError, match=r"Traces cannot be written in .*: permission denied"):
        command.run(["-o", str(tmp_path), "--rotate", "1h", "x.py"])
