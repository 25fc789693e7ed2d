"""Stores the source files that stacks point to in the trace, so that a report needs no checkout."""

from __future__ import annotations

import io
import os
import re
import tokenize
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...formats.dataclass import dataclass, field
from ...formats.trace.text import storable
from ..rights.opening import OpenFile, Withheld, open_regular_file
from .notebooks import read_cells

if TYPE_CHECKING:
    from zipfile import ZipFile

LARGEST_BYTES = 2 * 1024 * 1024
#: Of a zip archive: its directory is read as a whole.
LARGEST_ARCHIVE_BYTES = 64 * 1024 * 1024
#: All texts together: the analysis refuses longer pages of texts, and a page may have a thousand files.
MOST_BYTES = 48 * 1024 * 1024
_LIBRARY = re.compile(r"/lib(?:64|32)?/python3\.\d+t?/(?!(?:site|dist)-packages/)")


@dataclass()
class Sources:
    """The ``source`` table, and the number of files that could not be read, or may not be (``withheld``).
    ``text_bytes``: size of the texts in the trace so far; ``modified_ns``: times of modification by the names of files."""

    table: dict[str, list[Any]] = field(default_factory=lambda: {"file": [], "text": [], "changed": []})
    unread: int = 0
    withheld: int = 0
    text_bytes: int = 0
    modified_ns: dict[str, int] = field(default_factory=dict)

    def taken(self) -> dict[str, list[Any]]:
        """The table, of which no reference is kept."""
        table, self.table = self.table, {}
        return table


@dataclass()
class KnownTexts:
    """Texts that were read while the program ran. ``modified_ns``: times of modification by the files' names in the trace;
    ``text_bytes``: size of all texts."""

    modified_ns: dict[str, int] = field(default_factory=dict)
    text_bytes: int = 0

    def changed(self, folder: str) -> int:
        """The number of files that have been modified since."""
        found = 0
        for file, modified_ns in self.modified_ns.items():
            with suppress(OSError, ValueError):  # gone, in an archive, or not named in UTF-8
                path = file if file.startswith("/") else f"{folder}/{file}"
                found += os.stat(path).st_mtime_ns != modified_ns  # noqa: PTH116 (three times as fast)
        return found


def read_sources(
    files: Iterable[str],
    innermost: set[str],
    folder: str,
    started_real_ns: int,
    given: Mapping[str, str | None],
    open_file: OpenFile = open_regular_file,
    notebooks: Iterable[str] = (),
    known: KnownTexts | None = None,
) -> Sources:
    """The texts of ``files`` (names as compiled; relative ones are taken from ``folder``).

    A file of the standard library is read only if it is in ``innermost``, the files of the innermost frames of samples and
    of programs.
    ``started_real_ns``: a file that was modified later counts as changed; ``given``: texts that no file
    holds by the names that they have, None = unknown: a file of such a name is another one; ``open_file``: opens a regular file as :func:`..rights.opening.open_regular_file` does;
    ``notebooks``: in which cells are looked for; ``known``: files that are left out, since their texts were read before.
    """
    known = known or KnownTexts()
    names = sorted(each for each in set(files) if storable(each) not in known.modified_ns)
    cells = read_cells(names, notebooks, folder, open_file)
    sources, archives = Sources(unread=cells.unread, withheld=cells.withheld), _Archives(open_file)
    sources.text_bytes = known.text_bytes
    for file in names:
        text = given.get(file, cells.texts.get(file))
        if text is not None:
            _add(sources, file, text, False)
        elif file in given:
            sources.unread += 1
        elif not file.startswith("<") and (file in innermost or not is_standard_library(file)):
            _read(sources, file, Path(folder, file), started_real_ns, open_file, archives)
    archives.close()
    return sources


def is_standard_library(file: str) -> bool:
    """Is ``file`` in the standard library of some Python?"""
    return _LIBRARY.search(file) is not None


def _add(sources: Sources, file: str, text: str, changed: bool) -> bool:
    """False: there are too many texts."""
    size = len(text) if text.isascii() else len(text.encode(errors="replace"))
    if sources.text_bytes + size > MOST_BYTES:
        sources.unread += 1
        return False
    sources.text_bytes += size
    for name, value in (("file", storable(file)), ("text", storable(text)), ("changed", changed)):
        sources.table[name].append(value)
    return True


def _read(
    sources: Sources, file: str, path: Path, started_real_ns: int, open_file: OpenFile, archives: _Archives
) -> None:
    try:
        try:
            data, modified_ns = _contents(open_file(path))
        except NotADirectoryError:
            data, modified_ns = archives.contents(path)
        if _add(sources, file, _decoded(data), modified_ns > started_real_ns):
            sources.modified_ns[storable(file)] = modified_ns
    except (FileNotFoundError, NotADirectoryError):
        return  # deleted, or never a file: generated code may have any name
    except Withheld:
        sources.withheld += 1
    except Exception:  # of a damaged archive, zipfile and the decompressors raise errors of many kinds
        sources.unread += 1


class _Archives:
    """The zip archives (zipapps, eggs) that files were looked for in; each is opened once."""

    def __init__(self, open_file: OpenFile) -> None:
        self._open_file = open_file
        self._known: dict[Path, tuple[ZipFile, int] | Exception] = {}
        self._opened = ExitStack()

    def close(self) -> None:
        """Closes all."""
        self._opened.close()

    def contents(self, path: Path) -> tuple[bytes, int]:
        """Bytes of a file in an archive, and the archive's modification time. Raises NotADirectoryError if ``path`` leads
        through no regular file, FileNotFoundError if the archive has no such file, ValueError if either is too large, and what
        opening, zipfile and the decompressors raise."""
        for place in path.parents:
            if place not in self._known:
                try:
                    self._known[place] = self._archive(place)
                except NotADirectoryError:
                    continue
                except Exception as error:  # raised again for every file in it
                    self._known[place] = error
            known = self._known[place]
            if isinstance(known, Exception):
                raise known
            return self._member(known[0], path.relative_to(place).as_posix()), known[1]
        raise NotADirectoryError(path)

    def _archive(self, place: Path) -> tuple[ZipFile, int]:
        file = self._opened.enter_context(os.fdopen(self._open_file(place), "rb"))
        status = os.fstat(file.fileno())
        if status.st_size > LARGEST_ARCHIVE_BYTES:
            raise ValueError("too large for an archive")
        from zipfile import ZipFile  # here, because few recordings need it

        return ZipFile(file), status.st_mtime_ns

    def _member(self, archive: ZipFile, name: str) -> bytes:
        if name not in archive.NameToInfo:
            raise FileNotFoundError(name)
        with archive.open(name) as member:
            data = member.read(LARGEST_BYTES + 1)
        if len(data) > LARGEST_BYTES:
            raise ValueError("too large for a source file")
        return data


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
    text = data.decode(encoding)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
