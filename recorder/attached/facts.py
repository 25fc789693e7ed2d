"""What the kernel says of a process that was not started by the recorder. Every function raises OSError when the process has
gone, or when the recorder may not know."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ...formats.dataclass import dataclass

_DELETED = b" (deleted)"
_AT_RANDOM = 25
#: As the shim stores at most: a start record must fit into a chunk.
_LONGEST_ARGUMENTS = 1 << 14


@dataclass(frozen=True)
class Mapping:
    """A part of a file that a process has mapped: addresses [``start``, ``end``), ``offset`` in the file, ``device`` and
    ``inode`` of it, and its ``path`` in the process's own root."""

    start: int
    end: int
    offset: int
    device: int
    inode: int
    path: bytes


@dataclass(frozen=True)
class Life:
    """One image of a process: ``start_ticks``: when the process was started, ``random``: where the kernel has put random
    bytes for this image, which exec changes."""

    start_ticks: int
    random: int


def life_of(pid: int) -> Life:
    """Equal as long as the process is the same and has not called exec."""
    return Life(start_ticks_of(pid), dict(_auxiliary(pid)).get(_AT_RANDOM, 0))


def start_ticks_of(pid: int) -> int:
    """When the process was started, in the kernel's steps: equal as long as it is the same."""
    return int(_stat(pid)[19])


def process_of(pid: int) -> int:
    """The process that a thread belongs to."""
    status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    return int(status.partition("\nTgid:")[2].split(None, 1)[0])


def parent_of(pid: int) -> int:
    """The pid of the parent; 0 = it is in another pid namespace."""
    return int(_stat(pid)[1])


def ended_with(pid: int) -> int | None:
    """The status, as waitpid gives it, of a process that has ended and whose parent has not waited for it; None = unknown."""
    with suppress(OSError, IndexError, ValueError):
        fields = _stat(pid)
        return int(fields[49]) if fields[0] == "Z" and int(fields[17]) <= 1 else None
    return None


def children_of(pid: int) -> Iterator[int]:
    """The pids of the children. Empty where the kernel does not tell (CONFIG_PROC_CHILDREN)."""
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 (names are enough)
            with suppress(OSError, ValueError):
                yield from map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())


def command_of(pid: int) -> bytes:
    """Its command line, each word with a NUL at its end."""
    with Path(_living(pid), "cmdline").open("rb") as file:
        return file.read(_LONGEST_ARGUMENTS)


def executable_of(pid: int) -> bytes:
    """The path of its executable, in its own root."""
    return os.fsencode(Path(_living(pid), "exe").readlink()).removesuffix(_DELETED)


def folder_of(pid: int) -> str:
    """Its current folder."""
    return os.readlink(f"{_living(pid)}/cwd")  # noqa: PTH115 (as in record.py)


def namespace_of(pid: int | str, kind: str) -> int:
    """The number of its namespace of this kind."""
    place = _living(pid) if isinstance(pid, int) else f"/proc/{pid}"
    return os.stat(f"{place}/ns/{kind}").st_ino  # noqa: PTH116


def mappings_of(pid: int) -> Iterator[Mapping]:
    """The files that it has mapped."""
    with Path(_living(pid), "maps").open("rb") as file:
        for line in file:
            place, _, offset, device, inode, *path = line.rstrip(b"\n").split(None, 5)
            if path and inode != b"0":
                start, end = (int(each, 16) for each in place.split(b"-"))
                major, minor = (int(each, 16) for each in device.split(b":"))
                yield Mapping(start, end, int(offset, 16), os.makedev(major, minor), int(inode), path[0])


def open_mapped(pid: int, mapping: Mapping) -> int:
    """A descriptor for reading the file that is mapped, though another one may have its name by now. Raises OSError,
    FileNotFoundError if it cannot be found any more."""
    place = _living(pid)
    names = (f"{place}/exe", f"{place}/root{os.fsdecode(mapping.path)}")
    for name in (*names, f"/proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}"):
        with suppress(OSError):
            if (found := _open_same(name, mapping.inode)) >= 0:
                return found
    raise FileNotFoundError(os.fsdecode(mapping.path))


def _open_same(name: str, inode: int) -> int:
    """A descriptor for reading the file, if it is a regular one with this inode; else -1. To open a device could have effects,
    and so could reading what the kernel makes up: /proc/kmsg is regular, but empty. Raises OSError."""
    place = os.open(name, os.O_PATH | os.O_CLOEXEC)
    try:
        status = os.fstat(place)
        if not stat.S_ISREG(status.st_mode) or status.st_ino != inode or not status.st_size:
            return -1
        return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    finally:
        os.close(place)


def reader_of(pid: int) -> int:
    """The id by which the memory of the process is read: that of a thread which has not ended, as its first one may have."""
    return int(_living(pid).rpartition("/")[2])


def _living(pid: int) -> str:
    """The folder in /proc of the process, or of another thread when its first one has ended."""
    place = f"/proc/{pid}"
    if _stat(pid)[0] != "Z":
        return place
    others = (each for each in os.listdir(f"{place}/task") if each != str(pid))  # noqa: PTH208 (names are enough)
    return next((f"{place}/task/{each}" for each in others), place)


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def _auxiliary(pid: int) -> Iterator[tuple[int, int]]:
    data = Path(_living(pid), "auxv").read_bytes()
    for at in range(0, len(data) - 15, 16):
        yield int.from_bytes(data[at : at + 8], "little"), int.from_bytes(data[at + 8 : at + 16], "little")
