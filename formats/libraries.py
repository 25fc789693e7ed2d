"""Finds the package's libraries in C, which are installed together."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path

from .errors import LibraryMissing

SHIM_NAME = "libscalene_shim.so"
#: The library that runs inside the recorder.
WATCH_NAME = "libscalene_watch.so"
#: An environment variable that names another shim, for example a debug build. The other libraries are beside it.
OVERRIDE_VARIABLE = "SCALENE_TRACE_SHIM"


def library_path(name: str) -> Path:
    """The path of the library ``name``. Raises LibraryMissing."""
    override = os.environ.get(OVERRIDE_VARIABLE)
    for path in [_overriding(Path(override), name)] if override else _installed(name):
        if path.is_file():
            return path.resolve()
    raise LibraryMissing(name)


def watch_library() -> ctypes.CDLL:
    """The library that runs inside the recorder; ``ctypes.get_errno`` is of its last call. Raises LibraryMissing, OSError."""
    return _loaded(library_path(WATCH_NAME))


@cache
def _loaded(path: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(path), use_errno=True)


def _overriding(shim: Path, name: str) -> Path:
    return shim if name == SHIM_NAME else shim.resolve().with_name(name)


def _installed(name: str) -> list[Path]:
    package = sys.modules[__name__.partition(".")[0]]
    roots = [*package.__path__, *(str(Path(entry, "scalene_trace")) for entry in sys.path)]
    return [Path(root, "shim", name) for root in roots]
