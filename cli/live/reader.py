"""A thread that takes readings for the app, one at a time. Of what is asked for while it reads, it takes only the last."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from ...formats.errors import TraceError
from ...recorder.errors import ControlError
from .asked import Readings
from .reading import Reading


@dataclass(frozen=True)
class Wanted:
    """What is to be read. ``is_new``: a new snapshot, not the last one again."""

    window_s: float | None
    view: str
    is_new: bool


class Reader:
    """Calls ``found`` in its thread with what was wanted, its reading (None = there is none) and a sentence if that failed. The
    process may end while it waits for a recorder."""

    def __init__(self, readings: Readings, found: Callable[[Wanted, Reading | None, str], None]) -> None:
        self._readings, self._found = readings, found
        self._changed = threading.Condition()
        self._again: Wanted | None = None
        self._new: Wanted | None = None
        self._is_over = False
        threading.Thread(target=self._run, name="readings", daemon=True).start()

    def ask(self, wanted: Wanted) -> None:
        """Has it read soon, in the place of what was asked for before and has not begun."""
        with self._changed:
            if wanted.is_new:
                self._new = wanted
            else:
                self._again = wanted
            self._changed.notify()

    def end(self) -> None:
        """Reads nothing more."""
        with self._changed:
            self._is_over = True
            self._changed.notify()

    def _run(self) -> None:
        while wanted := self._next():
            reading, message = None, ""
            try:
                take = self._readings.take if wanted.is_new else self._readings.again
                reading = take(wanted.window_s, wanted.view)
            except (ControlError, TraceError) as error:
                message = str(error)
            except Exception as error:
                message = f"The snapshot could not be read: {error!r}"
            if not self._is_over:
                self._found(wanted, reading, message)

    def _next(self) -> Wanted | None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or self._again or self._new)
            if self._is_over:
                return None
            wanted = self._again or self._new
            if self._again:
                self._again = None
            else:
                self._new = None
            return wanted
