"""Work in a thread of its own, for functions that let other threads run: compression, waits for another process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Beside(Generic[T]):
    """Calls ``work`` in a thread while the caller goes on. Where no thread can be started, ``work`` is done by
    :meth:`result`."""

    def __init__(self, work: Callable[[], T], name: str) -> None:
        self._work = work
        self._found: list[T] = []
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # cannot start a thread
            self._thread = None

    def result(self) -> T:
        """Waits for ``work``, and returns what it has returned or raises what it has raised. Call it once."""
        if self._thread:
            self._thread.join()
        else:
            self._run()
        if self._error is not None:
            raise self._error
        return self._found.pop()

    def is_running(self) -> bool:
        """Whether the thread is still at work."""
        return self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._found.append(self._work())
        except BaseException as error:  # raised again where the result is wanted
            self._error = error
