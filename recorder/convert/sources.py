"""Stores the source files that stacks point to in the trace, so that a report needs no checkout."""

from __future__ import annotations

import io
import os
import re
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...formats.trace.text import storable
from ..rights.opening import OpenFile, Withheld, open_regular_file

LARGEST_BYTES = 2 * 1024 * 1024
#: All texts together: the analysis refuses longer pages of texts, and a page may have a thousand files.
MOST_BYTES = 48 * 1024 * 1024
#: File name of the code that ``-c`` runs.
COMMAND_FILE = "<string>"
_LIBRARY = re.compile(r"/lib(?:64|32)?/python3\.\d+t?/(?!(?:site|dist)-packages/)")


@dataclass
class Sources:
    """The ``source`` table, and the number of files that could not be read, or may not be (``withheld``)."""

    table: dict[str, list[Any]] = field(default_factory=lambda: {"file": [], "text": [], "changed": []})
    unread: int = 0
    withheld: int = 0
    text_bytes: int = 0


def read_sources(
    files: Iterable[str],
    innermost: set[str],
    folder: str,
    started_real_ns: int,
    command_code: str | None,
    open_file: OpenFile = open_regular_file,
) -> Sources:
    """The texts of ``files`` (names as compiled; relative ones are taken from ``folder``).

    A file of the standard library is read only if it is in ``innermost``, the files of the innermost frames of samples.
    ``started_real_ns``: a file that was modified later counts as changed; ``command_code``: the text of ``-c``;
    ``open_file``: opens a regular file as :func:`..rights.opening.open_regular_file` does.
    """
    sources = Sources()
    for file in sorted(set(files)):
        if file == COMMAND_FILE and command_code is not None:
            _add(sources, file, command_code, False)
        elif not file.startswith("<") and (file in innermost or not is_standard_library(file)):
            _read(sources, file, Path(folder, file), started_real_ns, open_file)
    return sources


def is_standard_library(file: str) -> bool:
    """Is ``file`` in the standard library of some Python?"""
    return _LIBRARY.search(file) is not None


def _add(sources: Sources, file: str, text: str, changed: bool) -> None:
    sources.text_bytes += len(text.encode(errors="replace"))
    if sources.text_bytes > MOST_BYTES:
        sources.unread += 1
        return
    for name, value in (("file", storable(file)), ("text", storable(text)), ("changed", changed)):
        sources.table[name].append(value)


def _read(sources: Sources, file: str, path: Path, started_real_ns: int, open_file: OpenFile) -> None:
    try:
        data, modified_ns = _contents(open_file(path))
        _add(sources, file, _decoded(data), modified_ns > started_real_ns)
    except (FileNotFoundError, NotADirectoryError):
        return  # deleted, or never a file: generated code may have any name
    except Withheld:
        sources.withheld += 1
    except (OSError, SyntaxError, ValueError, LookupError):
        sources.unread += 1


def _contents(descriptor: int) -> tuple[bytes, int]:
    """Bytes and modification time of an open file of at most LARGEST_BYTES. Raises OSError, and ValueError if it is larger."""
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if status.st_size > LARGEST_BYTES:
            raise ValueError("too large for a source file")
        return file.read(LARGEST_BYTES), status.st_mtime_ns


def _decoded(data: bytes) -> str:
    """Source text in its declared encoding (PEP 263), with "\\n" at the end of lines. Raises SyntaxError,
    UnicodeDecodeError, LookupError."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return io.TextIOWrapper(io.BytesIO(data), encoding, newline=None).read()
