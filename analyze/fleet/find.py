"""Finds the traces of a fleet: files ``*.parquet`` at any depth."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SUFFIX = ".parquet"
#: The folder of a recording that is under way, or was killed.
_SPOOL = ".spool"


@dataclass(frozen=True)
class Found:
    """A file that may be a trace. ``name``: relative to the fleet's folder, as text; ``mode``: of the file."""

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
    for place, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")) and not name.endswith(_SPOOL))
        for name in sorted(files):
            if name.endswith(SUFFIX) and not name.startswith(("_", ".")):
                path = Path(place, name)
                if (found := _found(path, root)) is not None:
                    yield found


def _found(path: Path, root: str) -> Found | None:
    """The file, if it is one, and within the fleet."""
    try:
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root):
            return None
        status = path.stat()
    except OSError:
        return None
    if not path.is_file():
        return None
    name = os.fsencode(path.relative_to(root)).decode("utf-8", "backslashreplace")
    return Found(path, name, status.st_size, status.st_mtime_ns, status.st_mode & 0o777)
