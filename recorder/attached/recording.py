"""Finds the recording that a process belongs to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ..control.client import ask
from ..errors import ControlError
from ..folder.files import CONTROL_NAME
from .facts import parent_of

_ENDING = ".spool"  # folder/output.py
_ANSWER_S = 2.0


def recording_of(pid: int) -> Path:
    """The folder of the running recording in which ``pid`` is the recorder, the program, or a descendant of it; of several,
    that of the nearest one.

    Found are recordings of the process's user, or of root, in our pid namespace, and only those that we may ask. Raises
    ControlError when there is none.
    """
    line = list(_ancestors(pid))
    if not line:
        raise ControlError(f"There is no process {pid}.")
    user = _owner(Path(f"/proc/{pid}"))
    found = []
    for recorder, folder in _recorders():
        if _owner(folder) in (0, user) and _owner(folder) == _owner(Path(f"/proc/{recorder}")):
            distance = _distance(recorder, folder, line)
            if distance is not None:
                found.append((distance, folder))
    if found:
        return min(found)[1]
    raise ControlError(
        f"Process {pid} is in no recording that can be asked. Start one with: scalene-record --pid {pid} -o trace.parquet, "
        "or name the trace that its scalene-record writes."
    )


def _distance(recorder: int, folder: Path, line: Sequence[int]) -> int | None:
    """How many generations lie between the process, the first of ``line``, and what is recorded in ``folder``; None = it is not
    recorded there. A recorder is the parent of its program, or says to which process it has attached. What it says is believed
    of processes of its own user."""
    if recorder in line:
        return line.index(recorder)
    with suppress(ControlError):
        pid = ask(folder, {"command": "status"}, _ANSWER_S).get("pid")
        if pid in line and (pid != 1 or len(line) == 1) and _owner(folder) in (0, _owner(Path(f"/proc/{pid}"))):
            return line.index(pid)
    return None


def _owner(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except OSError:
        return None


def _ancestors(pid: int) -> Iterator[int]:
    """The process itself, its parent, and so on; none if it does not exist."""
    while pid > 0:
        try:
            parent = parent_of(pid)
        except (OSError, ValueError, IndexError):
            return
        yield pid
        pid = parent


def _recorders() -> Iterator[tuple[int, Path]]:
    """Processes that hold the folder of a recording open, as recorders do, and the folder, if we may ask there."""
    own = os.geteuid()
    for process in _numbers(Path("/proc")):
        names = set()
        for descriptor in _numbers(process / "fd"):
            with suppress(OSError):
                names.add(str(descriptor.readlink()))
        for folder in [Path(name) for name in names if name.endswith(_ENDING)]:
            with suppress(OSError):
                if own in (0, _owner(folder)) and (folder / CONTROL_NAME).is_socket():
                    yield int(process.name), folder


def _numbers(folder: Path) -> list[Path]:
    """The entries of ``folder`` whose names are numbers; none if it may not be read."""
    try:
        return [each for each in folder.iterdir() if each.name.isdecimal()]
    except OSError:
        return []
