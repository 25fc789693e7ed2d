"""The traces that wait in a folder to be sent: sending them, giving up the oldest, and making those of dead recorders.

Several recorders may work on the same folder. Who sends or removes a trace holds a lock of the file, and who makes the traces
of a dead recorder a lock of the folder. A trace that is sent twice has the same name and the same id, so it counts once.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ..rotate.layout import all_days, closed_traces, unfinished
from ..rotate.turns import short_turns

if TYPE_CHECKING:
    from ...formats.fleet.remote import RemoteFleet

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


def send_traces(folder: Path, fleet: RemoteFleet) -> int:
    """Sends the traces in ``folder``, the oldest first, and removes them here. Returns how many were sent. Raises
    FleetUnreachable; what was sent by then is removed. A trace that cannot be read is left, and so is one that another recorder
    sends just now."""
    sent = 0
    for path in closed_traces(folder):
        with suppress(OSError), _held(path, _FILE) as is_ours:  # another recorder has removed it
            if is_ours and path.exists():
                fleet.send(path, path.relative_to(folder).as_posix())
                path.unlink()
                sent += 1
    if sent:
        _remove_old_days(folder)
    return sent


def give_up(folder: Path, limit_bytes: int) -> int:
    """Removes the oldest traces in ``folder`` while all of them have more than ``limit_bytes``, but none that is being sent.
    Returns how many were removed."""
    sizes = {path: _size(path) for path in closed_traces(folder)}
    total, removed = sum(sizes.values()), 0
    for path, size in sizes.items():
        if total <= limit_bytes:
            break
        with suppress(OSError), _held(path, _FILE) as is_ours:
            if is_ours and path.exists():
                path.unlink()
                removed += 1
                total -= size
    return removed


def recover_unfinished(folder: Path, report: Callable[[str], None]) -> None:
    """Makes the traces that dead recorders have left in ``folder``; ``report`` gets a sentence about each that cannot be made."""
    from ..rotate.publish import recover_any  # imports numpy and pyarrow

    with suppress(OSError), _held(folder, _DIRECTORY) as is_ours:
        for each in unfinished(folder) if is_ours else ():
            try:
                with short_turns():  # a program may be recorded beside this
                    recover_any(each, folder)
            except Exception as error:  # of a damaged recording, of another version: nothing that stops this one
                report(f"The traces of {each}, whose recorder has died, cannot be made: {str(error).rstrip('.')}.")


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.lstat().st_size
    return 0


@contextmanager
def _held(path: Path, flags: int) -> Iterator[bool]:
    """Whether we have the lock of the file or folder, for as long as the block runs. Raises OSError."""
    descriptor = os.open(path, flags)
    try:
        yield _lock(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP):  # these mean a file system without locks
            raise
    return True


def _remove_old_days(folder: Path) -> None:
    """Removes days that are empty, but not the last two: a recorder may have made them just now."""
    before = f"date={datetime.now(UTC) - timedelta(days=2):%Y-%m-%d}"
    for day in all_days(folder):
        if day.name < before:
            with suppress(OSError):  # not empty
                day.rmdir()
