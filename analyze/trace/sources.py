"""The text of source files as stored in traces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from . import queries

if TYPE_CHECKING:
    from .connection import Connection

Sources = Mapping[str, list[str]]  #: file -> lines of text

#: Texts that are fetched at a time.
_AT_ONCE = 50
_NEWLINE = re.compile(r"\r\n|\r|\n")


def sources_of(connection: Connection, files: Iterable[str]) -> dict[str, list[str]]:
    """The lines of those of ``files`` whose text is stored, from the first trace that has it.

    Lines end as in Python's tokenizer: at line feeds and carriage returns, but not at form feeds.
    """
    texts: dict[str, str] = {}
    for _, file, text, _ in queries.run(connection, "sources_of", files=sorted(files)):
        if text is not None:
            texts.setdefault(file, text)
    return {file: _NEWLINE.split(text) for file, text in texts.items()}


def sources_by_trace(connection: Connection, files: Iterable[str]) -> Iterator[tuple[int, dict[str, list[str]]]]:
    """The same for each of the opened traces that has any, in order, one after the other. Many traces have the same files: a
    text is split once. The connection is not to be used in between."""
    query = "SELECT trace, file, text FROM sources WHERE list_contains(?::VARCHAR[], file) AND text IS NOT NULL ORDER BY ALL"
    cursor = connection.execute(query, (sorted(files),))
    known: dict[str, tuple[str, list[str]]] = {}
    trace, found = 0, dict[str, list[str]]()
    while rows := cursor.fetchmany(_AT_ONCE):
        for number, file, text in rows:
            if number != trace:
                if found:
                    yield trace, found
                trace, found = number, {}
            if file not in known or known[file][0] != text:
                known[file] = text, _NEWLINE.split(text)
            found.setdefault(file, known[file][1])
    if found:
        yield trace, found


def source_line(sources: Sources, file: str, line: int) -> str | None:
    """The text of a line (from 1); None if it is not stored."""
    lines = sources.get(file, [])
    return lines[line - 1] if 0 < line <= len(lines) else None
