"""Readable forms of mangled names, from the other process that reads them (:mod:`.demangle`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial

from ....formats.beside import Beside
from .demangle import Reader, is_mangled, read_names


class ReadableNames:
    """Asks for names early and gives the answers later. ``text_bytes``: size of the answers so far."""

    def __init__(self) -> None:
        self.text_bytes = 0
        self._texts: dict[str, str] = {}
        self._asked: set[str] = set()  # of those that are being read
        self._runs: list[Beside[dict[str, str]]] = []
        self._prepared: Reader | None = None

    def prepare(self) -> None:
        """Starts the process for those that will be asked for next, if there were some before."""
        if (self._texts or self._asked) and not self._prepared:
            with suppress(Exception):  # ask() will start one
                self._prepared = Reader()

    def close(self) -> None:
        """Ends the process that was started and not needed."""
        prepared, self._prepared = self._prepared, None
        if prepared:
            with suppress(Exception):
                prepared.output_for(b"")

    def ask(self, names: Iterable[str]) -> None:
        """Has the mangled ones among the names read by another process, unless they were read or are being read."""
        self._settle([each for each in self._runs if not each.is_running()])
        wanted = {each for each in names if is_mangled(each)} - self._texts.keys() - self._asked
        if wanted:
            self._asked |= wanted
            reader, self._prepared = self._prepared, None
            self._runs.append(Beside(partial(read_names, sorted(wanted), reader), "names"))

    def is_reading(self) -> bool:
        """Is a process at work?"""
        return any(each.is_running() for each in self._runs)

    def settle(self) -> None:
        """Waits for the processes that are at work. Names that they have not reached may be asked for again."""
        self._settle(list(self._runs))
        self._asked.clear()

    def _settle(self, runs: list[Beside[dict[str, str]]]) -> None:
        for run in runs:
            self._runs.remove(run)
            try:
                found = run.result()
            except Exception:  # of the system; names stay as they are in the file
                found = {}
            self._texts |= found
            self.text_bytes += sum(len(name) + len(text) for name, text in found.items())

    def answers(self, names: Sequence[str]) -> list[str | None]:
        """The readable form of each name, of those that were asked for; None = it is not mangled, or could not be read."""
        self.settle()
        self.close()
        return [self._texts.get(each) or None for each in names]
