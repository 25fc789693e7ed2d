"""Labels of a trace: what the recorder accepts, and so what is read from a trace, whose author may be a stranger.

All labels are one setting, ``labels``: a JSON object of texts, in the order given.
"""

from __future__ import annotations

import json
import re
import unicodedata

#: The most bytes of a value in UTF-8, and the most labels of a trace.
MOST_BYTES, MOST_LABELS = 256, 64
_NAME = r"[a-z][a-z0-9_]{0,63}"


def is_name(text: str) -> bool:
    """Is it the name of a label: a lower-case letter, then at most 63 lower-case letters, digits and ``_``?"""
    return re.fullmatch(_NAME, text, re.ASCII) is not None


def has_control(text: str) -> bool:
    """Has a value a control character, such as a line feed?"""
    return any(unicodedata.category(each) == "Cc" for each in text)


def is_value(value: object) -> bool:
    """Is it the value of a label: 1 to 256 bytes in UTF-8 without control characters?"""
    if not isinstance(value, str):
        return False
    try:
        return 0 < len(value.encode()) <= MOST_BYTES and not has_control(value)
    except UnicodeEncodeError:
        return False


def labels_in(text: str | None) -> dict[str, str]:
    """The labels in a setting of this text. What the recorder would have refused is left out."""
    try:
        found = json.loads(text) if text is not None else {}
    except (ValueError, RecursionError):
        return {}
    pairs = found.items() if isinstance(found, dict) else ()
    return dict([(name, value) for name, value in pairs if is_name(name) and is_value(value)][:MOST_LABELS])
