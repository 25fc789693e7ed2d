"""Finds the shim library, and a path to it that LD_PRELOAD can hold."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import SetupError

LIBRARY_NAME = "libscalene_shim.so"
#: The library that runs inside the recorder, beside the shim.
ATTACHED_NAME = "libscalene_attached.so"
WATCH_NAME = "libscalene_watch.so"
#: An environment variable that names another shim, for example a debug build.
OVERRIDE_VARIABLE = "SCALENE_TRACE_SHIM"
#: The loader splits LD_PRELOAD at spaces and colons and expands "$"; shells split at ";".
_UNUSABLE = frozenset(" :;$\\")


def find_shim() -> Path:
    """Path of the shim library. Raises SetupError when it is not installed."""
    override = os.environ.get(OVERRIDE_VARIABLE)
    candidates = [Path(override)] if override else _candidates()
    for path in candidates:
        if path.is_file():
            return path.resolve()
    raise SetupError(f"The recording library {LIBRARY_NAME} is not installed. Install scalene-trace again.")


@contextmanager
def preloadable_shim(output_folder: Path) -> Iterator[Path]:
    """A context with the shim at a path that LD_PRELOAD can hold: its own, or a private copy that is removed at the end.

    ``output_folder``: the last place that is tried for the copy. Raises SetupError.
    """
    shim = find_shim()
    if usable(shim):
        yield shim
        return
    import shutil  # these are here, because few recordings need them

    folder = _private_folder(output_folder)
    try:
        copy = folder / LIBRARY_NAME
        shutil.copyfile(shim, copy)
        yield copy
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def usable(path: Path) -> bool:
    """Can LD_PRELOAD hold ``path``?"""
    return not any(char in _UNUSABLE or ord(char) < 32 or ord(char) == 127 for char in str(path))


def unrecorded_environment() -> dict[str, str]:
    """The environment of this process for a child that is not to be recorded, while this process may be."""
    environment = {
        **os.environ,
        "SCALENE_TRACE_SPOOL": "",
    }  # the shim would add what is missing, but leaves other spools alone
    others = [each for each in re.split("[ :]", environment.pop("LD_PRELOAD", "")) if Path(each).name != LIBRARY_NAME]
    return environment | ({"LD_PRELOAD": ":".join(others)} if any(others) else {})


def attached_library() -> Path:
    """The library that is loaded into processes that run already. Raises SetupError."""
    return find_shim().with_name(ATTACHED_NAME)


def watch_library() -> ctypes.CDLL:
    """The library that runs inside the recorder; ``ctypes.get_errno`` is of its last call. Raises SetupError, OSError."""
    return ctypes.CDLL(str(find_shim().with_name(WATCH_NAME)), use_errno=True)


def _candidates() -> list[Path]:
    package = sys.modules[__name__.partition(".")[0]]
    roots = [*package.__path__, *(str(Path(entry, "scalene_trace")) for entry in sys.path)]
    return [Path(root, "shim", LIBRARY_NAME) for root in roots]


def _private_folder(output_folder: Path) -> Path:
    import tempfile

    runtime = os.environ.get("XDG_RUNTIME_DIR")
    places = [Path(runtime)] if runtime else []
    for place in [*places, Path("/dev/shm"), Path("/tmp"), Path("/var/tmp"), output_folder]:
        if usable(place) and _runs_libraries(place):
            try:
                return Path(tempfile.mkdtemp(prefix="scalene-shim-", dir=place))
            except OSError:
                continue
    raise SetupError(
        f"LD_PRELOAD cannot hold the path {find_shim()}, and no folder could hold a copy of the library. "
        "Set XDG_RUNTIME_DIR to a writable folder without spaces or colons in its path."
    )


def _runs_libraries(folder: Path) -> bool:
    """Can a library in ``folder`` be mapped? A file system that is mounted noexec refuses it."""
    try:
        return not os.statvfs(folder).f_flag & os.ST_NOEXEC
    except OSError:
        return False
