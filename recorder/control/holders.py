"""Processes that keep a recording on: with ``record``, each process resumes it for its blocks, and they may overlap."""

from __future__ import annotations

import os
import select
from pathlib import Path


class Holders:
    """Processes by pid. Each holds until it leaves or ends. Not thread-safe."""

    def __init__(self) -> None:
        #: pidfds; -1 = there is none.
        self._descriptors: dict[int, int] = {}

    def __contains__(self, pid: int) -> bool:
        return pid in self._descriptors

    def __len__(self) -> int:
        return len(self._descriptors)

    def add(self, pid: int) -> None:
        """The process holds from now on, if it does not yet."""
        if pid in self._descriptors:
            return
        try:
            self._descriptors[pid] = os.pidfd_open(pid)
        except OSError:  # Linux before 5.3, no descriptor is left, or it has ended
            self._descriptors[pid] = -1

    def leave(self, pid: int) -> bool:
        """The process does not hold any more. Did it?"""
        descriptor = self._descriptors.pop(pid, None)
        if descriptor is not None and descriptor >= 0:
            os.close(descriptor)
        return descriptor is not None

    def clear(self) -> None:
        """None holds any more."""
        for pid in list(self._descriptors):
            self.leave(pid)

    def drop_ended(self) -> bool:
        """Those that have ended leave. Were there any?"""
        ended = [pid for pid, descriptor in self._descriptors.items() if _has_ended(pid, descriptor)]
        for pid in ended:
            self.leave(pid)
        return bool(ended)


def _has_ended(pid: int, descriptor: int) -> bool:
    if descriptor < 0:
        return not Path(f"/proc/{pid}").exists()
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
