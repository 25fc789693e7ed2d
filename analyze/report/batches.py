"""Which of many traces are reduced together: enough to be worth planning the questions, and no more than memory holds."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...formats.trace.integrity import stored_frames

#: What batches may weigh that are reduced at one moment, but for a single trace that weighs more: a report takes about 100 MiB,
#: and 2 for each MB of this.
HELD_BYTES = 180_000_000
#: A batch that weighs less than this costs more planning than it saves.
LEAST_BYTES = 15_000_000
#: What a trace weighs beside its file, and each frame of its stacks: those are unpacked, and a stack has dozens.
TRACE_BYTES, FRAME_BYTES = 1_000_000, 6
#: Times its size, a trace weighs that does not tell its frames: what recorded ones with deep stacks do. (Those of format 1.5 tell.)
UNTOLD_FACTOR = 5


def batches_of(paths: Sequence[Path], cores: int) -> tuple[list[list[Path]], int]:
    """The paths in their order, cut into batches as even as can be, and how many of them to reduce at one moment."""
    weights = [_weight(path) for path in paths]
    total, heaviest = sum(weights), max(weights)
    at_once = max(min(cores, HELD_BYTES // max(heaviest, LEAST_BYTES), total // LEAST_BYTES), 1)
    share = max(HELD_BYTES // at_once, heaviest)
    number = math.ceil(len(_cut(weights, share)) / at_once) * at_once
    limits = range(heaviest, share)
    limit = heaviest + bisect_left(limits, True, key=lambda limit: len(_cut(weights, limit)) <= number)
    remaining: Iterator[Path] = iter(paths)
    return [[next(remaining) for _ in range(count)] for count in _cut(weights, limit)], at_once


def _cut(weights: Sequence[int], limit: int) -> list[int]:
    """How many follow each other in batches that weigh no more than the limit, which none of the weights exceeds."""
    counts, room = list[int](), 0
    for weight in weights:
        if weight > room or not counts:
            counts.append(0)
            room = limit
        counts[-1] += 1
        room -= weight
    return counts


def _weight(path: Path) -> int:
    try:
        size = path.stat().st_size
    except OSError:  # who opens it will say so
        return TRACE_BYTES
    frames = stored_frames(path)
    weight = TRACE_BYTES + (UNTOLD_FACTOR * size if frames is None else size + FRAME_BYTES * frames)
    return min(weight, HELD_BYTES)  # whatever a file says of itself
