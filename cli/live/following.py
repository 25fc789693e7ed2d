"""A recording that runs, followed from outside: found, asked for snapshots, found again after its recorder was restarted."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...recorder.control.by_pid import recording_of
from ...recorder.control.client import ask, find_recording
from ...recorder.errors import ControlError

RECORDING, PAUSED, ENDED = "recording", "paused", "ended"


@dataclass(frozen=True)
class Status:
    """What is known of the recording. ``trace``: the file that has its snapshot, or what it recorded in all; ``version``:
    differs when that file does; ``taken_s``: seconds that the recorder took for the snapshot; ``note``: a sentence if the
    recorder has died, so that the trace lacks what came after its last snapshot."""

    state: str
    trace: Path
    version: tuple[int, int]
    recorded_s: float | None
    pid: int | None
    taken_s: float
    note: str = ""


class Following:
    """The recording that ``target`` names: the trace that it writes, or a process in it. Raises ControlError when none runs
    there."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._pid = int(target) if target.isdecimal() and not os.path.exists(target) else None  # noqa: PTH110
        self._folder: Path | None = self._found()
        self._left = self._folder  # where a recorder that is killed leaves what it recorded
        self._last: Status | None = None

    def take(self) -> Status:
        """Has a snapshot written. Without a recorder, the state is "ended" and the trace is what it has left; a new
        recording of the same trace is found. Raises ControlError when nothing was ever written."""
        begun_s = time.monotonic()
        try:
            folder = self._folder or self._found()
            status = ask(folder, {"command": "status"})  # whoever answers this may take its time for the snapshot
            answer = ask(folder, {"command": "snapshot"}, timeout_s=None)
            found = _status(status, Path(str(answer["output"])), time.monotonic() - begun_s)
        except (ControlError, KeyError, TypeError, ValueError) as error:
            self._folder = None
            return self._ended(error)
        self._folder = self._left = folder
        self._last = found
        return found

    def _found(self) -> Path:
        return find_recording(Path(self._target)) if self._pid is None else recording_of(self._pid)

    def _ended(self, error: Exception) -> Status:
        if self._last is None:
            raise ControlError(str(error)) from error
        last = self._last
        note = str(error) if self._left and self._left.exists() else ""
        self._last = Status(ENDED, last.trace, _version(last.trace) or last.version, None, last.pid, 0.0, note)
        return self._last


def _status(answer: dict[str, Any], trace: Path, taken_s: float) -> Status:
    version = _version(trace)
    if version is None:
        raise ControlError(f"The snapshot {trace} cannot be found. Was it moved?")
    state = PAUSED if answer["paused"] else RECORDING
    return Status(state, trace, version, float(answer["recorded_s"]), int(answer["pid"]), taken_s)


def _version(trace: Path) -> tuple[int, int] | None:
    try:
        found = trace.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
