"""Labels of a recording (``--label NAME=VALUE``): what its trace is of, in the user's own words."""

from __future__ import annotations

from collections.abc import Sequence

from ..formats.labels import MOST_BYTES, MOST_LABELS, has_control, is_name
from ..formats.units import counted
from .errors import UsageError

_EXAMPLE = "service=shop"


def labels_of(option: str, texts: Sequence[str]) -> dict[str, str]:
    """The labels in ``texts`` by name, in their order. ``option``: its name, for messages. Raises UsageError."""
    labels: dict[str, str] = {}
    for text in texts:
        name, value = _label(option, text)
        if name in labels:
            raise UsageError(f"{option} {name} is given twice. Give each name once.")
        labels[name] = value
    if len(labels) > MOST_LABELS:
        given = counted(len(labels), "label", "labels")
        raise UsageError(f"There are {given} ({option}). A trace holds {MOST_LABELS} at most: leave some out.")
    return labels


def _label(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"{option} {text!r} has no value. Write a name and a value, like {option} {_EXAMPLE}.")
    if not is_name(name):
        raise UsageError(
            f"{option} {name!r} is no name of a label. It has lower-case letters, digits and _, begins with a letter, and has "
            f"at most 64 characters, like {option} {_EXAMPLE}."
        )
    if not value:
        raise UsageError(f"{option} {name}= has no value. Give one, like {option} {_EXAMPLE}, or leave the option out.")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise UsageError(f"The value of {option} {name} is not UTF-8. Write it in UTF-8.") from None
    if size > MOST_BYTES:
        raise UsageError(
            f"The value of {option} {name} has {size:,} bytes in UTF-8. It can have {MOST_BYTES}: shorten it."
        )
    if has_control(value):
        raise UsageError(f"The value of {option} {name} has a control character, such as a line feed. Leave it out.")
    return name, value
