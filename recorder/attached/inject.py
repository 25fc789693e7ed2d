"""Lets the interpreter of a running process run a script, as ``sys.remote_exec`` does (PEP 768, from CPython 3.14 on). The
process may have another version of Python than the recorder: where its fields lie, its own table says."""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from pathlib import Path

from ...formats.dataclass import dataclass
from ..errors import SetupError
from ..folder.held import HeldFolder
from ..other_memory import read_memory, write_memory
from ..runtime_table import RUNTIME_BYTES, has_table, is_free_threaded
from .facts import Life, life_of
from .interpreter import Interpreter

#: Position of the debugger's offsets in the table of each version, and of others in all of them.
_POSITIONS = {0x30E: 712, 0x30F: 840}
_HEAD, _NEXT_INTERPRETER, _MAIN = 40, 64, 80
_PLEASE_STOP = 1 << 5
_POLL_S = 0.002
#: The kernel gives each image so many random bytes. Without randomized addresses, nothing else differs after exec.
_RANDOM_BYTES = 16
#: How long a command may take that has begun, in seconds.
_LONGEST_S = 20.0
#: What :meth:`Injector.run` returns if it takes longer.
UNANSWERED = "unanswered"
#: The interpreter runs pending signal handlers when a script begins, after calls, and where loops go back. If one raised an
#: exception there, the program would never get it. So there is no call but that of the library, which ends with an ImportError.
#: The rest is only run if the library was not reached. (Without the last line, the function and its namespace would hold each
#: other.)
#: A thread whose callback of dl_iterate_phdr is Python waits for the GIL with the lock that a first dlopen waits for. Where
#: there may be one, ctypes loads the library first, by a call without the GIL, and with the lock of imports, for which a fork
#: by Python waits: a child that is forked within dlopen could load nothing. Unpacking makes calls without looking for signals.
_SCRIPT = """\
import sys, _imp
def library(): pass
library.name, library.origin, library.parent = "scalene_attached", {library!a}, ""
sys._scalene_trace = {command!a}
try:
    if "_ctypes" in sys.modules:
        foreign = sys.modules["_ctypes"]
        own, = map(foreign.dlopen, (None,))
        dlopen, = map(foreign.dlsym, (own,), ("dlopen",))
        load = map(foreign.call_function, (dlopen,), (({path!a}, 2),))
        hold, free = iter(_imp.acquire_lock, None), iter(_imp.release_lock, None)
        try:
            *_, = hold
            *_, = load
        finally:
            *_, = free
    _imp.create_dynamic(library)
except BaseException as error:
    if "_scalene_trace" in sys.__dict__:
        del sys._scalene_trace
        import posix
        try:
            result = posix.open({result!a}, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC, 0o600)
        except OSError:
            pass
        else:
            try:
                posix.write(result, f"it cannot load the library: {{error!a}}\\n".encode())
            finally:
                posix.close(result)
del library
"""


@dataclass(frozen=True)
class _Place:
    """Where the main thread is asked. ``breaker``: address of the word that it looks at; ``pending``, ``path``: of what it
    looks at then; ``room``: bytes of the path."""

    breaker: int
    pending: int
    path: int
    room: int


