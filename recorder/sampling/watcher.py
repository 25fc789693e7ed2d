"""Runs the watcher: a thread of the recorder that observes from outside which threads wait. It is written in C (shim/watch)
and does not hold the GIL."""

from __future__ import annotations

import ctypes
import os
import resource
import threading
from contextlib import suppress
from pathlib import Path

from ...formats.errors import LibraryMissing
from ...formats.libraries import watch_library

_JOIN_S = 10.0
_PATIENCE_NS = 1_000_000_000


class Watcher:
    """Watches the threads in the thread table of ``spool`` from :meth:`start` to :meth:`stop`. ``failures``: 1 when it could
    not be started or has failed."""

    def __init__(self, spool: Path) -> None:
        self.failures = 0
        self._path = os.fsencode(spool)
        self._library: ctypes.CDLL | None = None
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def start(self) -> None:
        """Starts the thread. Call it after the program was started, so that the program does not inherit the limits that
        are raised here."""
        try:
            self._library = watch_library()
            _open_many_files()
            self._thread.start()
        except (OSError, LibraryMissing, RuntimeError):
            self.failures = 1

    def stop(self) -> None:
        """Ends the thread after a last pass over the thread table."""
        if self._library is not None and self._thread.ident is not None:
            self._library.scalene_watch_stop()
            self._thread.join(_JOIN_S)

    def wake(self) -> None:
        """Call when the recording was paused, or goes on: the thread does not ask."""
        if self._library is not None:
            self._library.scalene_watch_wake()

    def cut(self) -> bool:
        """Has it close its chunk, so that records in it never change again; waits go on in new ones. False: it did not within
        a second."""
        is_running = self._library is not None and self._thread.is_alive()
        return not is_running or self._library.scalene_watch_cut(ctypes.c_int64(_PATIENCE_NS)) == 0  # type: ignore[union-attr]

    def _run(self) -> None:
        assert self._library is not None
        if self._library.scalene_watch(self._path) != 0:
            self.failures = 1


def _open_many_files() -> None:
    """Raises the limit on descriptors: the watcher keeps one open for each thread of the program."""
    with suppress(OSError, ValueError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
