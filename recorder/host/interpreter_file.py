"""What the file of an interpreter says about it: version, build, and whether its frames can be read. It is not started.

CPython exports its version (``Py_Version``, from 3.11 on) and its state (``_PyRuntime``), which from 3.13 on begins with a
table about the build. Both are initialised data, so they are in the file: in the executable, or in the libpython that it is
linked with.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..convert.native.dynamic import data_at, dynamic_entries, dynamic_symbols, sections_of
from ..convert.native.elf import ElfFile
from ..processor import MACHINE
from ..shim_library import watch_library

_NEEDED, _RPATH, _RUNPATH = 1, 15, 29
_RUNTIME_BYTES = 1024  # of pylayout.h
#: How the table begins, and where it says that the build has no GIL.
_COOKIE, _FREE_THREADED_AT = b"xdebugpy", 16
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
_FINAL = 0xF0
#: What scalene_layout returns.
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
        level = "" if self.version & 0xF0 == _FINAL else ", before its release"
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
    has_table = found.runtime[:8] == _COOKIE
    by_table = has_table and int.from_bytes(found.runtime[_FREE_THREADED_AT : _FREE_THREADED_AT + 8], "little") != 0
    version = found.version if found.version is not None else 3 << 24 | int(match[1]) << 16 | _FINAL if match else 0
    by_name = bool(match and match[2])
    kind = -1 if by_name and not by_table else _layout(version, found.runtime)
    return Build(version, found.version is not None, by_table or by_name, kind >= 0, kind == _NEEDS_READS)


def _layout(version: int, runtime: bytes) -> int:
    """Asks the table that the shim uses itself."""
    data = ctypes.create_string_buffer(runtime.ljust(_RUNTIME_BYTES, b"\0"), _RUNTIME_BYTES)
    found: int = watch_library().scalene_layout(ctypes.c_uint32(version), data)
    return found


def _read(path: Path) -> _Contents:
    """Raises OSError, ValueError."""
    with ElfFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), time.monotonic() + _TIME_LIMIT_S) as file:
        sections = sections_of(file)
        symbols = dynamic_symbols(file, sections, frozenset((b"Py_Version", b"_PyRuntime")))
        values = {name: data_at(file, each.address, _RUNTIME_BYTES) for name, each in symbols.items()}
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
