"""What the file of an interpreter says about it: version, build, and whether its frames can be read. It is not started.

CPython exports its version (``Py_Version``, from 3.11 on) and its state (``_PyRuntime``), which from 3.13 on begins with a
table about the build. Both are initialised data, so they are in the file: in the executable, or in the libpython that it is
linked with.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path

from ...formats.dataclass import dataclass
from ..convert.native.dynamic import data_at, dynamic_entries, dynamic_symbols, sections_of
from ..convert.native.elf import ElfFile
from ..processor import MACHINE
from ..runtime_table import FINAL, RUNTIME_BYTES, frames_readable, is_free_threaded

_NEEDED, _RPATH, _RUNPATH = 1, 15, 29
_TIME_LIMIT_S = 5.0
_FOLDERS = (
    f"/lib/{MACHINE}-linux-gnu",
    f"/usr/lib/{MACHINE}-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
)
_NAME = re.compile(r"(?:lib)?python3\.(\d+)(t?)d?(?:\.so.*)?")
#: What frames_readable returns.
_NEEDS_READS = 1


@dataclass(frozen=True)
class Build:
    """``version``: PY_VERSION_HEX, with patch 0 if only the file's name says it; ``is_exact``: with the patch;
    ``is_free_threaded``: by the table, or the file's name; ``is_known``: whether its frames can be read;
    ``needs_reads``: only by process_vm_readv."""

    version: int
    is_exact: bool
    is_free_threaded: bool
    is_known: bool
    needs_reads: bool

    @property
    def text(self) -> str:
        """For example ``CPython 3.13.0, free-threaded``."""
        major, minor, patch = (self.version >> shift & 0xFF for shift in (24, 16, 8))
        name = f"CPython {major}.{minor}" + (f".{patch}" if self.is_exact else "")
        level = "" if self.version & 0xF0 == FINAL else ", before its release"
        return name + level + (", free-threaded" if self.is_free_threaded else "")


def build_of(path: Path) -> Build | None:
    """The build of the interpreter at ``path``. None if the file is no interpreter, or says too little. Raises OSError if
    it cannot be read."""
    file = Path(os.path.realpath(path))
    with suppress(ValueError):
        found = _read(file)
        library = next((each for each in found.needed if _NAME.fullmatch(each)), None)
        if library is None:
            return _build(found, file.name)
        if place := _find(library, file, found):
            return _build(_read(place), library)
    return None


@dataclass(frozen=True)
class _Contents:
    """``version``, ``runtime``: what the symbols hold, None if there is no such symbol; ``needed``, ``folders``: libraries
    and where they are looked for."""

    version: int | None
    runtime: bytes | None
    needed: list[str]
    folders: list[str]


def _build(found: _Contents, name: str) -> Build | None:
    match = _NAME.fullmatch(name)
    if found.runtime is None or (found.version is None and match is None):
        return None
    by_table = is_free_threaded(found.runtime)
    version = found.version if found.version is not None else 3 << 24 | int(match[1]) << 16 | FINAL if match else 0
    by_name = bool(match and match[2])
    kind = -1 if by_name and not by_table else frames_readable(version, found.runtime)
    return Build(version, found.version is not None, by_table or by_name, kind >= 0, kind == _NEEDS_READS)


def _read(path: Path) -> _Contents:
    """Raises OSError, ValueError."""
    with ElfFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), time.monotonic() + _TIME_LIMIT_S) as file:
        sections = sections_of(file)
        symbols = dynamic_symbols(file, sections, frozenset((b"Py_Version", b"_PyRuntime")))
        values = {name: data_at(file, each.address, RUNTIME_BYTES) for name, each in symbols.items()}
        entries = list(dynamic_entries(file, sections, frozenset((_NEEDED, _RPATH, _RUNPATH))))
        version = values.get("Py_Version")
        folders = [folder for tag, text in entries if tag in (_RPATH, _RUNPATH) for folder in text.split(":")]
        return _Contents(
            int.from_bytes(version[:4], "little") if version else None,
            values.get("_PyRuntime"),
            [text for tag, text in entries if tag == _NEEDED],
            folders,
        )


def _find(library: str, file: Path, found: _Contents) -> Path | None:
    """Where the loader would find ``library``, without its cache."""
    named = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    folders = [each.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", str(file.parent)) for each in found.folders]
    for folder in filter(None, (*folders, *named, *_FOLDERS)):
        if os.path.isfile(path := Path(folder, library)):  # noqa: PTH113 (a folder that may not be searched)
            return path
    return None
