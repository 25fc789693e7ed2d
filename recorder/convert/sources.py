"""Texts of the source files that stacks point to, so that a report needs no checkout."""

from __future__ import annotations

import io
import os
import re
import stat
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..folder.text import storable

LARGEST_BYTES = 2 * 1024 * 1024
#: Name of the code that ``-c`` runs.
COMMAND_FILE = "<string>"
_LIBRARY = re.compile(r"/lib(?:64|32)?/python3\.\d+t?/(?!(?:site|dist)-packages/)")


@dataclass
class Sources:
    """The ``source`` table, and how many files could not be read."""

    table: dict[str, list[Any]] = field(default_factory=lambda: {"file": [], "text": [], "changed": []})
    unread: int = 0


def read_sources(
    files: Iterable[str], innermost: set[str], folder: str, started_real_ns: int, command_code: str | None
) -> Sources:
    """The texts of ``files`` (names as compiled; relative ones are taken from ``folder``).

    Files of the standard library are read only if they are in ``innermost``: those where a sample ended.
    """
    sources = Sources()
    for file in sorted(set(files)):
        if file == COMMAND_FILE and command_code is not None:
            _add(sources, file, command_code, False)
        elif not file.startswith("<") and (file in innermost or not is_standard_library(file)):
            _read(sources, file, Path(folder, file), started_real_ns)
    return sources


def is_standard_library(file: str) -> bool:
    """Is ``file`` in the standard library of some Python?"""
    return _LIBRARY.search(file) is not None


def _add(sources: Sources, file: str, text: str, changed: bool) -> None:
    for name, value in (("file", storable(file)), ("text", storable(text)), ("changed", changed)):
        sources.table[name].append(value)


def _read(sources: Sources, file: str, path: Path, started_real_ns: int) -> None:
    try:
        data, modified_ns = _regular_file(path)
        _add(sources, file, _decoded(data), modified_ns > started_real_ns)
    except (FileNotFoundError, NotADirectoryError):
        return  # gone, or never a file: generated code has names like that
    except (OSError, SyntaxError, ValueError, LookupError):
        sources.unread += 1


def _regular_file(path: Path) -> tuple[bytes, int]:
    """Bytes and modification time of a file of moderate size. Raises OSError, ValueError for anything else."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_BYTES:
            raise ValueError("not a source file")
        return file.read(LARGEST_BYTES), status.st_mtime_ns


def _decoded(data: bytes) -> str:
    """Source text by its declared encoding (PEP 263), lines ended by newlines. Raises SyntaxError, UnicodeDecodeError."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return io.TextIOWrapper(io.BytesIO(data), encoding, newline=None).read()
