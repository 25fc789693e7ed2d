"""Records the memory of a process that runs already, by a library that its interpreter loads (injector.py)."""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from pathlib import Path

from ....formats.libraries import SHIM_NAME
from ...errors import SetupError
from ...folder.files import SPOOL_NAME
from ...folder.held import HeldFolder
from ...rights.identity import may_use_descriptors, read_identity
from ...shim_library import attached_library
from ...spool.spool_file import seccomp_filters
from ..facts import life_of, mappings_of
from ..interpreter import find_interpreter
from .injector import UNANSWERED, Injector, refusal

#: How long the main thread of the process may take until it runs Python code: at the start, and at the end.
_START_S, _STOP_S = 10.0, 3.0
_RETRY_S = 0.01
#: How long the end waits for the loader's lock. Without it, the library ends the recording itself when memory is next allocated.
_LOADER_S = 1.0
_DORMANT = "To record its memory, start it with scalene-record --pause-at-start"
#: What the library answers (shim/inside/attached/attached.c, calls.c), and what it means.
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
    "libc": "its C library is unknown",
    "ending": "a thread has not finished with the end of the recording before",
    "loader": "a thread is inside dl_iterate_phdr or dlopen all the time",
    UNANSWERED: "its main thread does not answer",
}
_GONE = "it has ended, or called exec"
#: The watcher has not seen the process yet, another thread has the loader's lock, or the recording before is about to end.
_AGAIN = ("process", "loader", "ending")


class AttachedMemory:
    """The recording of the memory of the process ``pid``. ``folder`` is that of the recording, with the spool in it."""

    def __init__(self, pid: int, folder: HeldFolder) -> None:
        """Loads the library into the process, which changes nothing else yet. Raises SetupError, with one sentence that says why
        its memory cannot be recorded and what to do."""
        self._pid, self._is_on = pid, False
        try:
            self._folder, self._injector = folder, _injector(pid, folder)
            result = self._checked()
        except (OSError, ValueError) as error:
            if _is_gone(pid, error):
                raise SetupError(_refused(pid, _GONE)) from error
            raise SetupError(f"The memory of process {pid} cannot be recorded: {error}. {_DORMANT}.") from error
        if result is None:
            raise SetupError(_silent(pid))
        if result != "done":
            raise SetupError(_refused(pid, _MISSING.get(result, result)))

    def _checked(self) -> str | None:
        """Raises OSError, ValueError, SetupError."""
        result = None
        try:
            result = self._run("check", _START_S)
        finally:
            if result != "done":
                self._injector.close()
        return result

    def _run(self, command: str, patience_s: float) -> str | None:
        """Runs it again while something is missing that soon will be there. Raises OSError, ValueError, SetupError."""
        end_s, result = time.monotonic() + patience_s, None
        while (left_s := end_s - time.monotonic()) > 0:
            result = self._ask(command, left_s)
            if result not in _AGAIN:
                break
            time.sleep(_RETRY_S)
        return result

    def _ask(self, command: str, patience_s: float) -> str | None:
        """Runs a command, unless the process can open no script and no file for the result any more: its interpreter would print
        that. Raises OSError, ValueError, SetupError."""
        reason = _refusal_of_access(self._pid) or _refusal_of_folder(self._pid, self._folder)
        if reason:
            raise SetupError(_refused(self._pid, reason))
        return self._injector.run(command, patience_s)

    def start(self, patience_s: float = _START_S) -> str | None:
        """Begins the recording. Call it when the watcher runs. Returns why that failed, None = it has begun."""
        reason, result = _filter_of(self._pid), None
        if reason:
            return _refused(self._pid, reason)
        try:
            result = self._run(f"start {self._folder.name_for_others() / SPOOL_NAME}", patience_s)
        except SetupError as error:
            self._injector.close()
            return str(error)
        except (OSError, ValueError) as error:
            self._injector.close()
            return _refused(self._pid, _GONE if _is_gone(self._pid, error) else str(error))
        self._is_on = result in ("done", UNANSWERED)
        if result == "done" and (reason := _filter_of(self._pid)):  # set since then, before the library could see it
            self.stop()
            return _refused(self._pid, reason)
        if result == "done":
            return None
        if not self._is_on:
            self._injector.close()
        return _silent(self._pid) if result is None else _refused(self._pid, _MISSING.get(result, result))

    def stop(self) -> None:
        """Ends it and puts everything in the process back. Where the main thread runs no Python code, another thread has the
        loader's lock, or the process has become another user (or called chroot), the library does that itself when memory is
        next allocated."""
        if not self._is_on:
            return
        self._is_on = False
        end_s = time.monotonic() + _LOADER_S
        with suppress(OSError, ValueError, SetupError):  # it has ended, or called exec
            while self._ask("stop", _STOP_S) in _AGAIN and time.monotonic() < end_s:
                time.sleep(_RETRY_S)
        self._injector.close()


