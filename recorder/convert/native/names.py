"""Readable forms of mangled names, from the other process that reads them (:mod:`.demangle`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from ....formats.beside import Beside
from .demangle import is_mangled, read_names


class ReadableNames:
    """Asks for names early and gives the answers later. ``text_bytes``: size of the answers so far."""

    def __init__(self) -> None:
        self.text_bytes = 0
        self._texts: dict[str, str] = {}
        self._wanted: set[str] = set()
        self._run: Beside[dict[str, str]] | None = None

    def ask(self, names: Iterable[str]) -> None:
        """Has the mangled ones among the names read that have no answer yet: now or, if another process is at work for this
        object, by the next call after that."""
        if self._run and not self._run.is_running():
            self.settle()
        self._wanted |= {each for each in names if is_mangled(each)} - self._texts.keys()
        if self._wanted and not self._run:
            self._run = Beside(partial(read_names, sorted(self._wanted)), "names")
            self._wanted = set()

    def settle(self) -> None:
        """Waits for the process that is at work."""
        if self._run:
            run, self._run = self._run, None
            try:
                found = run.result()
            except Exception:  # of the system; names stay as they are in the file
                found = {}
            self._texts |= found
            self.text_bytes += sum(len(name) + len(text) for name, text in found.items())

    def answers(self, names: Sequence[str]) -> list[str | None]:
        """The readable form of each name, of those that were asked for; None = it is not mangled, or could not be read."""
        self.settle()
        return [self._texts.get(each) or None for each in names]
