"""Whether a recording is on or paused, and who decides that: a person, processes that hold it, or a cycle."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ...formats.spool.layout import constants
from ..folder.marks import MarkFile
from .holders import Holders

_PAUSED, _ON = "paused", "on"
_C = constants()


class Pauses:
    """Pauses and resumes the recording with this header, and notes that in its marks. Thread-safe.

    Figures are divided by the time that the marks leave, so nothing is recorded before its marks say so: while their lines
    cannot be written (the disk is full, or there are too many), a pause begins all the same, and lasts.

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
        self._cause: str | None = None
        #: A pause that has begun, whose line could not be written: its time in ns, and its cause.
        self._unwritten: tuple[int, str] | None = None
        self._has_failed = False
        self._paused_ns = self._since_ns = 0
        #: Is called, in any thread, after the header says that the recording is paused, or goes on.
        self.on_change: Callable[[], None] = lambda: None
        self._follow(0)

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

    def turn(self) -> None:
        """Lets processes leave that have ended, and does what could not be done for want of a line. Call it from time to time."""
        if len(self._holders) or self._has_failed:
            with self._lock:
                self._holders.drop_ended()
                self._follow()

    def follow_cycle(self, cause: str | None) -> None:
        """The cycle has the recording paused, for this cause; None = on."""
        if cause != self._cycle:
            with self._lock:
                self._cycle = cause
                self._follow()

    def cannot_resume(self) -> bool:
        """Is it paused only because the line of its end, or of its begin, cannot be written?"""
        return self._cause is not None and self._wanted() is None

    def cause(self) -> str | None:
        """Why it is paused, "" = a person has asked for it; None = it is on."""
        return self._cause

    def paused_ns(self) -> int:
        """For how long it has been paused, together."""
        with self._lock:
            return self._paused_ns + (self._now_ns() - self._since_ns if self._cause is not None else 0)

    def _now_ns(self) -> int:
        return time.monotonic_ns() - int(self._header.start_mono_ns)

    def _wanted(self) -> str | None:
        if len(self._holders) or self._person == _ON:
            return None
        return "" if self._person == _PAUSED else self._cycle

    def _follow(self, t_ns: int | None = None) -> bool:
        """Does what is wanted, at ``t_ns`` from the start (None = now). Has that begun or ended a pause?"""
        wanted, before = self._wanted(), self._cause
        if t_ns is None:
            t_ns = self._now_ns()
        if wanted is not None and wanted != before:
            self._since_ns = t_ns if before is None else self._since_ns
            self._header.paused, self._cause = _C["PAUSED_BY_CYCLE" if wanted else "PAUSED_AT_ONCE"], wanted
            self._unwritten = (self._unwritten[0] if self._unwritten else t_ns), wanted
        if self._unwritten and self._note("pause", self._unwritten[0], text=self._unwritten[1]):
            self._unwritten = None
        if wanted is None and before is not None and not self._unwritten and self._note("resume", t_ns):
            self._header.paused, self._cause = 0, None
            self._paused_ns += t_ns - self._since_ns
        has_changed = (self._cause is None) != (before is None)
        if has_changed:
            self.on_change()
        return has_changed

    def _note(self, what: str, t_ns: int, **more: str) -> bool:
        add = self._marks.add_again if self._has_failed else self._marks.add
        self._has_failed = not add(what, t_ns, **more)
        return not self._has_failed
