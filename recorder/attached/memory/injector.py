"""Runs commands of the library for attached processes in a process: each is carried out once, or not at all."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from ...folder.held import HeldFolder
from ...runtime_table import is_free_threaded
from ..facts import Life
from ..interpreter import Interpreter
from . import pending_call, remote_exec
from .image import POLL_S, Image
from .script import AGAIN

#: How long a command may take that has begun, in seconds.
_LONGEST_S = 20.0
#: What :meth:`Injector.run` returns if it takes longer.
UNANSWERED = "unanswered"


class _Way(Protocol):
    """How the main thread is asked."""

    def needs_library(self) -> bool: ...

    def ask(self, result: Path, command: str, patience_s: float) -> bool: ...

    def finish(self) -> None: ...

    def close(self) -> None: ...


class Injector:
    """Runs commands of the library for attached processes in the process ``pid``. ``folder`` is that of the recording."""

    def __init__(self, pid: int, life: Life, python: Interpreter, folder: HeldFolder, library: Path) -> None:
        """``life``: of the image that ``python`` was found in. Raises OSError, SetupError."""
        image, self._folder, self._count = Image(pid, life, python), folder, 0
        self._way: _Way = (
            remote_exec.RemoteExec(image, folder, library)
            if python.version >> 16 in remote_exec.POSITIONS
            else pending_call.PendingCall(image, library)
        )

    def run(self, command: str, patience_s: float) -> str | None:
        """Carries out a command in the main thread and returns its result: "done", or what is missing; UNANSWERED = it has begun and
        does not end; None = that thread ran no Python code in that time, so nothing was done, and nothing will be. Raises OSError,
        SetupError.

        Other threads are not asked: the state of one that ends is freed, and would be written to after that.
        """
        end_s = time.monotonic() + patience_s
        while self._way.needs_library():
            loaded = self._carry_out("load", end_s - time.monotonic())
            if loaded not in ("done", AGAIN):
                return loaded
            if loaded == "done" and self._way.needs_library():
                return "the library is not where it was loaded"
        return self._carry_out(command, end_s - time.monotonic())

    def close(self) -> None:
        """Runs nothing any more, so that another recorder may."""
        self._way.close()

    def _carry_out(self, command: str, patience_s: float) -> str | None:
        self._count += 1
        name = f"attach-{self._count}.txt"
        result = self._folder.path / name
        try:
            return self._run(result, command, patience_s)
        finally:
            with suppress(OSError, ValueError):
                self._way.finish()
            with suppress(OSError):
                result.unlink()

    def _run(self, result: Path, command: str, patience_s: float) -> str | None:
        end_s = time.monotonic() + patience_s
        seen = self._folder.name_for_others() / result.name
        if self._way.ask(seen, command, patience_s) and (text := _result(result, end_s + 1)):
            return text
        with suppress(FileExistsError):  # else it has begun
            os.close(os.open(result, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            return None
        return _result(result, time.monotonic() + _LONGEST_S) or UNANSWERED


def refusal(pid: int, life: Life, python: Interpreter) -> str | None:
    """Why no command can be run in the process; None if it can. Raises OSError."""
    image, version = Image(pid, life, python), python.version >> 16
    if not python.is_known or version not in (*remote_exec.POSITIONS, *pending_call.LAYOUTS):
        return "its interpreter is not one of CPython 3.10 to 3.15 whose layout is known"
    if is_free_threaded(image.table()):
        return "its interpreter is a free-threaded build"
    return remote_exec.refusal(image) if version in remote_exec.POSITIONS else pending_call.refusal(image)


def _result(path: Path, end_s: float) -> str | None:
    while time.monotonic() < end_s:
        with suppress(OSError):
            text = path.read_text("utf-8", "replace")
            if text.endswith("\n"):
                return text.rstrip("\n")
        time.sleep(POLL_S)
    return None
