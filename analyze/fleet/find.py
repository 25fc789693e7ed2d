"""Finds the traces of a fleet: files ``*.parquet`` at any depth."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SUFFIX = ".parquet"
#: The folder of a recording that is under way, or was killed.
_SPOOL = ".spool"


@dataclass(frozen=True)
class Found:
    """A file that may be a trace. ``name``: relative to the fleet's folder, as text; ``mode``: that of
    a file of the indexer's which only those may read who may read this one."""

    path: Path
    name: str
    size_bytes: int
    mtime_ns: int
    mode: int

    @property
    def key(self) -> tuple[str, int, int]:
        """By this, a file that was read before is known."""
        return self.name, self.size_bytes, self.mtime_ns


def find_files(folder: Path) -> Iterator[Found]:
    """The files below ``folder``, in the order of their names. Names that begin with ``_`` or ``.`` are left out, as Spark and
    others do, and so are links that lead out of the folder, folders that cannot be read or are linked to, and those of
    recordings that are under way.

    Raises OSError if ``folder`` itself cannot be read.
    """
    root = os.path.realpath(folder)
    os.scandir(root).close()
    readers = _Readers(root)
    for place, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")) and not name.endswith(_SPOOL))
        for name in sorted(files):
            if name.endswith(SUFFIX) and not name.startswith(("_", ".")):
                path = Path(place, name)
                if (found := _found(path, root, readers)) is not None:
                    yield found


def _found(path: Path, root: str, readers: _Readers) -> Found | None:
    """The file, if it is one, and within the fleet."""
    try:
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root):
            return None
        status = path.stat()
        mode = readers.mode(path, status)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    name = os.fsencode(path.relative_to(root)).decode("utf-8", "backslashreplace")
    return Found(path, name, status.st_size, status.st_mtime_ns, mode)


class _Readers:
    """Who may read the files of a fleet besides their owners: the group that files of the indexer get there, and all others."""

    def __init__(self, root: str) -> None:
        status = Path(root).stat()
        self._root = Path(root)
        self._group = status.st_gid if status.st_mode & stat.S_ISGID else os.getegid()
        self._known: dict[Path, tuple[bool, bool]] = {}

    def mode(self, path: Path, status: os.stat_result) -> int:
        """The mode of a file of the indexer's that only those may read who may read the file at ``path``."""
        folder = (path.resolve() if path.is_symlink() else path).parent
        group, others = self._both(self._allowed(status, stat.S_IROTH), self._of(folder))
        return 0o600 | (0o040 if group else 0) | (0o004 if others else 0)

    def _of(self, folder: Path) -> tuple[bool, bool]:
        """May they pass through all folders from the fleet's down to this one?"""
        if folder not in self._known:
            own = self._allowed(folder.stat(), stat.S_IXOTH)
            if folder != self._root:
                own = self._both(own, self._of(folder.parent)) if folder.parent != folder else (False, False)
            self._known[folder] = own
        return self._known[folder]

    def _allowed(self, status: os.stat_result, bit: int) -> tuple[bool, bool]:
        """Does a file permit this to the group, and to all others? If it has another group, its members may be in either."""
        of_group, of_others = bool(status.st_mode & bit << 3), bool(status.st_mode & bit)
        is_same = status.st_gid == self._group
        return (of_group if is_same else of_group and of_others), of_others and (is_same or of_group)

    @staticmethod
    def _both(one: tuple[bool, bool], other: tuple[bool, bool]) -> tuple[bool, bool]:
        return one[0] and other[0], one[1] and other[1]
