"""Files of a recording's folder: only regular ones are read, whatever somebody has put in their place."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO | None:
    """The regular file at ``path``, to be read; None where there is none: a link, a folder, a pipe that nobody fills."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path) -> bytes:
    """What the file at ``path`` holds; nothing where there is no regular file, or the disk has lost it."""
    file = open_regular(path)
    if file is None:
        return b""
    with file:
        try:
            return file.read()
        except OSError:
            return b""
