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
#: An environment variable that names another shim, for example a debug build.
OVERRIDE_VARIABLE = "SCALENE_TRACE_SHIM"


def library_path(name: str) -> Path:
    """The path of the library ``name``: of another one than the shim, that beside the shim, or else an installed one. Raises
    LibraryMissing."""
    candidates = _shims() if name == SHIM_NAME else [*_beside(name), *_installed(name)]
    for path in candidates:
        if path.is_file():
            return path.resolve()
    raise LibraryMissing(name)


def watch_library() -> ctypes.CDLL:
    """The library that runs inside the recorder; ``ctypes.get_errno`` is of its last call. Raises LibraryMissing, OSError."""
    return _loaded(library_path(WATCH_NAME))


@cache
def _loaded(path: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(path), use_errno=True)


def _shims() -> list[Path]:
    override = os.environ.get(OVERRIDE_VARIABLE)
    return [Path(override)] if override else _installed(SHIM_NAME)


def _beside(name: str) -> list[Path]:
    try:
        return [library_path(SHIM_NAME).with_name(name)]
    except LibraryMissing:
        return []


def _installed(name: str) -> list[Path]:
    package = sys.modules[__name__.partition(".")[0]]
    roots = [*package.__path__, *(str(Path(entry, "scalene_trace")) for entry in sys.path)]
    return [Path(root, "shim", name) for root in roots]
