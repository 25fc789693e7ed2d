"""Readable forms of mangled names, from the other process that reads them (:mod:`.demangle`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from ....formats.beside import Beside
from .demangle import demangled, is_mangled

#: Of names that are asked for.
_MOST_BYTES = 16 << 20


class ReadableNames:
    """Asks for names early and gives the answers later."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._asked: set[str] = set()
        self._runs: list[tuple[list[str], Beside[list[str | None]]]] = []
        self._left_bytes = _MOST_BYTES

    def ask(self, names: Iterable[str]) -> None:
        """Has the mangled ones among the names read, unless they were asked for before."""
        for run in [each for each in self._runs if not each[1].is_running()]:
            self._take(run)
        new = sorted({each for each in names if is_mangled(each)} - self._asked)
        size = sum(map(len, new))
        if new and size <= self._left_bytes:
            self._left_bytes -= size
            self._asked.update(new)
            self._runs.append((new, Beside(partial(demangled, new), "names")))

    def answers(self, names: Sequence[str]) -> list[str | None]:
        """The readable form of each name, when all have been read; None = it is not mangled, or could not be read."""
        while self._runs:
            self._take(self._runs[0])
        return list(map(self._texts.get, names))

    def _take(self, run: tuple[list[str], Beside[list[str | None]]]) -> None:
        """Takes the answers of a process. If there are none, it could not be started: the names may be asked for again."""
        names, answers = run
        self._runs.remove(run)
        found = {name: text for name, text in zip(names, answers.result(), strict=True) if text is not None}
        self._texts |= found
        if not found:
            self._asked.difference_update(names)
