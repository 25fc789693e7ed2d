"""User marks, pauses and changed settings of a recording: a file of JSON lines while it runs, a table at its end. Texts of
code that the program has compiled from no file are in it too.

Each event is appended as a line when it happens, so that a recorder that is killed leaves all of them: ``mark`` (text,
id, pid, and end_ns if it has ended already), ``end`` (of the mark with that id), ``pause`` (which ends another one),
``resume``, ``set`` (text), ``source`` (file, title, text).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...formats.dataclass import dataclass
from ...formats.spool.regular import open_regular
from ...formats.trace.text import storable
from .files import append_whole

#: Lines and bytes that a recording keeps at most: a program may set a mark in every iteration of a loop, and all of them
#: are in memory when the trace is written.
MOST_LINES = 200_000
MOST_BYTES = 32 << 20
#: The longest line: a text of 1,000 characters is written as at most 12,000 bytes.
_LONGEST_LINE_BYTES = 1 << 17
#: From this share of MOST_LINES or MOST_BYTES on, texts of code are left out: marks must not be lost for them.
_SHARE_OF_SOURCES = 0.5
#: And from this share on, everything but pauses: the recorded time, and with it all rates, would be wrong without them.
_SHARE_OF_OTHERS = 0.9
_PAUSE_BYTES = 200
_LONGEST_TITLE = 200
_COLUMNS = ("t_ns", "what", "text", "end_ns", "pid")


class MarkFile:
    """Appends to the file at ``path``. ``left_out`` counts lines that were not written: too many, or the disk was full.

    Raises OSError when the file cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self.left_out = 0
        self._lines = self._bytes = 0
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def add(self, what: str, t_ns: int, **more: Any) -> bool:
        """Appends one line. ``t_ns``: nanoseconds from the start of the recording. False when it was left out."""
        is_written = self.add_again(what, t_ns, **more)
        self.left_out += not is_written
        return is_written

    def add_again(self, what: str, t_ns: int, **more: Any) -> bool:
        """As :meth:`add`, for a line that was left out before and has been counted."""
        line = json.dumps({"what": what, "t_ns": t_ns} | more).encode() + b"\n"
        share = _SHARE_OF_SOURCES if what == "source" else 1 if what in ("pause", "resume") else _SHARE_OF_OTHERS
        # After a resume there must be room for a pause: the recording stays paused from then on.
        rest, rest_bytes = (1, _PAUSE_BYTES) if what == "resume" else (0, 0)
        fits = self._lines + rest < share * MOST_LINES and self._bytes + len(line) + rest_bytes <= share * MOST_BYTES
        is_written = fits and append_whole(self._file, line)
        self._lines += is_written
        self._bytes += len(line) * is_written
        return is_written

    def begin_anew(self) -> None:
        """Lets the limits count from now on: what was written before is another trace's."""
        self._lines = self._bytes = 0

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)


@dataclass(slots=True)
class Mark:
    """A row of the ``mark`` table. ``what``: mark, pause or set. Times are in nanoseconds from the start of the recording.
    ``end_ns``: None = a moment, or not ended; ``pid``: the program's process that set it, None = set from outside."""

    t_ns: int
    what: str
    text: str
    end_ns: int | None = None
    pid: int | None = None


def read_marks(path: Path, until_ns: int | None = None) -> list[Mark]:
    """The marks in the file at ``path`` up to the moment ``until_ns`` (None = all); none where there is no such file."""
    found: list[Mark] = []
    open_marks: dict[Any, Mark] = {}
    for line in _lines(path):
        t_ns, what, pid = line["t_ns"], line["what"], _number(line.get("pid"))
        key = (pid, _number(line.get("id")))
        if until_ns is not None and t_ns > until_ns:
            continue
        if what in ("end", "resume"):
            ended = open_marks.pop("pause" if what == "resume" else key, None)
            if ended:
                ended.end_ns = max(t_ns, ended.t_ns)
        elif what in ("mark", "pause", "set"):
            if what == "pause" and "pause" in open_marks:
                open_marks["pause"].end_ns = max(t_ns, open_marks["pause"].t_ns)
            found.append(Mark(t_ns, what, storable(str(line.get("text", ""))), None, pid))
            end_ns = _number(line.get("end_ns"))
            if what == "mark" and end_ns is not None:
                found[-1].end_ns = max(end_ns, t_ns) if until_ns is None or end_ns <= until_ns else None
            else:
                open_marks["pause" if what == "pause" else key] = found[-1]
    return found


@dataclass(frozen=True, slots=True)
class ToldSource:
    """Code that the program has compiled from no file: the name that reports show, and its text."""

    title: str
    text: str


def read_told(path: Path) -> dict[str, ToldSource]:
    """By the names that they were compiled with, the texts that the program has told. Each has a title of its own: where
    several were told the same, the later ones have a number."""
    told: dict[str, tuple[str, str]] = {}
    for line in _lines(path):
        file, title, text = (line.get(name) for name in ("file", "title", "text"))
        if (
            line["what"] == "source"
            and isinstance(file, str)
            and isinstance(title, str)
            and isinstance(text, str)
            and title
        ):
            told[storable(file)] = storable(title)[:_LONGEST_TITLE], storable(text)
    counts: dict[str, int] = {}
    taken: set[str] = set()
    found: dict[str, ToldSource] = {}
    for file, (title, text) in told.items():
        name = title
        while name in taken:
            counts[title] = counts.get(title, 1) + 1
            name = f"{title} ({counts[title]})"
        taken.add(name)
        found[file] = ToldSource(name, text)
    return found


def mark_table(marks: list[Mark]) -> dict[str, list[Any]]:
    """The ``mark`` table, by time."""
    ordered = sorted(marks, key=lambda mark: mark.t_ns)
    return {name: [getattr(mark, name) for mark in ordered] for name in _COLUMNS}


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The valid lines: the last one may be cut, and a bad disk may damage any."""
    for text in _texts(path):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict) and _is_time(line.get("t_ns")) and type(line.get("what")) is str:
            yield line


def _texts(path: Path) -> Iterator[bytes]:
    """The lines of the file as far as a recorder may have written them; a longer one counts as several."""
    file = open_regular(path)
    if file is None:
        return
    with file, suppress(OSError):
        rest = MOST_BYTES
        while rest > 0 and (line := file.readline(min(_LONGEST_LINE_BYTES, rest))):
            rest -= len(line)
            yield line


def _is_time(value: Any) -> bool:
    return _number(value) is not None and 0 <= value < 2**62


def _number(value: Any) -> int | None:
    """``value`` if it is an integer that a trace can hold, else None."""
    return value if type(value) is int and -(2**63) <= value < 2**63 else None
