"""A trace whose first rows are written while the program runs, by a thread of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ...formats.beside import Beside
from ...formats.trace import temporary
from ...formats.trace.writer import write_trace
from .ahead import Ahead, Tables
from .known import Known
from .sources import KnownTexts


class _GivenUp(Exception):  # noqa: N818 (no error: it ends the writer)
    """There will be no further rows."""


class BegunTrace:
    """Writes the trace ``path`` with the tables of ``ahead``, then with those that :meth:`complete` gets."""

    def __init__(self, path: Path, trace_id: str, ahead: Ahead) -> None:
        self._path, self._trace_id, self._ahead = path, trace_id, ahead
        self._rest: queue.SimpleQueue[Iterator[Tables] | None] = queue.SimpleQueue()
        self._waits = False
        self._settled = threading.Event()
        self._writing = Beside(self._write, "trace")

    @property
    def known(self) -> Known:
        """What :meth:`end` leaves. Sources are known when the trace :meth:`takes_rest`."""
        return self._ahead.known

    def end(self) -> None:
        """Call when the program has ended."""
        self._ahead.end()

    def end_is_near(self) -> None:
        """Call when the program's interpreter has begun to finalize."""
        self._ahead.end_is_near()

    def takes_rest(self) -> bool:
        """Waits until everything that was found early is with the writer. False: the writer has failed, or its file is gone;
        no text of this trace is left."""
        if not self._writing.is_running():
            self._settled.set()  # no thread could be started
        self._settled.wait()
        if self._waits and not list(temporary.existing(self._path)):
            self.give_up()
            self._waits = False
        if not self._waits:
            self.known.sources = KnownTexts()
        return self._waits

    def complete(self, rest: Iterator[Tables]) -> None:
        """Writes the rest of the tables. Raises what write_trace raises."""
        self._rest.put(rest)
        self._writing.result()

    def give_up(self) -> None:
        """Removes what was written. Does nothing after :meth:`complete`."""
        self.end()
        self._rest.put(None)
        with suppress(Exception):
            if self._writing.is_running():
                self._writing.result()

    def _write(self) -> None:
        try:
            write_trace(self._path, self._trace_id, self._tables())
        finally:
            self._settled.set()

    def _tables(self) -> Iterator[Tables]:
        yield from self._ahead.tables()
        self._waits = True
        self._settled.set()
        rest = self._rest.get()
        if rest is None:
            raise _GivenUp
        yield from rest
