"""One line on the terminal that says what the recorder is doing, when that takes more than a second."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress

_QUIET_S = 1.0


class Progress:
    """Shows the current step from its creation to :meth:`end`; nothing where stderr is not a terminal."""

    def __init__(self) -> None:
        self._step = ""
        self._over = threading.Event()
        self._shown = False
        self._thread = threading.Thread(target=self._show, daemon=True)
        if sys.stderr.isatty():
            self._thread.start()

    def step(self, text: str) -> None:
        """Names the step that begins now, for example "reading events"."""
        self._step = text

    def end(self) -> None:
        """Removes the line."""
        self._over.set()
        if self._thread.ident:
            self._thread.join()  # first, so that the line is erased after its last update
        if self._shown:
            self._write("")

    def _show(self) -> None:
        while not self._over.wait(_QUIET_S):
            self._shown = True
            self._write(f"scalene-record: {self._step} …")

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
