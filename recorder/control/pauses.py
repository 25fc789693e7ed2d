"""Whether a recording is on or paused, and who decides that: a person, processes that hold it, or a cycle."""

from __future__ import annotations

import threading
import time
from typing import Any

from ..folder.marks import MarkFile
from .holders import Holders

_PAUSED, _ON = "paused", "on"


class Pauses:
    """Pauses and resumes the recording with this header, and notes that in its marks. Thread-safe.

    A process that holds the recording (``record()``) keeps it on. Otherwise a person decides (``pause``, ``resume``,
    ``--pause-at-start``), and where nobody has, the cycle of ``--sample`` or ``--cpu-budget``, if there is one.
    """

    def __init__(
        self, header: Any, marks: MarkFile, is_paused: bool = False, has_cycle: bool = False, cycle: str | None = None
    ) -> None:
        """``is_paused``: with --pause-at-start; ``cycle``: as in :meth:`follow_cycle`."""
        self._header, self._marks, self._has_cycle = header, marks, has_cycle
        self._lock = threading.RLock()
        self._holders = Holders()
        self._person = _PAUSED if is_paused else ""
        self._cycle = cycle
        self._cause = self._wanted()
        if self._cause is not None:
            header.paused = 1
            marks.add("pause", 0, text=self._cause)

    def pause(self) -> bool:
        """A person wants a pause. Did that change anything?"""
        with self._lock:
            self._holders.clear()
            self._person = _PAUSED
            return self._follow()

    def resume(self) -> bool:
        """A person ends their pause, after which the cycle decides again. If they have not paused it, or a process holds it,
        the cycle does not pause it until the next :meth:`pause`, whether it is on now or not. Did that change anything?"""
        with self._lock:
            before, is_held = self._person, len(self._holders) > 0
            self._holders.clear()
            self._person = _ON if self._has_cycle and (before != _PAUSED or is_held) else ""
            return self._follow() or self._person != before

    def is_kept(self) -> bool:
        """Has a person resumed it until the next :meth:`pause`, whatever the cycle does?"""
        return self._person == _ON

    def hold(self, pid: int) -> tuple[bool, bool]:
        """The process keeps the recording on until it leaves or ends. Did that change anything, and does it hold?"""
        with self._lock:
            if pid in self._holders:
                return False, True
            may_pause = self._has_cycle and self._person != _ON
            if self._cause is not None or len(self._holders) or may_pause:
                self._holders.add(pid)
            return self._follow(), pid in self._holders

    def leave(self, pid: int) -> bool:
        """The process does not hold the recording any more. Did that change anything?"""
        with self._lock:
            self._holders.leave(pid)
            self._holders.drop_ended()
            return self._follow()

    def drop_ended(self) -> None:
        """Lets processes leave that have ended. Call it from time to time."""
        if len(self._holders):
            with self._lock:
                if self._holders.drop_ended():
                    self._follow()

    def follow_cycle(self, cause: str | None) -> None:
        """The cycle has the recording paused, for this cause; None = on."""
        if cause != self._cycle:
            with self._lock:
                self._cycle = cause
                self._follow()

    def cause(self) -> str | None:
        """Why it is paused, "" = a person has asked for it; None = it is on."""
        return self._cause

    def _wanted(self) -> str | None:
        if len(self._holders) or self._person == _ON:
            return None
        return "" if self._person == _PAUSED else self._cycle

    def _follow(self) -> bool:
        """Does what is wanted now. Has that begun or ended a pause?"""
        wanted, before = self._wanted(), self._cause
        if wanted == before:
            return False
        t_ns = time.monotonic_ns() - int(self._header.start_mono_ns)
        self._header.paused = int(wanted is not None)
        if before is not None:
            self._marks.add("resume", t_ns)
        if wanted is not None:
            self._marks.add("pause", t_ns, text=wanted)
        self._cause = wanted
        return (wanted is None) != (before is None)
