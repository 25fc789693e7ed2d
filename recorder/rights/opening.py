"""Opens files whose names come from a recorded program, with no more rights than its processes have had.

The names are the program's choice. So a file is opened only if it is a regular file of a real file system, which is known
before it is opened: opening a device or a pipe has effects, and files of /proc show what the reader may see. Links that
lead through /proc to another process's files are not followed either, because they skip the rights on folders.

Rights are taken on in threads: the kernel keeps a file system user, its groups and capabilities for each thread. Only these
change, not the real user, so that nobody may send signals to such a thread. Everything goes by plain system calls, since
libc's functions change all threads.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..processor import SYSTEM_CALLS
from .identity import OWN_RIGHTS, READING_CAPABILITIES, Identity, Rights, own_identity

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

OpenFile = Callable[[Path], int]

_AT_FDCWD = -100
_NO_MAGIC_LINKS = 2
_CAPABILITY_VERSION = 0x20080522
#: Magic numbers of file systems whose files are made up when they are read: proc, sysfs, debugfs, tracefs, securityfs,
#: configfs, cgroup, cgroup2, bpf, pstore, efivarfs, selinuxfs, nsfs, binfmt_misc, fusectl, smackfs, rpc_pipefs, mqueue.
_MADE_UP = frozenset(
    (
        *(0x9FA0, 0x62656572, 0x64626720, 0x74726163, 0x73636673, 0x62656570, 0x27E0EB, 0x63677270, 0xCAFE4A11),
        *(0x6165676C, 0xDE5E81E4, 0xF97CFF8C, 0x6E736673, 0x42494E4D, 0x65735543, 0x43415D53, 0x67596969, 0x19800202),
    )
)


class Withheld(PermissionError):  # noqa: N818 (the name says what happened)
    """The file is not opened: not every process of the recording may open it, or the recording may be a stranger's."""


class ProgramFiles:
    """Opens files by names of the program, with ``rights``. A context manager: it ends the threads."""

    def __init__(self, rights: Rights = OWN_RIGHTS) -> None:
        self._withheld = rights.withheld
        own = own_identity()
        self._threads = [_thread_of(each) for each in rights.identities if each != own]

    def __enter__(self) -> ProgramFiles:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._threads:
            each.shutdown()

    def open(self, path: Path) -> int:
        """A descriptor for reading the regular file at ``path``. Raises OSError, Withheld among them, and ValueError for
        every other kind of file."""
        if self._withheld:
            raise Withheld(errno.EACCES, os.strerror(errno.EACCES))
        return self._open_same(path) if self._threads else open_regular_file(path)

    def _open_same(self, path: Path) -> int:
        """The file at ``path``, which must be the same for all: a name may lead to another file every time."""
        found: list[int] = []
        try:
            for each in self._threads:
                found.append(_open_in(each, path))
            if len({(status.st_dev, status.st_ino) for status in map(os.fstat, found)}) > 1:
                raise ValueError("not the same file for all")
            return found.pop()
        finally:
            for descriptor in found:
                os.close(descriptor)


def open_regular_file(path: Path) -> int:
    """A descriptor for reading the file at ``path`` with the rights of the calling thread. Raises OSError, and ValueError
    unless it is a regular file of a real file system."""
    place = _find(os.fsencode(path))
    try:
        if not stat.S_ISREG(os.fstat(place).st_mode) or _file_system(place) in _MADE_UP:
            raise ValueError("not a regular file")
        return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    finally:
        os.close(place)


def _find(path: bytes) -> int:
    """A descriptor that only names the file at ``path``. Raises OSError, ValueError."""
    if b"\0" in path:
        raise ValueError("not a path")
    how = (ctypes.c_uint64 * 3)(os.O_PATH | os.O_CLOEXEC, 0, _NO_MAGIC_LINKS)
    found: int = _libc().syscall(
        SYSTEM_CALLS.openat2, _AT_FDCWD, ctypes.c_char_p(path), how, ctypes.c_long(ctypes.sizeof(how))
    )
    error = ctypes.get_errno()
    if found < 0 and error in (errno.ENOSYS, errno.EPERM):  # before Linux 5.6, or a seccomp filter that is as old
        return _find_resolved(path)
    if found < 0:
        raise OSError(error, os.strerror(error))
    return found


def _find_resolved(path: bytes) -> int:
    """Like :func:`_find`, where the kernel cannot refuse links that lead through /proc: follows links by their text."""
    resolved = os.path.realpath(path, strict=True)
    return os.open(resolved, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)


def _file_system(descriptor: int) -> int:
    """The magic number of the file system that holds a file. Raises OSError."""
    about = (ctypes.c_long * 32)()  # longer than struct statfs, whose first field it is
    if _libc().fstatfs(descriptor, about) != 0:
        raise OSError(ctypes.get_errno(), "fstatfs")
    return about[0]


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


# ---- threads with the rights of others ----


def _thread_of(identity: Identity) -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor  # few recordings need it

    return ThreadPoolExecutor(1, "files", _become, (identity,))


def _open_in(thread: ThreadPoolExecutor, path: Path) -> int:
    """What :func:`open_regular_file` returns in ``thread``. Raises OSError, Withheld if the thread may not open the file
    or could not take on its rights, and ValueError."""
    try:
        return thread.submit(open_regular_file, path).result()
    except (PermissionError, RuntimeError) as error:  # RuntimeError: no thread, or _become has failed in it
        raise Withheld(errno.EACCES, os.strerror(errno.EACCES)) from error


def _become(identity: Identity) -> None:
    """Gives the calling thread the file rights of ``identity``. Raises OSError when that is refused."""
    if not identity.reads_all:
        _drop_reading_capabilities()
    groups = sorted(identity.groups)
    if frozenset(groups) != frozenset(os.getgroups()):
        _call(SYSTEM_CALLS.setgroups, len(groups), (ctypes.c_uint32 * len(groups))(*groups))
    for number, wanted in ((SYSTEM_CALLS.setfsgid, identity.group), (SYSTEM_CALLS.setfsuid, identity.user)):
        _libc().syscall(number, ctypes.c_long(wanted))
        if _libc().syscall(number, ctypes.c_long(-1)) != wanted:  # reports no errors, but what holds now
            raise PermissionError(errno.EPERM, "setfsuid")


def _drop_reading_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; then the same of the capabilities from 32 on
    _call(SYSTEM_CALLS.capget, header, sets)
    sets[0] &= ~READING_CAPABILITIES
    _call(SYSTEM_CALLS.capset, header, sets)


def _call(number: int, *arguments: Any) -> None:
    if _libc().syscall(number, *arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
