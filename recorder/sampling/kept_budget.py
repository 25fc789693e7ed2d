"""Keeps a budget while a recording runs: measures what the recording costs, and notes that in the trace."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...formats.spool.layout import constants
from ..control.budget import Budget, Spent
from ..folder.marks import MarkFile
from ..spool.spool_file import alloc_control, alloc_text

_C = constants()
#: How often the cost is measured within a window or a pause.
_LOOK_S = 0.25
#: How often the trace says what the budget does.
_NOTE_S = 60.0


class KeptBudget:
    """``header``: of the spool; ``look``: measures. Not thread-safe, but :meth:`allow` may be called in any thread."""

    def __init__(self, budget: Budget, header: Any, marks: MarkFile, look: Callable[[], Spent]) -> None:
        self._budget, self._header, self._marks, self._look = budget, header, marks, look
        self._may_begin = self._has_begun = self._is_on = False
        self._look_s = self._note_s = 0.0
        self._alloc_control = int(header.alloc_control)

    def allow(self) -> None:
        """What is spent from the next turn on counts: the recorder has done what it does once, at its start."""
        self._may_begin = True

    def turn(self) -> None:
        """Call often, each time after the recording has followed its cycle. Raises OSError when nothing can be measured."""
        is_on, now_s = not self._header.paused, time.monotonic()
        if not self._has_begun:
            if self._may_begin:
                self._budget.begin(self._look, self._widen)
                self._has_begun, self._is_on, self._note_s = True, is_on, now_s + _NOTE_S
            return
        if is_on != self._is_on or now_s >= self._look_s:
            was_on, self._is_on, self._look_s = self._is_on, is_on, now_s + _LOOK_S
            self._budget.observe(was_on)
        if now_s >= self._note_s:
            self._note_s = now_s + _NOTE_S
            self._note(self._text())

    def end(self) -> str:
        """Notes what the recording has cost, if that was measured. Returns a sentence if it was too much, else ""."""
        if not self._has_begun:
            return ""
        with suppress(Exception):  # as in Session.turn(): what was measured before is said
            self._budget.observe(self._is_on)
        self._note(self._text())
        return f"Recording cost more than its budget: {self._text()}." if self._budget.is_exceeded() else ""

    def _note(self, text: str) -> None:
        self._marks.add("set", time.monotonic_ns() - int(self._header.start_mono_ns), text=text)

    def _text(self) -> str:
        """What the budget did, and the intervals that hold now."""
        header = self._header
        text = f"{self._budget.text()}, cpu-interval={int(header.cpu_interval_ns) / 1e6:g}ms"
        alloc = alloc_text(header)
        is_sampled = int(header.features) & _C["FEATURE_MEMORY"] and alloc != "0"
        return f"{text}, alloc-interval={alloc}" if is_sampled else text

    def _widen(self, interval_bytes: int) -> bool:
        """Sets the interval between allocation samples. False: nothing was changed, because a person has set it, or has asked
        for no samples, or for every allocation."""
        header = self._header
        if int(header.alloc_control) != self._alloc_control or int(header.alloc_interval_bytes) <= 1:
            return False
        header.alloc_control = self._alloc_control = alloc_control(interval_bytes)
        self._note(f"alloc-interval={interval_bytes} by cpu-budget")
        return True
