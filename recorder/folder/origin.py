"""Is a recording's folder the one that a recorder of this user has made here, or may it come from a stranger?

Names of files in a recording are the choice of whoever has written it. If a stranger's recording were recovered as one's
own, the trace would contain the texts of one's own files that the stranger has named, and traces are passed on. The owner of
the files proves nothing: an archive that is unpacked belongs to whoever unpacks it. But the kernel alone sets the time at
which a file was last changed, to the nanosecond, so a copy of a folder never has the time that is written in it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from .facts import Facts
from .files import ORIGIN_NAME

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def create_origin(folder: Path) -> str:
    """Creates an empty file that is never changed, and returns what identifies it. Raises OSError."""
    os.close(os.open(folder / ORIGIN_NAME, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    return _origin_of(folder)


def is_original(folder: Path, facts: Facts) -> bool:
    """Was the folder made here by a recorder of this user, and could nobody else write into it?"""
    try:
        about = [path.lstat() for path in (folder, *folder.iterdir())]
        is_same = facts.origin == _origin_of(folder)
    except OSError:
        return False
    is_ours = {each.st_uid for each in about} == {os.geteuid()}
    return is_same and is_ours and not any(each.st_mode & _WRITABLE_BY_OTHERS for each in about if _is_plain(each))


def _origin_of(folder: Path) -> str:
    about = (folder / ORIGIN_NAME).lstat()
    return f"{about.st_ino} {about.st_ctime_ns}"


def _is_plain(about: os.stat_result) -> bool:
    return stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)
