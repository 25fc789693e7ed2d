"""Texts as a trace can hold them."""

from __future__ import annotations


def storable(text: str) -> str:
    """``text`` with lone surrogates (bytes of a name that are not UTF-8) written as escapes: a trace holds UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text


def from_bytes(data: bytes) -> str:
    """Text of a path or an argument; bytes that are not UTF-8 are written as escapes."""
    return data.decode("utf-8", "backslashreplace")
