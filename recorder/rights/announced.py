"""The file ``rights`` of a recording's folder: for whom processes of the recording have given up the recorder's rights.

The shim appends a row before a process becomes another user, and the recorder appends what it observes. Only the recorder's
user can write the file, so a process cannot take back what was announced before it became another user.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Set
from contextlib import suppress
from pathlib import Path

from ...formats.spool.regular import open_regular
from ..folder.files import RIGHTS_NAME, append_whole
from .identity import NOBODY, Identity

#: struct rights_row of spool.h: user, group.
_ROW = struct.Struct("=II")
_MOST_BYTES = 1 << 16


def create_rights(folder: Path) -> int:
    """Creates the file in ``folder``, empty, and returns its inode. Raises OSError."""
    descriptor = os.open(folder / RIGHTS_NAME, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        return os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)


def announce(folder: Path, identity: Identity) -> None:
    """Appends a row to the file in ``folder``. Where that is not possible, a recovery lacks it."""
    with suppress(OSError):
        descriptor = os.open(folder / RIGHTS_NAME, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        append_whole(descriptor, _ROW.pack(identity.user, identity.group))
        os.close(descriptor)


def announced(folder: Path, inode: int | None = None) -> Set[Identity]:
    """The identities in the file of ``folder``, without groups, which it does not have. Nobody is one of them if the file is
    missing, cut, very long or not ours: then, nothing is known.

    ``inode``: that of the file that was created; None = it is not known. Whoever may rename the recording's folder could
    put another one in its place.
    """
    file = open_regular(folder / RIGHTS_NAME)
    if file is None:
        return {NOBODY}
    with file:
        about = os.fstat(file.fileno())
        if about.st_uid != os.geteuid() or inode not in (None, about.st_ino):
            return {NOBODY}
        data = file.read(_MOST_BYTES + 1)
    found = {Identity(*row) for row in _ROW.iter_unpack(data[: len(data) // _ROW.size * _ROW.size])}
    return found if len(data) % _ROW.size == 0 and len(data) <= _MOST_BYTES else found | {NOBODY}
