"""Where the spool lies: on the disk beside the trace, or in memory where a full disk could harm the program.

A file system that copies on write (btrfs, ZFS, an overlay on one) needs new space whenever a page is written again, and
allocating ahead does not reserve it. If the disk is full then, the write to the mapped page is a SIGBUS in the program. So
on these file systems, and on those that are not known, the spool lies in ``/dev/shm``, and only its part files, which the
recorder writes, lie on the disk.
"""

from __future__ import annotations

import ctypes
import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from ...formats.spool.chunks import CHUNK_BYTES, CHUNKS_OFFSET
from .files import SPOOL_NAME

#: File systems (f_type of statfs) on which an allocated page can always be written: ext2 to ext4, XFS, tmpfs.
_WRITES_IN_PLACE = {0xEF53, 0x58465342, 0x01021994}
MEMORY_FOLDER = Path("/dev/shm")
#: The spool may take half of the free memory there, and at most as much as keeps up with bursts.
_MOST_BYTES = 256 << 20
#: In a container, memory has 64 MiB there by default, which the program may need itself: the spool takes a quarter.
_SMALL_BYTES = 64 << 20
#: With less than this, the spool stays on the disk.
_LEAST_BYTES = 4 << 20
#: Chunks that are offered ahead in memory: they use it at once.
MEMORY_AHEAD = 128
_NAME = r"scalene-trace-[0-9a-f]{24}\.spool"


def writes_in_place(folder: Path) -> bool:
    """Can every allocated page of a file in ``folder`` be written, even if the disk is full? False when unknown."""
    return _file_system(folder) in _WRITES_IN_PLACE


def memory_chunks() -> int:
    """How many chunks a spool in memory may have; 0 = it must stay on the disk."""
    try:
        if _file_system(MEMORY_FOLDER) not in _WRITES_IN_PLACE or not os.access(MEMORY_FOLDER, os.W_OK | os.X_OK):
            return 0
        space = os.statvfs(MEMORY_FOLDER)
    except OSError:
        return 0
    is_small = space.f_blocks * space.f_frsize <= _SMALL_BYTES
    size = min(_MOST_BYTES, space.f_bavail * space.f_frsize // (4 if is_small else 2))
    return (size - CHUNKS_OFFSET) // CHUNK_BYTES if size >= _LEAST_BYTES else 0


def memory_path() -> Path:
    """A new name for a spool in memory, which no other recording has. The file has mode 0600."""
    return MEMORY_FOLDER / f"scalene-trace-{os.urandom(12).hex()}.spool"


def spool_of(folder: Path) -> Path:
    """The spool of the recording in ``folder``: the file in it, or the file in memory that a link in it names.

    Other links are not followed, because a folder that is recovered may come from anywhere. The file must belong to the
    caller, or, for root, to the owner of the link: root sees whether another user's recording is live.
    """
    link = folder / SPOOL_NAME
    with suppress(OSError):
        path = Path(os.readlink(link))  # noqa: PTH115 (a file that is no link raises OSError)
        status = path.lstat()
        owners = {os.geteuid(), link.lstat().st_uid} if os.geteuid() == 0 else {os.geteuid()}
        ours = path.parent == MEMORY_FOLDER and re.fullmatch(_NAME, path.name) and status.st_uid in owners
        if ours and stat.S_ISREG(status.st_mode):
            return path
    return link


def is_gone_from_memory(folder: Path) -> bool:
    """Does the recording in ``folder`` have a link to a spool in memory that is not there any more?"""
    link = folder / SPOOL_NAME
    with suppress(OSError):
        return Path(os.readlink(link)).parent == MEMORY_FOLDER and not link.exists()  # noqa: PTH115 (as above)
    return False


def remove_spool(folder: Path) -> None:
    """Removes the spool of the recording in ``folder``, in memory too."""
    for path in {spool_of(folder), folder / SPOOL_NAME}:
        with suppress(OSError):
            path.unlink()


def _file_system(folder: Path) -> int:
    """Number of the file system's type; -1 = unknown."""
    found = ctypes.create_string_buffer(256)
    try:
        if ctypes.CDLL(None).statfs(os.fsencode(folder), found) != 0:
            return -1
    except (OSError, AttributeError):
        return -1
    return int.from_bytes(found.raw[:8], "little")
