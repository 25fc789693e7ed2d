"""Two compact forms of a column for the writer's tables, so that only the writer has to import pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Coded:
    """A text column as indices into its distinct values: ``codes`` int32[rows], -1 = null."""

    codes: npt.NDArray[np.int32]
    values: Sequence[str]


@dataclass(frozen=True)
class Lists:
    """A list<int32> column: row i is ``items[offsets[i]:offsets[i + 1]]``. Both are int32; there are rows + 1 offsets."""

    items: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int32]
