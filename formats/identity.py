"""What tells a file from a later one of the same name."""

from __future__ import annotations

from pathlib import Path


def identity_of(path: Path) -> tuple[int, ...]:
    """Device, inode, size in bytes and time of the last change in ns; empty if there is no such file."""
    try:
        found = path.stat()
    except (OSError, ValueError):  # a name may hold a zero byte
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
