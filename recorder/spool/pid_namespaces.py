"""Namespaces of pids: a pid that another process reports identifies a process only inside of its own namespace."""

from __future__ import annotations

import os

#: Inode of the first pid namespace of a machine, the same in every kernel (PROC_PID_INIT_INO).
_FIRST_NAMESPACE = 0xEFFFFFFC


def own_pid_namespace() -> int:
    """Inode of our pid namespace, as chunk headers name that of their process; 0 = unknown."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116
    except OSError:
        return 0


def in_first_pid_namespace() -> bool:
    """Do pids mean the same here as to a device driver?"""
    return own_pid_namespace() == _FIRST_NAMESPACE
