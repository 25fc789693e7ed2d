"""Text out of a trace, made safe for the programs that read exports. They show it on terminals and in browsers."""

from __future__ import annotations

import json
import unicodedata
from typing import Any


def plain(text: str) -> str:
    """``text`` with everything escaped that could move a cursor, change colours, break a line or reorder it."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_plain_character(character) for character in text)


def _plain_character(character: str) -> str:
    if character.isprintable():
        return character
    if character == "\t" or unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape").decode("ascii")


def json_bytes(document: Any) -> bytes:
    """``document`` as JSON in ASCII that may also stand inside HTML: no ``<`` and no ``>`` is left in it."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").encode("ascii")
