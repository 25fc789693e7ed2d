"""Readable names of C++ and Rust functions, for people: without parameters and return types.

The names are hostile: 240 characters of one became 285 MB, since mangled names refer back to their parts. So they are
read by another process (:mod:`.demangler`), whose memory and time are limited, by the packages cpp_demangle (written in
Rust) and rust_demangler (in Python), where they are installed (extra ``demangle``). Short names come first, because only
long ones are costly: if they use up the time of all names, the short ones have been read.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

_PACKAGES = ("cpp_demangle", "rust_demangler")
_PROGRAM = Path(__file__).with_name("demangler.py")
#: When the process is ended.
_TIMEOUT_S = 3.0


def is_mangled(name: str) -> bool:
    """May :func:`read_names` have a readable form of the name?"""
    return (name.startswith("_Z") or (name.startswith("_R") and "A" <= name[2:3] <= "Z")) and "\0" not in name


def read_names(names: Sequence[str], reader: Reader | None = None) -> dict[str, str]:
    """Readable forms of the mangled ones among the names; "" = there is none. Names that were not reached in time, or have
    ended the process, are left out. ``reader``: one that was started before; it can be used once."""
    wanted = sorted((each for each in dict.fromkeys(names) if is_mangled(each)), key=len)
    found: dict[str, str] = {}
    for answer in _read_apart(wanted, reader):
        number, _, text = answer.partition(":")
        if number.isdecimal() and int(number) < len(wanted):
            found[wanted[int(number)]] = text
    return found


class Reader:
    """The other process, which starts while the names are not known yet, and ends when it has read some, or when its pipe is
    closed. There is none without the packages, or where the system refuses it."""

    def __init__(self) -> None:
        specs = (find_spec(each) for each in _PACKAGES)
        folders = {str(Path(spec.origin).parent.parent) for spec in specs if spec and spec.origin}
        self._process: subprocess.Popen[bytes] | None = None
        if not folders or not sys.executable or not _PROGRAM.is_file():
            return  # a recorder that was packed into one file has no interpreter, and sys.executable is the recorder
        import subprocess  # here, because few recordings have such names

        command = [sys.executable, "-I", "-S", str(_PROGRAM), *sorted(folders)]
        pipe = subprocess.PIPE
        with suppress(OSError):
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)

    def output_for(self, text: bytes) -> bytes:
        """What the process gives back for ``text`` until it ends. Call it once."""
        if self._process is None:
            return b""
        from subprocess import TimeoutExpired

        with self._process as process:
            try:
                output, _ = process.communicate(text, _TIMEOUT_S)
            except TimeoutExpired as expired:
                process.kill()
                output = expired.output or b""  # do not read on: a child of the process may hold the pipe open
        return output


def _read_apart(names: Sequence[str], reader: Reader | None) -> list[str]:
    """What the other process gave back: number and readable form of each name that it could read."""
    if not names:
        return []
    text = "\0".join(names).encode("utf-8", "replace")
    output = (reader or Reader()).output_for(text)
    return output.decode("utf-8", "replace").split("\0")[:-1]
