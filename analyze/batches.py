"""Which of many traces are reduced together: enough to be worth planning the questions, and no more than memory holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from scalene_trace.formats.integrity import frames_told

#: What the batches may weigh that are reduced at one moment: a report takes about 100 MiB, and 2 for each MB of this.
HELD_BYTES = 180_000_000
#: Up to here, all are one batch: several cost more planning than they save.
TOGETHER_BYTES = 30_000_000
#: What a trace weighs beside its file, and each frame of its stacks: those are unpacked, and a stack has dozens.
TRACE_BYTES, FRAME_BYTES = 1_000_000, 8
#: Times its size, a trace weighs at most that does not tell its frames; those of format 1.5 do.
UNTOLD_FACTOR = 3


def batches_of(paths: Sequence[Path], cores: int) -> list[list[Path]]:
    """The paths in their order, cut into batches of about the same weight, as many for each core."""
    weights = [_weight(path) for path in paths]
    total = sum(weights)
    number = 1 if total <= TOGETHER_BYTES else math.ceil(total / HELD_BYTES) * cores
    batches: list[list[Path]] = [[] for _ in range(number)]
    before = 0
    for path, weight in zip(paths, weights, strict=True):
        batches[(2 * before + weight) * number // (2 * total)].append(path)
        before += weight
    return [batch for batch in batches if batch]


def _weight(path: Path) -> int:
    size, frames = path.stat().st_size if path.is_file() else 0, frames_told(path)
    weight = TRACE_BYTES + (UNTOLD_FACTOR * size if frames is None else size + FRAME_BYTES * frames)
    return min(weight, HELD_BYTES)  # whatever a file says of itself
