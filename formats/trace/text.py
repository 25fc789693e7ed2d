"""Texts in the form that a trace can hold: valid UTF-8."""

from __future__ import annotations

#: Characters that are kept of the text of a user mark.
LONGEST_MARK = 1000
#: How marks begin that say what --cpu-budget has done.
BUDGET_NOTE = "cpu-budget="


def storable(text: str) -> str:
    """``text`` with lone surrogates written as escapes. They stand for bytes of a file name that are not UTF-8."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text


def from_bytes(data: bytes) -> str:
    """The text of a path, an argument or a name; bytes that are not UTF-8 are written as escapes."""
    return data.decode("utf-8", "backslashreplace")
