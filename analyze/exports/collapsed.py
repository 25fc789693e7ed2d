"""Collapsed stacks: one line for each stack, with its frames from the outermost to the innermost, and an integer.

flamegraph.pl, inferno, speedscope and others read them. Times are in microseconds, sizes in bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .shared.profile import METRICS, NOTES, Frame, Profile, Rounder, native_frame, note
from .shared.size import Size

#: What a semicolon in a name becomes, because it would end the frame.
_SEMICOLON = "\\x3b"
#: A name and a place; a function of Python has no parenthesis in its name, and of a library none in the library's.
_PYTHON = re.compile(r"(?P<name>.*?) \((?P<file>.*):(?P<line>\d{1,9})\)", re.DOTALL)
_NATIVE = re.compile(r"(?P<name>.*) \((?P<file>.*)\)", re.DOTALL)


def collapsed(profile: Profile, metric: str) -> bytes:
    """The stacks of one metric, as text in UTF-8; stacks whose value rounds to 0 are left out."""
    return "".join(_lines(profile, metric)).encode("utf-8", "backslashreplace")


def _lines(profile: Profile, metric: str) -> Iterator[str]:
    sums: dict[int, int] = {}
    for each in profile.values.get(metric, []):
        sums[each.stack] = sums.get(each.stack, 0) + each.value
    names = [frame_name(frame) for frame in profile.stacks.frames]
    lengths, size = [len(name) + 1 for name in names], Size("collapsed")
    rounder = Rounder(1e-3 if METRICS[metric].unit == "nanoseconds" else 1.0)
    for stack, value in sums.items():
        if count := rounder.round(value):
            size.add(sum(lengths[index] for index in profile.stacks.stacks[stack]))
            yield f"{';'.join(names[index] for index in profile.stacks.stacks[stack])} {count}\n"


def frame_name(frame: Frame) -> str:
    """``function (file:line)``, or ``function (library)``; a semicolon would end the frame."""
    place = f"{frame.file}:{frame.line}" if frame.kind == "python" else frame.file
    name = frame.function if frame.function == place or not place else f"{frame.function} ({place})"
    return name.replace(";", _SEMICOLON)


def frames_of(stack: str) -> Iterator[Frame]:
    """The frames of a collapsed stack, outermost first: of what :func:`frame_name` wrote, frames that have the same name."""
    for name in stack.split(";"):
        text = name.replace(_SEMICOLON, ";")
        if text in NOTES:
            yield note(text)
        elif found := _PYTHON.fullmatch(text):
            yield Frame(found["name"], found["file"], 0, int(found["line"]), "python")
        elif found := _NATIVE.fullmatch(text):
            yield native_frame(found["name"], found["file"])
        else:
            yield native_frame(text, text)
