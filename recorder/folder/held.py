"""The recording's folder, held open from its creation to its end.

Whoever may write to the folder above can rename the recording's folder and put a link or another folder in its place. So the
recorder never looks its folder up again: it reaches the files in it through the descriptor of the folder, which names the
same folder wherever that has been moved.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class HeldFolder:
    """The folder ``name``. ``path``: prefix for the files in it, valid in this process only; ``name``: where it was
    created, for other processes and for messages."""

    def __init__(self, name: Path, makes_private: bool = False) -> None:
        """``makes_private``: if others may enter our folder, they may not from then on. Raises OSError."""
        self.name = name
        self._descriptor = _opened(name, makes_private)

    @property
    def path(self) -> Path:
        held = Path(f"/proc/self/fd/{self._descriptor}")
        return held if held.exists() else self.name  # without /proc, only the name is left

    def is_removed(self) -> bool:
        """Was it removed, so that no file can be created in it?"""
        try:
            return os.fstat(self._descriptor).st_nlink == 0
        except OSError:  # by another machine
            return True

    def create_again(self) -> None:
        """Creates it again after it was removed; under another name where something has taken its name. Raises OSError."""
        try:
            self.name.mkdir(0o700)
        except FileExistsError:
            self.name = self.name.with_name(f"{self.name.name}.{os.urandom(6).hex()}")
            self.name.mkdir(0o700)
        again = _opened(self.name)
        os.dup2(again, self._descriptor, inheritable=False)
        os.close(again)

    def remove(self) -> None:
        """Removes it if it is empty, under the name that it has now."""
        with suppress(OSError):
            self.current_name().rmdir()

    def current_name(self) -> Path:
        """Where it is now, if it was moved."""
        with suppress(OSError):
            return Path(os.readlink(f"/proc/self/fd/{self._descriptor}"))  # noqa: PTH115 (the kernel's text, unchanged)
        return self.name

    def name_for_others(self) -> Path:
        """A name that another process of our user can use later. That of our descriptor lasts only as long as this process, so
        it is taken only if the folder's own has other characters than printable ASCII, or may lead elsewhere by then, because
        another user may rename a folder above."""
        name = self.current_name()
        with suppress(OSError):
            text, is_ours = str(name), os.path.samestat(name.stat(), os.fstat(self._descriptor))
            if text.isascii() and text.isprintable() and is_ours and only_we_may_move(name):
                return name
        return Path(f"/proc/{os.getpid()}/fd/{self._descriptor}")

    def close(self) -> None:
        os.close(self._descriptor)

    def text(self, error: Exception) -> str:
        """What the error says, with the name of the folder instead of the path in this process."""
        return str(error).replace(f"/proc/self/fd/{self._descriptor}/", f"{self.current_name()}/")


def only_we_may_move(name: Path) -> bool:
    """May nobody but our user and root rename what the name leads through? In a sticky folder, everybody may rename only what is
    theirs. Raises OSError."""
    for folder in name.parents:
        status = folder.stat()
        if status.st_uid not in (0, os.geteuid()):
            return False
        if status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:
            return False
    return True


def _opened(name: Path, makes_private: bool = False) -> int:
    """A descriptor of our folder. Raises OSError, also if it is another user's, or others may enter it."""
    descriptor = os.open(name, _FLAGS)
    try:
        status = os.fstat(descriptor)
        if makes_private and status.st_uid == os.geteuid() and status.st_mode & 0o077:
            os.fchmod(descriptor, 0o700)
            status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise PermissionError(errno.EPERM, "another user may enter the folder, or owns it", str(name))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
