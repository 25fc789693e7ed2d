"""Names and life of the output and of the spool folder beside it."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ..errors import SetupError
from .contents import CONTROL_NAME, FACTS_NAME, GPU_DEVICES_NAME, GPU_NAME, MARKS_NAME, RSS_NAME, SPOOL_NAME, TRACE_NAME

_PATTERN = "%p"


def output_template(output: Path) -> str:
    """Absolute path of the trace, with ``%p`` for the program's pid; a directory gets a file of its own name in it.

    Raises SetupError when no file can be put there.
    """
    try:
        path = Path(os.path.abspath(output))  # noqa: PTH100 (".." behind a link stays what the user typed)
    except FileNotFoundError as error:
        raise SetupError("The folder that you are in does not exist any more. Change to another one.") from error
    if path.is_dir():
        path /= f"trace-{time.strftime('%Y%m%d-%H%M%S')}-{_PATTERN}.parquet"
    if path.exists() and not path.is_file():
        raise SetupError(f"{output} is not a regular file, so no trace can be written there. Name another with -o.")
    if not path.parent.is_dir():
        raise SetupError(f"The folder {path.parent} does not exist. Create it, or name another output with -o.")
    return str(path)


def output_path(template: str, pid: int) -> Path:
    """The trace's path, once the pid is known."""
    path = Path(template)
    return path.with_name(path.name.replace(_PATTERN, str(pid)))


def create_spool_folder(template: str, fill: Callable[[Path], int], tell: Callable[[str], None]) -> Path:
    """Makes ``OUT.spool/`` (0700) and returns its path. ``fill`` puts the files into the new folder and returns the
    spool's descriptor, which is locked before the folder gets its name, so that nobody meets it half made.

    A folder that a dead recorder left is moved aside, which is said through ``tell``. Raises SetupError.
    """
    final = output_path(template, os.getpid())
    final = final.with_name(f"{final.name}.spool")
    new = final.with_name(f".{final.name}.{secrets.token_hex(6)}")
    try:
        new.mkdir(0o700)
    except OSError as error:
        raise _setup_error(final.parent, error) from error
    try:
        _lock(fill(new))
        _rename_into_place(new, final, tell)
    except OSError as error:
        shutil.rmtree(new, ignore_errors=True)
        raise _setup_error(final.parent, error) from error
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    return final


def remove_recording(folder: Path) -> None:
    """Removes a recording that has become a trace: its files, and the folder if it holds nothing else. A recording to be
    recovered may have been put anywhere, beside files that are none of ours."""
    names = [SPOOL_NAME, FACTS_NAME, RSS_NAME, MARKS_NAME, CONTROL_NAME, TRACE_NAME, GPU_NAME, GPU_DEVICES_NAME]
    paths = [folder / name for name in names]
    with suppress(OSError):  # no descriptor is left
        paths += [*folder.glob(f"{SPOOL_NAME}.part[0-9]*"), *folder.glob(f".{TRACE_NAME}.*.tmp")]
    for path in paths:
        with suppress(OSError):
            path.unlink()
    with suppress(OSError):
        folder.rmdir()


def is_recording(folder: Path) -> bool:
    """Does a living recorder hold the spool of this folder?"""
    try:
        descriptor = os.open(folder / SPOOL_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
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


def old_name(output: Path) -> Path:
    """What an existing output is renamed to: ``trace.parquet`` → ``trace.old.parquet``."""
    return output.with_name(f"{output.name.removesuffix('.parquet')}.old.parquet")


def put_in_place(written: Path, output: Path, replaces: bool = False) -> None:
    """Gives the complete trace its name; one that is there already becomes ``*.old.parquet``, unless the new one
    ``replaces`` it. Raises OSError."""
    if not replaces and os.path.lexists(output):
        output.replace(old_name(output))
    written.replace(output)


def _lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP):  # a file system without locks
            raise


def _rename_into_place(new: Path, final: Path, tell: Callable[[str], None]) -> None:
    while True:
        try:
            os.rename(new, final)  # noqa: PTH104 (over an empty folder only)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        _move_aside(final, tell)


def _move_aside(folder: Path, tell: Callable[[str], None]) -> None:
    if not stat.S_ISDIR(folder.lstat().st_mode):
        raise SetupError(f"{folder} is in the way of the recording. Remove it, or name another output with -o.")
    if is_recording(folder):
        raise SetupError(
            f"Another scalene-record is recording to {folder.name.removesuffix('.spool')} in {folder.parent}. "
            "Wait for it, or name another output with -o."
        )
    number = 1
    while os.path.lexists(aside := folder.with_name(f"{folder.name}.{number}")):
        number += 1
    folder.rename(aside)
    tell(f"An unfinished recording was kept as {aside}. Turn it into a trace with: scalene-record --recover {aside}")


def _setup_error(folder: Path, error: OSError) -> SetupError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SetupError(f"There is no disk space left in {folder} to record to. Name an output elsewhere with -o.")
    if error.errno == errno.EFBIG:
        return SetupError("The limit on file sizes (ulimit -f) is too low to record anything. Raise it.")
    reason = (error.strerror or "unknown error").lower()
    return SetupError(f"The recording cannot be written in {folder}: {reason}. Name an output elsewhere with -o.")
