"""A recording that runs, followed from outside: found, asked for snapshots, found again after its recorder was restarted."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...formats.identity import identity_of
from ...recorder.attached.recording import recording_of
from ...recorder.control.client import ask, find_recording
from ...recorder.errors import CommandRefused, ControlError
from ...recorder.folder.output import is_live

RECORDING, PAUSED, WAITING, ENDED = "recording", "paused", "waiting for the recorder", "ended"
#: A snapshot takes as long as the recording is large. A recorder may be stopped before it is done.
_SNAPSHOT_S = 300.0
_MOST_PID_DIGITS = 10


@dataclass(frozen=True)
class Status:
    """What is known of the recording. ``trace``: the file that has its snapshot, or what it recorded in all; ``version``:
    differs when that file does; ``recorded_s``: how long it was when asked, None = it has ended; ``note``: a sentence if
    there is no newer snapshot, or if the recorder has died, so that the trace lacks what came after its last one."""

    state: str
    trace: Path
    version: tuple[int, ...]
    recorded_s: float | None
    pid: int | None
    note: str = ""


class Following:
    """The recording that ``target`` names: the trace that it writes, or a process in it. Raises ControlError when none runs
    there."""

    def __init__(self, target: str) -> None:
        is_pid = target.isdecimal() and len(target) <= _MOST_PID_DIGITS and not os.path.exists(target)  # noqa: PTH110
        self._last: Status | None = None
        self._folder = recording_of(int(target)) if is_pid else find_recording(Path(target))

    def take(self) -> Status:
        """Has a snapshot written. While the recorder lives and gives none, as when it writes the trace at the end, the state is
        "waiting for the recorder". Without a recorder, it is "ended" and the trace is what it has left; a new recording of the
        same trace is found. Raises ControlError when nothing was ever written."""
        try:
            if not is_live(self._folder):
                self._folder = find_recording(self._folder)  # with %p, the trace has another name than its folder
            status = ask(self._folder, {"command": "status"})  # whoever answers this may take its time for the snapshot
            answer = ask(self._folder, {"command": "snapshot"}, _SNAPSHOT_S)
            self._last = _status(status, answer)
        except ControlError as error:
            self._last = self._without(error)
        return self._last

    def _without(self, error: ControlError) -> Status:
        """The status after a recorder gave no snapshot."""
        last = self._last
        if last is None:
            raise error
        if is_live(self._folder):
            return replace(last, state=WAITING, note=str(error) if isinstance(error, CommandRefused) else "")
        note = str(error) if self._folder.exists() else ""  # a recorder that is killed leaves what it recorded
        return Status(ENDED, last.trace, identity_of(last.trace) or last.version, None, last.pid, note)


def _status(status: dict[str, Any], answer: dict[str, Any]) -> Status:
    """What the recorder said. Raises ControlError if it is not a recorder."""
    try:
        trace, pid, recorded_s = Path(str(answer["output"])), int(status["pid"]), float(status["recorded_s"])
        is_paused = bool(status["paused"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ControlError("The answer is not that of a recorder. Is the control socket another program's?") from error
    version = identity_of(trace)
    if not version:
        raise ControlError(f"The snapshot {trace} cannot be found. Was it moved?")
    if not (math.isfinite(recorded_s) and 0 <= recorded_s < 1e9 and 0 < pid < 1 << 31):
        raise ControlError("The answer is not that of a recorder. Is the control socket another program's?")
    return Status(PAUSED if is_paused else RECORDING, trace, version, recorded_s, pid)
