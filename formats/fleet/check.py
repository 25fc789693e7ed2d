"""Opens batches of summaries, and checks every byte of them. A batch may come from a stranger, as a trace may."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path

from ..errors import (
    BatchDamaged,
    BatchUnreadable,
    NotATrace,
    NotParquet,
    TraceCut,
    TraceEmpty,
    TraceFileError,
    TraceTooNew,
)
from ..trace.integrity import check_open
from . import schema

_PIECE_BYTES = 1 << 20
_WITHOUT_DETAIL: dict[type[TraceFileError], str] = {
    TraceEmpty: "it is empty",
    NotParquet: "it is not a Parquet file",
    NotATrace: "scalene-analyze did not write it",
    TraceCut: "its end is missing",
}
#: Nothing changes a copy with these seals, not even its owner.
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def open_batch(path: Path, is_sealed: bool = False) -> int:
    """The descriptor of a batch whose every byte was checked. What removes or replaces the file does not matter after this.

    ``is_sealed``: it is of a copy in memory that nothing can write to, however it is opened again. Raises BatchDamaged,
    BatchUnreadable if the system refuses, and FileNotFoundError if the file was removed.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, or a socket
            raise BatchDamaged(path, "it is not a regular file") from error
        raise BatchUnreadable(path, _refused(path, error)) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BatchDamaged(path, "it is not a regular file")
        if is_sealed:
            descriptor = _sealed(descriptor)
        check_open(path, descriptor, schema.METADATA_VERSION, schema.FORMAT_MAJOR)
    except TraceFileError as error:
        os.close(descriptor)
        raise BatchDamaged(path, _what(error)) from error
    except OSError as error:
        os.close(descriptor)
        raise BatchUnreadable(path, _refused(path, error)) from error
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _sealed(descriptor: int) -> int:
    """A copy in memory that cannot be changed; ``descriptor`` is closed."""
    # DuckDB takes the copy for a file of this name in the root folder. None can be made of it: there is no such folder.
    name = f"{os.urandom(16).hex()}/scalene-fleet"
    copy = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        while piece := os.read(descriptor, _PIECE_BYTES):
            os.write(copy, piece)
        fcntl.fcntl(copy, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(copy)
        raise
    os.close(descriptor)
    return copy


def _refused(path: Path, error: OSError) -> str:
    """The system's reason, and who may read the file if that is the reason."""
    text = (error.strerror or "unknown error").lower()
    if error.errno in (errno.EACCES, errno.EPERM):
        with suppress(OSError):
            status = path.lstat()
            text += f" (owner {status.st_uid}, group {status.st_gid}, mode {stat.S_IMODE(status.st_mode):04o})"
    return text


def _what(error: TraceFileError) -> str:
    """What is wrong with a batch, as a part of a sentence."""
    if isinstance(error, TraceTooNew):
        return f"they have the format {error.detail}, which is newer than this program reads"
    return error.detail or _WITHOUT_DETAIL.get(type(error), "it changed while it was read")
