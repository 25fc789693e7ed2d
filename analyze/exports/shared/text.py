"""Makes text of a trace safe for the programs that read exports, which show it on terminals and in browsers."""

from __future__ import annotations

import json
import unicodedata
from typing import Any


def plain(text: str) -> str:
    """``text`` with escapes for all characters that could move a cursor, change colours, break lines or reorder text."""
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
    """``document`` as JSON in ASCII without ``<`` and ``>``, so that it can be embedded in HTML."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").encode("ascii")
