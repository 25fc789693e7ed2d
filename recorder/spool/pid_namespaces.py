"""The namespace of our pids: a pid that another process reports identifies a process only inside of its own namespace."""

from __future__ import annotations

from pathlib import Path


def own_pid_namespace() -> int:
    """Inode of our pid namespace, as chunk headers name that of their process; 0 = unknown."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0
