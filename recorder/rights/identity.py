"""Identities: who a process is when it opens files."""

from __future__ import annotations

import os
from pathlib import Path

from ...formats.dataclass import dataclass

#: Capabilities that open files whatever their mode: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH.
READING_CAPABILITIES = 1 << 1 | 1 << 2
_SYS_PTRACE = 1 << 19
_NOBODY = 65534


@dataclass(frozen=True)
class Identity:
    """``user``, ``group``, ``groups``: as the kernel uses them for files; ``reads_all``: a capability opens files whatever
    their mode."""

    user: int
    group: int
    groups: frozenset[int] = frozenset()
    reads_all: bool = False


#: Opens what everybody may open.
NOBODY = Identity(_NOBODY, _NOBODY)


@dataclass(frozen=True)
class Rights:
    """A file is opened only if each of ``identities`` may open it; if there is none, with the recorder's own rights.
    ``withheld``: nothing is opened."""

    identities: frozenset[Identity] = frozenset()
    withheld: bool = False


OWN_RIGHTS = Rights()
WITHHELD = Rights(withheld=True)


def identity_in(status: bytes) -> Identity | None:
    """The identity in the text of a ``/proc/PID/status``; None if it is incomplete."""
    fields = dict(line.split(b":", 1) for line in status.splitlines() if b":" in line)
    try:
        user, group = int(fields[b"Uid"].split()[3]), int(fields[b"Gid"].split()[3])
        groups = frozenset(map(int, fields[b"Groups"].split()))
        return Identity(user, group, groups, bool(int(fields[b"CapEff"], 16) & READING_CAPABILITIES))
    except (KeyError, IndexError, ValueError):
        return None


def read_identity(pid: int | str) -> Identity | None:
    """The identity of a process that lives, or has not been waited for; None if there is none.

    Capabilities count only in the recorder's own user namespace: everybody has all of them in a new one.
    """
    try:
        identity = identity_in(Path(f"/proc/{pid}/status").read_bytes())
        if identity is None or not identity.reads_all:
            return identity
        is_here = os.stat(f"/proc/{pid}/ns/user").st_ino == os.stat("/proc/self/ns/user").st_ino  # noqa: PTH116
    except OSError:
        return _ended(pid)
    return identity if is_here else Identity(identity.user, identity.group, identity.groups)


def _ended(pid: int | str) -> Identity | None:
    """The identity of a process that has no namespaces any more, because it has ended and not been waited for."""
    try:
        return identity_in(Path(f"/proc/{pid}/status").read_bytes())
    except OSError:
        return None


def may_use_descriptors(pid: int) -> bool:
    """May a process that we may read open files by our descriptors, as ``/proc/OUR-PID/fd``? The kernel demands that it has all of
    our capabilities, or CAP_SYS_PTRACE, in our user namespace. Raises OSError."""
    own, others = (_capabilities(each) for each in ("self", pid))
    is_here = os.stat(f"/proc/{pid}/ns/user").st_ino == os.stat("/proc/self/ns/user").st_ino  # noqa: PTH116
    return is_here and bool(others[b"CapEff"] & _SYS_PTRACE or not own[b"CapPrm"] & ~others[b"CapEff"])


def _capabilities(pid: int | str) -> dict[bytes, int]:
    lines = (line.partition(b":\t") for line in Path(f"/proc/{pid}/status").read_bytes().splitlines())
    return {name: int(value, 16) for name, _, value in lines if name in (b"CapPrm", b"CapEff")}


def own_identity() -> Identity:
    """The recorder's."""
    return read_identity("thread-self") or Identity(os.geteuid(), os.getegid(), frozenset(os.getgroups()))


def is_privileged() -> bool:
    """May the recorder open more files than every process that it records? Only then, their rights are looked up."""
    own = own_identity()
    return own.user == 0 or own.reads_all
