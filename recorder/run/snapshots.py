"""Writes snapshots of a running recording, one at a time, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ..convert.finish import Finished


class Snapshots:
    """Calls ``write`` in a thread of its own, one call at a time. Requests made while one is queued share it."""

    def __init__(self, write: Callable[[], Finished]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._waiting: Future[Finished] | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def request(self) -> Future[Finished]:
        """A trace of everything that happened before this call; cancelled when the recording ends first."""
        from concurrent.futures import Future  # takes 7 ms, which every start would take longer (load.load_the_rest)

        with self._lock:
            future = self._waiting or Future()
            if self._closed:
                future.cancel()
            elif not self._waiting:
                self._begin(future)
        return future

    def close(self) -> None:
        """Waits for the snapshot that is being written, and cancels the queued one."""
        with self._lock:
            self._closed = True
            waiting, thread, self._waiting = self._waiting, self._thread, None
        if waiting:
            waiting.cancel()
        if thread:
            thread.join()

    def _begin(self, future: Future[Finished]) -> None:
        self._waiting = future
        if self._thread:
            return
        self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # cannot start a thread
            self._thread = self._waiting = None
            future.set_exception(error)

    def _run(self) -> None:
        while future := self._next():
            try:
                future.set_result(self._write())
            except Exception as error:
                future.set_exception(error)

    def _next(self) -> Future[Finished] | None:
        with self._lock:
            future, self._waiting = self._waiting, None
            if future is None:
                self._thread = None
        return future
