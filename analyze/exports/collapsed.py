"""Collapsed stacks: one line for each stack, with its frames from the outermost to the innermost, and an integer.

flamegraph.pl, inferno, speedscope and others read them. Times are in microseconds, sizes in bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from .shared.profile import METRICS, Frame, Profile, Rounder
from .shared.size import Size


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
    return name.replace(";", "\\x3b")
