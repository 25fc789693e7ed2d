"""The traces that wait in a folder to be sent: sending them, giving up the oldest, and making those of dead recorders.

Several recorders may work on the same folder. Who sends or removes a trace holds a lock of the file, and who makes the traces
of a dead recorder a lock of ``destination.json``. A trace that is sent twice has the same name and the same id, so it counts
once.

Folders above may be a stranger's, who puts a link in the place of ours: so traces are reached through a descriptor of the folder.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from ...formats.errors import FleetUnreachable
from ...formats.units import counted
from ..folder.files import TRIED_NAME
from ..folder.held import HeldFolder
from ..rotate.layout import all_days, closed_traces, unfinished
from ..rotate.turns import short_turns
from .place import DESTINATION_NAME

if TYPE_CHECKING:
    from ...formats.fleet.remote import RemoteFleet

#: For writing too: NFS gives no exclusive lock otherwise.
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
#: So many failures in a row are an outage, and not about a trace.
_OUTAGE = 2
#: How often the traces of a dead recorder are tried: what makes them may end the recorder (no memory), again and again.
_MOST_TRIES = 2


def send_traces(folder: Path, fleet: RemoteFleet) -> int:
    """Sends the traces in ``folder``, the oldest first, and removes them here, except those that another recorder sends just now.
    Returns how many were sent. Where one fails, the others are tried, unless the next one fails too; then raises the first
    failure: FleetUnreachable, or OSError of a trace that cannot be locked or read."""
    sent, in_a_row = 0, 0
    first: Exception | None = None
    with closing(HeldFolder(folder, makes_private=True)) as held:
        for path in closed_traces(held.path):
            try:
                if _send(path, path.relative_to(held.path).as_posix(), fleet):
                    sent, in_a_row = sent + 1, 0
            except FileNotFoundError:  # another recorder has removed it
                continue
            except (FleetUnreachable, OSError) as error:
                first, in_a_row = first or error, in_a_row + 1
                if in_a_row == _OUTAGE:
                    break
        if sent:
            _remove_old_days(held.path)
    if first:
        raise first
    return sent


def _send(path: Path, name: str, fleet: RemoteFleet) -> bool:
    """Sends a trace and removes it; False if another recorder does. Raises FleetUnreachable, OSError."""
    with _locked(path) as file:
        if file is None or not path.exists():
            return False
        fleet.send(file, name)
        path.unlink()
        return True


def give_up(folder: Path, limit_bytes: int) -> int:
    """Removes the oldest traces in ``folder`` while all of them have more than ``limit_bytes``, but neither the newest one, nor one
    that is being sent. Returns how many were removed."""
    removed = 0
    with suppress(OSError), closing(HeldFolder(folder, makes_private=True)) as held:
        sizes = {path: _size(path) for path in closed_traces(held.path)}
        total = sum(sizes.values())
        for path in list(sizes)[:-1]:
            if total <= limit_bytes:
                break
            with suppress(OSError), _locked(path) as file:
                if file and path.exists():
                    path.unlink()
                    removed += 1
                    total -= sizes[path]
    return removed


def recover_unfinished(folder: Path, report: Callable[[str], None], is_asked: bool = False) -> None:
    """Makes the traces that dead recorders have left in ``folder``; ``report`` gets a sentence about each that cannot be made.
    ``is_asked``: the user has, so those are made too that were tried often enough."""
    from ..rotate.publish import recover_any  # imports numpy and pyarrow

    try:
        with _locked(folder / DESTINATION_NAME) as file:
            for each in unfinished(folder) if file else ():
                if is_asked or _may_try(each):
                    try:
                        with short_turns():  # a program may be recorded beside this
                            recover_any(each, folder)
                    except (
                        Exception
                    ) as error:  # of a damaged recording, of another version: nothing that stops this one
                        report(
                            f"The traces of {each}, whose recorder has died, cannot be made: {str(error).rstrip('.')}."
                        )
                else:
                    attempts = counted(_MOST_TRIES, "attempt", "attempts")
                    report(
                        f"The traces of {each}, whose recorder has died, were not made in {attempts}. Make them with: "
                        f"scalene-record --recover {each}"
                    )
    except OSError as error:
        reason = (error.strerror or "unknown error").lower()
        report(f"The traces that dead recorders have left in {folder} cannot be made: {reason}.")


def _may_try(recording: Path) -> bool:
    """Whether the traces of a dead recorder were not tried too often; counts this attempt then. Raises OSError."""
    descriptor = os.open(recording / TRIED_NAME, _FLAGS | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return os.fstat(descriptor).st_size < _MOST_TRIES and os.write(descriptor, b"x") == 1
    finally:
        os.close(descriptor)


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.lstat().st_size
    return 0


@contextmanager
def _locked(path: Path) -> Iterator[FileIO | None]:
    """The file at ``path``, which is locked as long as the block runs; None = another recorder has the lock. Raises OSError."""
    with FileIO(os.open(path, _FLAGS)) as file:
        yield file if _lock(file.fileno()) else None


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
