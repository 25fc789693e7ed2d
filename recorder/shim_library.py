"""Finds the shim library, and a path to it that LD_PRELOAD can hold."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..formats.errors import LibraryMissing
from ..formats.libraries import SHIM_NAME, library_path
from .errors import SetupError

#: The library that is loaded into processes that run already, beside the shim.
ATTACHED_NAME = "libscalene_attached.so"
#: The loader splits LD_PRELOAD at spaces and colons and expands "$"; shells split at ";".
_UNUSABLE = frozenset(" :;$\\")


def find_shim() -> Path:
    """Path of the shim library. Raises SetupError when it is not installed."""
    try:
        return library_path(SHIM_NAME)
    except LibraryMissing as error:
        raise SetupError(str(error)) from error


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
        copy = folder / SHIM_NAME
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
    others = [each for each in re.split("[ :]", environment.pop("LD_PRELOAD", "")) if Path(each).name != SHIM_NAME]
    return environment | ({"LD_PRELOAD": ":".join(others)} if any(others) else {})


def attached_library() -> Path:
    """The library that is loaded into processes that run already. Raises SetupError."""
    return find_shim().with_name(ATTACHED_NAME)


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
