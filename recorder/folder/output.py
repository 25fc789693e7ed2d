"""The trace's path and the spool folder beside it: names, creation, removal, and whether a recorder is alive."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import re
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ...formats.trace import temporary
from ..errors import SetupError
from .files import (
    CARRY_NAME,
    CONTROL_NAME,
    CUT_NAME,
    FACTS_NAME,
    GPU_DEVICES_NAME,
    GPU_NAME,
    MARKS_NAME,
    ORIGIN_NAME,
    RIGHTS_NAME,
    ROTATION_NAME,
    RSS_NAME,
    SEGMENT_NAME,
    SPOOL_NAME,
    TRACE_NAME,
    TRIED_NAME,
)
from .held import HeldFolder
from .place import remove_spool, spool_of

_PATTERN = "%p"
#: Characters of the name of the host in a generated name.
_LONGEST_HOST = 100
_PART = re.compile(rf"{SPOOL_NAME}\.part\d{{5,}}", re.ASCII)
#: Files of a recording that rotates, whose names have a number.
_NUMBERED = re.compile(rf"{CUT_NAME}\d{{5,}}|{CARRY_NAME}\d{{5,}}(\.json)?", re.ASCII)
#: How many earlier outputs are kept.
KEPT = 5


def output_template(output: Path, is_shared: bool = False) -> str:
    """Absolute path of the trace, with ``%p`` for the program's pid. For a directory it is a file with a generated name
    in it. ``is_shared``: recorders on several hosts, or in several containers, may write to that directory, so its name has
    the host's, and random digits: in containers, every pid is 1.

    Raises SetupError when no file can be created there.
    """
    try:
        path = Path(os.path.abspath(output))  # noqa: PTH100 (".." after a link keeps the meaning that the user typed)
    except FileNotFoundError as error:
        raise SetupError("The current folder does not exist any more. Change to another one.") from error
    try:
        return str(_file_at(path, output, is_shared))
    except OSError as error:  # before Python 3.14, methods of Path fail in a folder that may not be searched
        raise setup_error(path.parent, error) from error


def _file_at(path: Path, output: Path, is_shared: bool) -> Path:
    """The file to write for ``output``, whose absolute path is ``path``. Raises SetupError, OSError."""
    if path.is_dir():
        host = re.sub("[^A-Za-z0-9._-]", "_", os.uname().nodename)[:_LONGEST_HOST]
        unique = f"-{host}-{os.urandom(4).hex()}" if is_shared else ""
        path /= f"trace-{time.strftime('%Y%m%d-%H%M%S')}-{_PATTERN}{unique}.parquet"
    if path.exists() and not path.is_file():
        raise SetupError(
            f"{output} is not a regular file, so no trace can be written there. Name another path with -o."
        )
    if not path.parent.is_dir():
        raise SetupError(f"The folder {path.parent} does not exist. Create it, or name another output with -o.")
    return path


def output_path(template: str, pid: int) -> Path:
    """The trace's path for the program ``pid``: ``template`` with ``%p`` replaced."""
    path = Path(template)
    return path.with_name(path.name.replace(_PATTERN, str(pid)))


def create_spool_folder(template: str, fill: Callable[[Path], int], report: Callable[[str], None]) -> HeldFolder:
    """Creates ``OUT.spool/`` (mode 0700) and holds it open.

    ``fill`` creates the files in the new folder and returns the spool's descriptor. The spool is locked before the folder
    gets its final name, so that no other process sees an incomplete recording. A folder that a dead recorder left is moved
    aside, and ``report`` gets a sentence about it. Raises SetupError.
    """
    final = output_path(template, os.getpid())
    final = final.with_name(f"{final.name}.spool")
    new = final.with_name(f".{final.name}.{os.urandom(6).hex()}")
    try:
        held = _create(new)
    except OSError as error:
        raise setup_error(final.parent, error) from error
    try:
        _lock(fill(held.path))
        _rename_into_place(new, final, report)
    except OSError as error:
        discard(held)
        raise setup_error(final.parent, error) from error
    except BaseException:
        discard(held)
        raise
    held.name = final
    return held


def _create(new: Path) -> HeldFolder:
    new.mkdir(0o700)
    try:
        return HeldFolder(new)
    except OSError:
        with suppress(OSError):
            new.rmdir()
        raise


def discard(folder: HeldFolder) -> None:
    """Removes a recording that will not be used."""
    remove_recording(folder.path)
    folder.remove()
    folder.close()


