"""Observes from outside whether recorded processes have given up their rights.

Every recorded process can write whatever it likes into the spool, in the name of every other one. So the files that the
spool names are read with the rights that all processes have in common. Two sources say which these are, and a process
without privileges can change neither: ``/proc``, which is read while the process lives, and what processes have announced
(:mod:`.announced`), also those that end before they are observed.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...formats.spool.losses import shim_losses
from .announced import announce, announced
from .identity import NOBODY, OWN_RIGHTS, WITHHELD, Identity, Rights, is_privileged, own_identity, read_identity

#: Processes that are read at a time, at about 66 µs each, and the time between two turns: at most 0.5 % of a CPU. After a longer
#: time there are more, but no more than for so long.
_READS_PER_TURN = 4
_TURN_S = 0.05
_MOST_S = 1.0
#: Processes that are read again; beyond that, the oldest are left out.
_MOST_PROCESSES = 4096
#: Each identity takes a thread. If there are more, nothing but what everybody may read is read.
_MOST_IDENTITIES = 32
_UNANNOUNCED = "rights_unannounced"


class RightsObserver:
    """Observes the processes of the recording in ``folder``, whose spool has the live ``header``. ``inode``: that of the file
    ``rights``. Only a privileged recorder needs one."""

    def __init__(self, folder: Path, inode: int, header: Any) -> None:
        self._folder, self._inode, self._header = folder, inode, header
        self._unannounced = [loss.name for loss in shim_losses()].index(_UNANNOUNCED)
        self._own = own_identity()
        self._found: set[Identity] = set()
        self._living: deque[int] = deque(maxlen=_MOST_PROCESSES)
        self._turned_s = time.monotonic() - _TURN_S
        self._reading = threading.Lock()

    def turn(self, started: Iterable[int]) -> None:
        """Reads some of the processes that live, those that have just ``started`` first."""
        self._living.extendleft(started)
        since_s = min(time.monotonic() - self._turned_s, _MOST_S)
        if since_s >= _TURN_S:
            self._turned_s = time.monotonic()
            for _ in range(min(_READS_PER_TURN * int(since_s / _TURN_S), len(self._living))):
                with self._reading:
                    if self._living:  # another thread takes some out too
                        self.observe(self._living.popleft())
        if self._header.losses[self._unannounced]:  # read now: the process may write here
            self._add(NOBODY)

    def observe(self, pid: int) -> None:
        """Reads the identity of a process, and again in later turns as long as it lives."""
        identity = read_identity(pid)
        if identity is not None:
            self._living.append(pid)
            self._add(identity)

    def rights(self) -> Rights:
        """The rights that all processes have had, as far as is known now."""
        with self._reading:  # no process is between being taken out and being read
            living = tuple(self._living)
        for pid in living:
            with suppress(ValueError), self._reading:  # another thread may have taken it out, and has read it then
                self._living.remove(pid)
                self.observe(pid)
        return common_rights(self._own, set(self._found), announced(self._folder, self._inode))

    def _add(self, identity: Identity) -> None:
        if identity != self._own and identity not in self._found:
            self._found.add(identity)
            announce(self._folder, identity)


def common_rights(own: Identity, observed: Set[Identity], rows: Set[Identity]) -> Rights:
    """The rights that the identities have in common. ``rows``: announced ones, which count unless the user was observed:
    then, the groups are known too."""
    users = {own.user} | {each.user for each in observed}
    identities = {*observed, *(each for each in rows if each.user not in users)}
    return Rights(frozenset(identities if len(identities) <= _MOST_IDENTITIES else {NOBODY}))


def recovered_rights(folder: Path, is_original: bool) -> Rights:
    """With whose rights files are read when the recording in ``folder`` is recovered. ``is_original``: a recorder of this
    user has made the folder, here; else the names in it may be a stranger's choice, so nothing is read."""
    if not is_original:
        return WITHHELD
    return common_rights(own_identity(), set(), announced(folder)) if is_privileged() else OWN_RIGHTS
