"""Asks an interpreter to run a script as ``sys.remote_exec`` does (PEP 768, from CPython 3.14 on). The process may have another
version of Python than the recorder: where its fields lie, its own table says."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from ....formats.dataclass import dataclass
from ...errors import SetupError
from ...folder.held import HeldFolder
from .image import POLL_S, Image
from .script import script_for

#: Position of the debugger's offsets in the table of each version, and of others in all of them.
POSITIONS = {0x30E: 712, 0x30F: 840}
_HEAD, _NEXT_INTERPRETER, _MAIN = 40, 64, 80
_PLEASE_STOP = 1 << 5


@dataclass(frozen=True)
class _Place:
    """Where the main thread is asked. ``breaker``: address of the word that it looks at; ``pending``, ``path``: of what it
    looks at then; ``room``: bytes of the path."""

    breaker: int
    pending: int
    path: int
    room: int


class RemoteExec:
    """Asks the main thread of a process. ``folder`` is where the script lies."""

    def __init__(self, image: Image, folder: HeldFolder, library: Path) -> None:
        self._image, self._folder, self._library = image, folder, library
        self._script: Path | None = None

    def needs_library(self) -> bool:
        """Must the library be loaded by a command of its own? No: each script does."""
        return False

    def ask(self, result: Path, command: str, patience_s: float) -> bool:
        """Lets the library carry out a command, whose result goes to the file ``result`` in the folder. Returns whether the script
        is run; if not, the request is withdrawn. Raises OSError, ValueError, SetupError. Call :meth:`finish` when there is a result: the
        interpreter says that it runs the script before it opens it."""
        name = result.with_suffix(".py").name
        self._script = own = self._folder.path / name
        own.write_text(script_for(self._library, result, command), "ascii")
        return self._ask(self._place(), self._folder.name_for_others() / name, patience_s)

    def finish(self) -> None:
        """Removes the script. Nothing remains in the process."""
        script, self._script = self._script, None
        if script:
            with suppress(OSError):
                script.unlink()

    def close(self) -> None:
        """Nothing is held."""

    def _ask(self, place: _Place, script: Path, patience_s: float) -> bool:
        image, path = self._image, os.fsencode(script) + b"\0"
        if len(path) > place.room:
            raise SetupError(
                f"The path {script} is too long for the interpreter of process {image.pid}. Name a shorter -o."
            )
        image.write(place.path, path)
        image.write(place.pending, b"\1\0\0\0")
        image.write(place.breaker, bytes([image.read(place.breaker, 1)[0] | _PLEASE_STOP]))
        end_s = time.monotonic() + patience_s
        while time.monotonic() < end_s:
            if image.read(place.pending, 4) == bytes(4):
                return True
            time.sleep(POLL_S)
        was_pending = image.read(place.pending, 4) != bytes(4)
        image.write(place.pending, bytes(4))
        return not was_pending

    def _place(self) -> _Place:
        image, table = self._image, self._image.table()
        at = POSITIONS[image.python.version >> 16]
        breaker, support, _, pending, path, room = (_word(table, at + 8 * index) for index in range(6))
        main = image.word(image.word(image.python.runtime + _word(table, _HEAD)) + _word(table, _MAIN))
        if not main:
            raise ValueError("none of its threads is Python's main thread")
        return _Place(main + breaker, main + support + pending, main + support + path, room)


def refusal(image: Image) -> str | None:
    """Why no script can be run in the process; None if it can. Raises OSError."""
    table = image.table()
    interpreter = image.word(image.python.runtime + _word(table, _HEAD))
    if not interpreter:
        return "its interpreter does not run"
    if not any(image.read(interpreter + _word(table, POSITIONS[image.python.version >> 16] + 16), 4)):
        return "its interpreter refuses debuggers (-X disable-remote-debug, PYTHON_DISABLE_REMOTE_DEBUG)"
    if image.word(interpreter + _word(table, _NEXT_INTERPRETER)):
        return "it has several interpreters"
    if not image.word(interpreter + _word(table, _MAIN)):
        return "none of its threads is Python's main thread"
    return None


def _word(table: bytes, at: int) -> int:
    return int.from_bytes(table[at : at + 8], "little")