def remove_recording(folder: Path, rotates: bool = False) -> None:
    """Removes a recording after its trace has been written: its own files, and the folder if nothing else is in it. A
    recording that is recovered may have been copied to any folder, beside the user's own files. ``rotates``: it has the files
    of a recording that rotates."""
    remove_spool(folder)
    names = [FACTS_NAME, RSS_NAME, MARKS_NAME, CONTROL_NAME, TRACE_NAME, GPU_NAME, GPU_DEVICES_NAME]
    names += [RIGHTS_NAME, ORIGIN_NAME]
    paths = [folder / name for name in names]
    with suppress(OSError):  # out of descriptors
        paths += [each for each in folder.iterdir() if _PART.fullmatch(each.name)]
    paths += temporary.existing(folder / TRACE_NAME)
    if rotates:
        paths += _files_of_rotation(folder)
    for path in paths:
        with suppress(OSError):
            path.unlink()
    for made in (folder / SEGMENT_NAME, folder) if rotates else (folder,):
        with suppress(OSError):
            made.rmdir()


def _files_of_rotation(folder: Path) -> list[Path]:
    paths = [folder / ROTATION_NAME, folder / f"{ROTATION_NAME}.new", folder / TRIED_NAME]
    with suppress(OSError):  # out of descriptors
        paths += [each for each in folder.iterdir() if _NUMBERED.fullmatch(each.name)]
    segment = folder / SEGMENT_NAME
    if segment.is_symlink():
        return [*paths, segment]
    own = (SPOOL_NAME, RSS_NAME, MARKS_NAME, GPU_NAME, GPU_DEVICES_NAME, TRACE_NAME)
    return [*paths, *(segment / name for name in own), *temporary.existing(segment / TRACE_NAME)]


def is_live(folder: Path) -> bool:
    """Is a recorder running on this folder? It holds the lock of the spool as long as it lives."""
    try:
        descriptor = os.open(spool_of(folder), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def old_names(output: Path) -> list[Path]:
    """The names that earlier outputs are moved to, the latest first: ``trace.old.parquet``, ``trace.old.2.parquet``, …"""
    stem = output.name.removesuffix(".parquet")
    numbers = ["", *(f".{number}" for number in range(2, KEPT + 1))]
    return [output.with_name(f"{stem}.old{number}.parquet") for number in numbers]


def put_in_place(written: Path, output: Path, replaces: bool = False) -> None:
    """Renames the complete trace to its name. An existing file of that name becomes ``*.old.parquet``, unless the new one
    ``replaces`` it. Raises OSError."""
    if not replaces and os.path.lexists(output):
        _make_old(output)
    written.replace(output)


def _make_old(output: Path) -> None:
    """Moves the output and the earlier ones one name on; the last one of KEPT is dropped. Links are moved, not followed. A
    folder keeps its name, and is skipped: it is no trace of ours. Raises OSError if all names are those of folders."""
    names = [output]
    for name in old_names(output):
        if name.is_dir() and not name.is_symlink():
            continue
        names.append(name)
        if not os.path.lexists(name):
            break
    if len(names) == 1:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(old_names(output)[0]))
    for newer, older in list(itertools.pairwise(names))[::-1]:
        newer.replace(older)


def _lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP):  # these mean a file system without locks
            raise


def _rename_into_place(new: Path, final: Path, report: Callable[[str], None]) -> None:
    while True:
        try:
            os.rename(new, final)  # noqa: PTH104 (replaces an empty folder only)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        _move_aside(final, report)


def _move_aside(folder: Path, report: Callable[[str], None]) -> None:
    if not stat.S_ISDIR(folder.lstat().st_mode):
        raise SetupError(f"{folder} is in the way of the recording. Remove it, or name another output with -o.")
    if is_live(folder):
        raise SetupError(
            f"Another scalene-record is recording to {folder.name.removesuffix('.spool')} in {folder.parent}. "
            "Wait for it, or name another output with -o."
        )
    number = 1
    while os.path.lexists(aside := folder.with_name(f"{folder.name}.{number}")):
        number += 1
    is_ours = folder.lstat().st_uid == os.geteuid()
    folder.rename(aside)
    if is_ours:
        report(
            f"An unfinished recording was kept as {aside}. Turn it into a trace with: scalene-record --recover {aside}"
        )
    else:  # its names may be chosen to put files of ours into a trace, so do not advise to recover it
        report(f"A folder of another user was in the way of the recording, and was kept as {aside}.")


def setup_error(folder: Path, error: OSError) -> SetupError:
    """The error for the user if a recording cannot be set up in ``folder``."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SetupError(f"There is no disk space left in {folder} to record to. Name an output elsewhere with -o.")
    if error.errno == errno.EFBIG:
        return SetupError("The limit on file sizes (ulimit -f) is too low to record anything. Raise it.")
    reason = (error.strerror or "unknown error").lower()
    return SetupError(f"The recording cannot be written in {folder}: {reason}. Name another folder with -o.")
