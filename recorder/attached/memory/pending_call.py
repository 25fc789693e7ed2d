"""Asks an interpreter before CPython 3.14, by a call in the queue that it keeps for its main thread. It makes such calls between
two bytecodes, with the GIL. The first one runs a script that loads the library; the others call the library."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from ....formats.dataclass import dataclass
from ...convert.native.dynamic import Symbol, dynamic_symbols, sections_of
from ...convert.native.elf import ElfFile
from ...errors import SetupError
from ..facts import mappings_of
from .image import FILE_TIME_LIMIT_S, POLL_S, Image
from .padding import has_glibc, paddings_of
from .queue import LAYOUTS, Queue, State
from .script import text_for

__all__ = ["LAYOUTS", "PendingCall", "refusal"]

#: Nobody has added a call for so long before ours is added.
_QUIET_S = 0.02
_CALL, _TEXT = "scalene_attached_call", "scalene_attached_text"


@dataclass(frozen=True)
class _Call:
    """``function``, ``argument``: addresses; ``text``: what is at the latter during the call, and ``before``: what was there."""

    function: int
    argument: int
    text: bytes
    before: bytes


class PendingCall:
    """Asks the main thread of a process. Only one may be open for each process, in all recorders."""

    def __init__(self, image: Image, library: Path) -> None:
        """Raises OSError, ValueError, SetupError."""
        self._image, self._library, self._queue = image, library, Queue(image)
        self._call: _Call | None = None
        # Only who may read the process may open this file, so nobody else can take the lock.
        self._lock = os.open(f"/proc/{image.pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise ValueError("another scalene-record is recording its memory") from None

    def close(self) -> None:
        """Lets others ask."""
        os.close(self._lock)

    def needs_library(self) -> bool:
        """Must the library be loaded first?"""
        return self._library_start() is None

    def ask(self, result: Path, command: str, patience_s: float) -> bool:
        """Lets the library carry out a command, whose result goes to the file ``result``. Returns whether the interpreter takes the
        call; if not, it is withdrawn: an empty text is run at some time. Raises OSError, SetupError. Call :meth:`finish` after it."""
        end_s = time.monotonic() + patience_s
        self._call = call = self._call_for(result, command)
        self._write_text(call)
        index = self._put(call, end_s)
        while index is not None and time.monotonic() < end_s:
            if not self._waits(call):
                return True
            self._queue.wake()
            time.sleep(POLL_S)
        self._image.write(call.argument, b"\0")
        return index is not None and not self._waits(call)

    def finish(self) -> None:
        """Puts back what was where the text was. Raises OSError."""
        call, self._call = self._call, None
        if call is None:
            return
        self._image.write(call.argument, b"\0")
        kept = 1 if self._waits(call) else 0  # the first byte goes on to say that the text is empty
        self._image.write(call.argument + kept, call.before[kept : len(call.text)])

    def _waits(self, call: _Call) -> bool:
        state = self._queue.read()
        self._queue.count(state)
        return any(state.call(each) == (call.function, call.argument) for each in state.waiting())

    def _put(self, call: _Call, end_s: float) -> int | None:
        """The index of the call in the queue, which may be there from before; None = something else was in it all the time."""
        places, since_s = None, 0.0
        while True:
            state = self._queue.read()
            if (state.first, state.last) != places:
                places, since_s = (state.first, state.last), time.monotonic()
            self._queue.count(state)
            if (index := _found(state, call)) is None and time.monotonic() >= since_s + _QUIET_S:
                index = self._queue.put(state, call.function, call.argument)
            if index is not None or time.monotonic() > end_s:
                return index
            time.sleep(POLL_S)

    def _write_text(self, call: _Call) -> None:
        """Its first byte comes last: until then, it is empty."""
        image = self._image
        image.write(call.argument, b"\0")
        image.write(call.argument + 1, call.text[1:])
        image.write(call.argument, call.text[:1])

    def _call_for(self, result: Path, command: str) -> _Call:
        start = self._library_start()
        if start is not None:
            symbols = self._symbols()
            function, room = symbols[_CALL], symbols[_TEXT]
            text = f"{result}\n{command}".encode("ascii") + b"\0"
            if len(text) <= room.size:
                return _Call(start + function.address, start + room.address, text, bytes(len(text)))
        else:
            text = text_for(self._library, result, command) + b"\0"
            for each in paddings_of(self._image):
                if len(text) <= len(each.before):
                    return _Call(self._image.python.run_text, each.start, text, each.before)
        raise SetupError(
            f"Process {self._image.pid} has no room for the name of the recording, {result}. Name a shorter -o."
        )

    def _library_start(self) -> int | None:
        status = self._library.stat()
        for each in mappings_of(self._image.pid):
            if each.offset == 0 and each.inode == status.st_ino and each.path == os.fsencode(self._library):
                return each.start
        return None

    def _symbols(self) -> dict[str, Symbol]:
        descriptor = os.open(self._library, os.O_RDONLY | os.O_CLOEXEC)
        with ElfFile(descriptor, time.monotonic() + FILE_TIME_LIMIT_S) as file:
            return dynamic_symbols(file, sections_of(file), frozenset((_CALL.encode(), _TEXT.encode())))


def _found(state: State, call: _Call) -> int | None:
    """The index of a call from before that was withdrawn."""
    for each in state.waiting():
        if state.call(each) == (call.function, call.argument):
            return each
    return None


def refusal(image: Image) -> str | None:
    """Why no call can be made in the process; None if it can. Raises OSError."""
    if not image.python.run_text:
        return "its interpreter does not export PyRun_SimpleString"
    if not has_glibc(image.pid):
        return "its C library is not glibc"
    try:
        Queue(image)
    except ValueError as error:
        return str(error)
    return None