class Injector:
    """Runs commands of the library for attached processes in the process ``pid``. ``folder`` is where the script lies."""

    def __init__(self, pid: int, life: Life, python: Interpreter, folder: HeldFolder, library: Path) -> None:
        """``life``: of the image that ``python`` was found in. Raises OSError."""
        self._pid, self._life, self._python = pid, life, python
        self._folder, self._library = folder, library
        self._count, self._random = 0, self._read(life.random, _RANDOM_BYTES)

    def run(self, command: str, patience_s: float) -> str | None:
        """Carries out a command in the main thread and returns its result: "done", or what is missing; UNANSWERED = it has begun and
        does not end; None = that thread ran no Python code in that time, so nothing was done, and nothing will be. Raises OSError,
        SetupError.

        Other threads are not asked: the state of one that ends is freed, and would be written to after that.
        """
        self._count += 1
        script, result = (f"attach-{self._count}.{each}" for each in ("py", "txt"))
        seen, own = self._folder.name_for_others(), self._folder.path
        text = f"{seen / result}\n{command}"
        names = {"library": str(self._library), "path": os.fsencode(self._library)}
        source = _SCRIPT.format(result=str(seen / result), command=text, **names)
        try:
            (own / script).write_text(source, "ascii")
            return self._run(seen / script, own / result, patience_s)
        finally:
            for each in (script, result):
                with suppress(OSError):
                    (own / each).unlink()

    def _run(self, script: Path, result: Path, patience_s: float) -> str | None:
        end_s = time.monotonic() + patience_s
        if self._ask(self._place(), script, patience_s) and (text := _result(result, end_s + 1)):
            return text
        with suppress(FileExistsError):  # else it has begun
            os.close(os.open(result, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            return None
        return _result(result, time.monotonic() + _LONGEST_S) or UNANSWERED

    def _ask(self, place: _Place, script: Path, patience_s: float) -> bool:
        """Asks the thread; returns whether it runs the script. If not, the request is withdrawn."""
        path = os.fsencode(script) + b"\0"
        if len(path) > place.room:
            raise SetupError(
                f"The path {script} is too long for the interpreter of process {self._pid}. Name a shorter -o."
            )
        self._write(place.path, path)
        self._write(place.pending, b"\1\0\0\0")
        self._write(place.breaker, bytes([self._read(place.breaker, 1)[0] | _PLEASE_STOP]))
        end_s = time.monotonic() + patience_s
        while time.monotonic() < end_s:
            if self._read(place.pending, 4) == bytes(4):
                return True
            time.sleep(_POLL_S)
        was_pending = self._read(place.pending, 4) != bytes(4)
        self._write(place.pending, bytes(4))
        return not was_pending

    def _place(self) -> _Place:
        table = self._read(self._python.runtime, RUNTIME_BYTES)
        at = _POSITIONS[self._python.version >> 16]
        breaker, support, _, pending, path, room = (_word(table, at + 8 * index) for index in range(6))
        main = _pointer(
            self._pid, _pointer(self._pid, self._python.runtime + _word(table, _HEAD)) + _word(table, _MAIN)
        )
        if not main:
            raise SetupError(f"Process {self._pid} has no main thread that runs Python.")
        return _Place(main + breaker, main + support + pending, main + support + path, room)

    def _read(self, address: int, size: int) -> bytes:
        return read_memory(self._pid, address, size)

    def _write(self, address: int, data: bytes) -> None:
        """Raises OSError, also if the process has called exec: something else is at that address then."""
        is_same = life_of(self._pid) == self._life and self._read(self._life.random, _RANDOM_BYTES) == self._random
        if not is_same or not has_table(self._read(self._python.runtime, RUNTIME_BYTES)):
            raise ProcessLookupError(errno.ESRCH, "it has called exec, or has ended")
        write_memory(self._pid, address, data)


def refusal(pid: int, python: Interpreter) -> str | None:
    """Why no script can be run in the process; None if it can. Raises OSError."""
    table = read_memory(pid, python.runtime, RUNTIME_BYTES)
    if not python.is_known or python.version >> 16 not in _POSITIONS:
        return "its interpreter is not CPython 3.14 or 3.15"
    if is_free_threaded(table):
        return "its interpreter is a free-threaded build"
    interpreter = _pointer(pid, python.runtime + _word(table, _HEAD))
    if not interpreter:
        return "its interpreter does not run"
    if not any(read_memory(pid, interpreter + _word(table, _POSITIONS[python.version >> 16] + 16), 4)):
        return "its interpreter refuses debuggers (-X disable-remote-debug, PYTHON_DISABLE_REMOTE_DEBUG)"
    if _pointer(pid, interpreter + _word(table, _NEXT_INTERPRETER)):
        return "it has several interpreters"
    if not _pointer(pid, interpreter + _word(table, _MAIN)):
        return "none of its threads is Python's main thread"
    return None


def _result(path: Path, end_s: float) -> str | None:
    while time.monotonic() < end_s:
        with suppress(OSError):
            text = path.read_text("utf-8", "replace")
            if text.endswith("\n"):
                return text.rstrip("\n")
        time.sleep(_POLL_S)
    return None


def _word(table: bytes, at: int) -> int:
    return int.from_bytes(table[at : at + 8], "little")


def _pointer(pid: int, address: int) -> int:
    return int.from_bytes(read_memory(pid, address, 8), "little")
