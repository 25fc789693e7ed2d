"""Finds the recording that a process belongs to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..errors import ControlError
from ..folder.files import CONTROL_NAME
from .client import ask

_ENDING = ".spool"  # folder/output.py


def recording_of(pid: int) -> Path:
    """The folder of the running recording in which ``pid`` is the recorder, the program, or a descendant of it.

    Found are recordings of our own user (all of them for root) in our pid namespace. Raises
    ControlError when there is none.
    """
    line = list(_ancestors(pid))
    for folder in _folders():
        with suppress(ControlError):
            status = ask(folder, {"command": "status"})
            if pid == status.get("recorder_pid") or status.get("pid") in line:
                return folder
    if not line:
        raise ControlError(f"There is no process {pid}.")
    raise ControlError(
        f"Process {pid} is in no recording that can be asked. Start one with: scalene-record --pid {pid} -o trace.parquet, "
        "or name the trace that its scalene-record writes."
    )


def _ancestors(pid: int) -> Iterator[int]:
    """The process itself, its parent, and so on; none if it does not exist."""
    while pid > 0:
        try:
            text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
            parent = int(text.rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return
        yield pid
        pid = parent


def _folders() -> Iterator[Path]:
    """Folders of recordings that processes hold open, those that we may ask. A recorder holds its own."""
    user, found = os.geteuid(), set[str]()
    for process in _numbers(Path("/proc")):
        for descriptor in _numbers(process / "fd"):
            with suppress(OSError):
                found.add(str(descriptor.readlink()))
    for name in sorted(found):
        folder = Path(name)
        with suppress(OSError):
            if name.endswith(_ENDING) and user in (0, folder.stat().st_uid) and (folder / CONTROL_NAME).is_socket():
                yield folder


def _numbers(folder: Path) -> list[Path]:
    """The entries of ``folder`` whose names are numbers; none if it may not be read."""
    try:
        return [each for each in folder.iterdir() if each.name.isdecimal()]
    except OSError:
        return []
