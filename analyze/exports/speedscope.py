"""speedscope's own JSON: one profile for each metric, with samples in order of time.

The format is https://www.speedscope.app/file-format-schema.json. Times are in nanoseconds, sizes in bytes.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from .shared.profile import METRICS, Frame, Profile, Value, title
from .shared.size import Size
from .shared.text import json_bytes

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(profile: Profile) -> bytes:
    """The contents of the file. Metrics without samples have no profile, unless all lack samples."""
    names = [name for name in profile.values if profile.values[name]] or list(profile.values)[:1]
    document = {
        "$schema": SCHEMA,
        "exporter": "scalene-trace",
        "name": title(profile),
        "activeProfileIndex": 0,
        "shared": {"frames": [_frame(frame) for frame in profile.stacks.frames]},
        "profiles": [_profile(profile, name) for name in names],
    }
    return json_bytes(document)


def _frame(frame: Frame) -> dict[str, Any]:
    place: dict[str, Any] = {"file": frame.file} if frame.file else {}
    return {"name": frame.function} | place | ({"line": frame.line} if frame.line else {})


def _profile(profile: Profile, metric: str) -> dict[str, Any]:
    """The profile of a metric. Consecutive samples of one stack are merged; samples that round to 0 are left out."""
    weighed = [(stack, sum(each.value for each in run)) for stack, run in groupby(profile.values[metric], _stack)]
    weighed = [(stack, weight) for stack, weight in weighed if weight]
    size = Size("speedscope")
    for stack, _ in weighed:
        size.add(2 * len(profile.stacks.stacks[stack]))  # an index of at least one digit, and a comma
    return {
        "type": "sampled",
        "name": METRICS[metric].title,
        "unit": METRICS[metric].unit,
        "startValue": 0,
        "endValue": sum(weight for _, weight in weighed),
        "samples": [profile.stacks.stacks[stack] for stack, _ in weighed],
        "weights": [weight for _, weight in weighed],
    }


def _stack(value: Value) -> int:
    return value.stack
