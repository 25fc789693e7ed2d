"""Records the memory of a process that runs already, by a library that its interpreter loads (inject.py)."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from ..errors import SetupError
from ..rights.identity import read_identity
from ..shim_library import LIBRARY_NAME, attached_library
from ..spool.spool_file import seccomp_filters
from .facts import mappings_of
from .inject import Injector, refusal
from .interpreter import find_interpreter

#: How long the main thread of the process may take until it runs Python code: at the start, and at the end.
_START_S, _STOP_S = 10.0, 3.0
_RETRY_S = 0.01
_DORMANT = "To record its memory, start it with scalene-record --pause-at-start"
#: What the library answers (shim/inside/attached/attached.c), and what it means.
_MISSING = {
    "allocator": "it uses another malloc than libc's, or runs under valgrind",
    "layout": "its interpreter's build is unknown",
    "covered": "Python's allocators are not pymalloc's own (PYTHONMALLOC, -X dev, tracemalloc)",
    "arenas": "the arenas of its interpreter were not found",
    "places": "where its interpreter keeps the allocators was not found",
    "reads": "it may not call process_vm_readv",
    "recorded": "another scalene-record is recording its memory",
    "busy": "a thread has not finished with the recording before",
    "spool": "it cannot open the recording",
    "memory": "it has no memory left",
}
_PROCESS = "process"


class AttachedMemory:
    """The recording of the memory of the process ``pid``. ``folder`` is that of the recording, by a name that the process can
    use; ``spool`` the spool in it."""

    def __init__(self, pid: int, folder: Path, spool: Path) -> None:
        """Loads the library into the process, which changes nothing else yet. Raises SetupError, with one sentence that says why
        its memory cannot be recorded and what to do."""
        self._pid, self._spool, self._is_on = pid, spool, False
        try:
            self._injector = _injector(pid, folder)
            result = self._injector.run("check", _START_S)
        except (OSError, ValueError) as error:
            raise SetupError(f"The memory of process {pid} cannot be recorded: {error}. {_DORMANT}.") from error
        if result is None:
            raise SetupError(_silent(pid))
        if result != "done":
            raise SetupError(_refused(pid, _MISSING.get(result, result)))

    def start(self, patience_s: float = _START_S) -> str | None:
        """Begins the recording. Call it when the watcher runs. Returns why that failed, None = it has begun."""
        end_s, result = time.monotonic() + patience_s, None
        with suppress(OSError, SetupError):
            while (left_s := end_s - time.monotonic()) > 0:
                result = self._injector.run(f"start {self._spool}", left_s)
                if result != _PROCESS:  # the watcher has not seen it yet
                    break
                time.sleep(_RETRY_S)
        self._is_on = result == "done"
        if self._is_on:
            return None
        return _silent(self._pid) if result is None else _refused(self._pid, _MISSING.get(result, result))

    def stop(self) -> None:
        """Ends it and puts everything in the process back. Where the main thread runs no Python code, the library does that itself when
        memory is next allocated."""
        if self._is_on:
            with suppress(OSError, SetupError):  # it has ended
                self._injector.run("stop", _STOP_S)


def _injector(pid: int, folder: Path) -> Injector:
    """Raises OSError, SetupError."""
    python = find_interpreter(pid)
    reason = "it has no Python interpreter" if python is None else refusal(pid, python)
    if reason is None:
        reason = _refusal_of_process(pid)
    if reason is not None or python is None:
        raise SetupError(_refused(pid, str(reason)))
    return Injector(pid, python, folder, attached_library())


def _refusal_of_process(pid: int) -> str | None:
    identity, own = read_identity(pid), read_identity("self")
    if identity is None or own is None or identity.user != own.user:
        return "it belongs to another user, who cannot write into the recording"
    if any(each.path.endswith(f"/{LIBRARY_NAME}".encode()) for each in mappings_of(pid)):
        return "it was started by scalene-record, whose recording has its memory"
    if seccomp_filters(pid) > seccomp_filters():
        return "it has a seccomp filter, which may forbid what the recorder does"
    return None


def _refused(pid: int, reason: str) -> str:
    return f"The memory of process {pid} cannot be recorded: {reason}. {_DORMANT}, or leave --memory out."


def _silent(pid: int) -> str:
    return (
        f"The memory of process {pid} cannot be recorded: its main thread ran no Python code for {_START_S:.0f} s. Try again "
        "when it does, or leave --memory out."
    )
