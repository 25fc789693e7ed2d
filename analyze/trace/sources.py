"""The text of source files as stored in traces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from . import queries

if TYPE_CHECKING:
    from .connection import Connection

Sources = Mapping[str, list[str]]  #: file -> lines of text

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


def source_line(sources: Sources, file: str, line: int) -> str | None:
    """The text of a line (from 1); None if it is not stored."""
    lines = sources.get(file, [])
    return lines[line - 1] if 0 < line <= len(lines) else None