def _injector(pid: int, folder: HeldFolder) -> Injector:
    """Raises OSError, SetupError."""
    life, python = life_of(pid), find_interpreter(pid)
    reason = "it has no Python interpreter" if python is None else refusal(pid, life, python)
    reason = reason or _refusal_of_process(pid) or _refusal_of_folder(pid, folder)
    if reason is not None or python is None:
        raise SetupError(_refused(pid, str(reason)))
    return Injector(pid, life, python, folder, attached_library())


def _is_gone(pid: int, error: Exception) -> bool:
    """Has it ended, or is none of the memory there any more that it had?"""
    is_gone = isinstance(error, OSError) and error.errno in (errno.ESRCH, errno.EFAULT)
    return is_gone or not Path(f"/proc/{pid}").exists()


def _refusal_of_access(pid: int) -> str | None:
    """Where it may not open what the recorder has made, or would not find it. Raises OSError."""
    identity, own = read_identity(pid), read_identity("self")
    if identity is None:
        raise ProcessLookupError(errno.ESRCH, "it has ended")
    if own is None or identity.user != own.user:
        return "it belongs to another user, who cannot write into the recording"
    if not os.path.samestat(os.stat(f"/proc/{pid}/root"), os.stat("/")):  # noqa: PTH116
        return "it has another root folder (chroot), where the recording is not found"
    return None


def _refusal_of_process(pid: int) -> str | None:
    if reason := _refusal_of_access(pid):
        return reason
    if any(each.path.endswith(f"/{SHIM_NAME}".encode()) for each in mappings_of(pid)):
        return "it was started by scalene-record, whose recording has its memory"
    return _filter_of(pid)


def _refusal_of_folder(pid: int, folder: HeldFolder) -> str | None:
    """Where the folder is reached by our descriptor, may the process use that?"""
    if folder.name_for_others() == folder.current_name() or may_use_descriptors(pid):
        return None
    return (
        "other users may rename a folder above the recording, or its name is not printable ASCII, and the process has fewer "
        "capabilities than scalene-record, so it cannot reach the recording otherwise (name an -o in a folder of yours)"
    )


def _filter_of(pid: int) -> str | None:
    """Why it cannot be recorded if one of its threads has a seccomp filter that we have not."""
    own, threads = seccomp_filters(), []
    with suppress(OSError):
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 (names are enough)
    if any(seccomp_filters(f"{pid}/task/{each}") > own for each in threads):
        return "it has a seccomp filter, which may forbid what the recorder does"
    return None


def _refused(pid: int, reason: str) -> str:
    return f"The memory of process {pid} cannot be recorded: {reason}. {_DORMANT}, or leave --memory out."


def _silent(pid: int) -> str:
    return (
        f"The memory of process {pid} cannot be recorded: its main thread ran no Python code for {_START_S:.0f} s. Try again "
        "when it does, or leave --memory out."
    )
