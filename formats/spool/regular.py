"""Opens files of a recording's folder safely: links, pipes and devices that someone has put in their place are not read."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO | None:
    """The file at ``path``, opened for reading; None unless it is a regular file that can be opened."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return os.fdopen(descriptor, "rb")


def read_some(file: BinaryIO, size: int) -> bytes:
    """The next ``size`` bytes of ``file``, fewer at its end; b"" when the disk fails: the rest cannot be read."""
    try:
        return file.read(size)
    except OSError:
        return b""


def read_regular(path: Path) -> bytes:
    """The contents of the file at ``path``; b"" unless it is a regular file that can be read."""
    file = open_regular(path)
    if file is None:
        return b""
    with file:
        try:
            return file.read()
        except OSError:
            return b""


def is_plain_file(path: Path) -> bool:
    """Is there a regular file at ``path``, not a link to one?"""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
