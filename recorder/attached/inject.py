"""Lets the interpreter of a running process run a script, as ``sys.remote_exec`` does (PEP 768, from CPython 3.14 on). The
process may have another version of Python than the recorder: where its fields lie, its own table says."""

from __future__ import annotations

import ctypes
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import SetupError
from ..runtime_table import RUNTIME_BYTES, is_free_threaded
from .interpreter import Interpreter

#: Position of the debugger's offsets in the table of each version, and of others in all of them.
_POSITIONS = {0x30E: 712, 0x30F: 840}
_HEAD, _NEXT_INTERPRETER, _MAIN = 40, 64, 80
_PLEASE_STOP = 1 << 5
_POLL_S = 0.002
#: If the recorder that has asked for it was killed, another one's script may interrupt this one between two bytecodes.
_SCRIPT = """\
import posix, sys
try:
    result = posix.open({result!r}, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC, 0o600)
except OSError:
    pass
else:
    text = "unknown"
    try:
        import _imp
        library = type(sys.implementation)(name="scalene_attached", origin={library!r}, parent="")
        sys._scalene_trace = {command!r}
        _imp.create_dynamic(library)
    except ImportError as error:
        text = str(error)
    finally:
        vars(sys).pop("_scalene_trace", None)
        try:
            posix.write(result, (text.replace("\\n", " ") + "\\n").encode("utf-8", "replace"))
        finally:
            posix.close(result)
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
    """Runs commands of the library for attached processes in the process ``pid``. ``folder`` is where the script lies, which
    the process must be able to read."""

    def __init__(self, pid: int, python: Interpreter, folder: Path, library: Path) -> None:
        self._pid, self._python, self._folder, self._library = pid, python, folder, library
        self._count = 0

    def run(self, command: str, patience_s: float) -> str | None:
        """Carries out a command in the main thread and returns its result: "done", or what is missing; None = that thread ran no
        Python code in that time. Nothing is left that would be run later. Raises OSError, SetupError.

        Other threads are not asked: the state of one that ends is freed, and would be written to after that.
        """
        self._count += 1
        script, result = (self._folder / f"attach-{self._count}.{each}" for each in ("py", "txt"))
        script.write_text(_SCRIPT.format(result=str(result), command=command, library=str(self._library)))
        try:
            return self._run(script, result, patience_s)
        finally:
            for each in (script, result):
                with suppress(OSError):
                    each.unlink()

    def _run(self, script: Path, result: Path, patience_s: float) -> str | None:
        end_s = time.monotonic() + patience_s
        if self._ask(self._place(), script, patience_s):
            return _result(result, end_s + 1)
        with suppress(FileExistsError):
            os.close(os.open(result, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            return None
        return _result(result, end_s + 1)

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
        interpreter = self._pointer(self._python.runtime + _word(table, _HEAD))
        main = self._pointer(interpreter + _word(table, _MAIN))
        if not main:
            raise SetupError(f"Process {self._pid} has no main thread that runs Python.")
        return _Place(main + breaker, main + support + pending, main + support + path, room)

    def _pointer(self, address: int) -> int:
        return int.from_bytes(self._read(address, 8), "little")

    def _read(self, address: int, size: int) -> bytes:
        return _move("process_vm_readv", self._pid, address, bytes(size))

    def _write(self, address: int, data: bytes) -> None:
        _move("process_vm_writev", self._pid, address, data)


def refusal(pid: int, python: Interpreter) -> str | None:
    """Why no script can be run in the process; None if it can. Raises OSError."""
    table = _move("process_vm_readv", pid, python.runtime, bytes(RUNTIME_BYTES))
    if not python.is_known or python.version >> 16 not in _POSITIONS:
        return "its interpreter is not CPython 3.14 or 3.15"
    if is_free_threaded(table):
        return "its interpreter is a free-threaded build"
    at = _POSITIONS[python.version >> 16]
    interpreter = int.from_bytes(
        _move("process_vm_readv", pid, python.runtime + _word(table, _HEAD), bytes(8)), "little"
    )
    if not interpreter:
        return "its interpreter does not run"
    enabled = _move("process_vm_readv", pid, interpreter + _word(table, at + 16), bytes(4))
    if enabled == bytes(4):
        return "its interpreter refuses debuggers (-X disable-remote-debug, PYTHON_DISABLE_REMOTE_DEBUG)"
    if any(_move("process_vm_readv", pid, interpreter + _word(table, _NEXT_INTERPRETER), bytes(8))):
        return "it has several interpreters"
    if not any(_move("process_vm_readv", pid, interpreter + _word(table, _MAIN), bytes(8))):
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


def _move(name: str, pid: int, address: int, data: bytes) -> bytes:
    """Reads as many bytes as ``data`` has, or writes them. Raises OSError."""
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.restype = ctypes.c_ssize_t
    memory = ctypes.create_string_buffer(data, len(data))
    own = (ctypes.c_size_t * 2)(ctypes.addressof(memory), len(data))
    other = (ctypes.c_size_t * 2)(address, len(data))
    done = function(pid, own, ctypes.c_ulong(1), other, ctypes.c_ulong(1), ctypes.c_ulong(0))
    if done != len(data):
        number = ctypes.get_errno() if done < 0 else 14
        raise OSError(number, os.strerror(number))
    return memory.raw
