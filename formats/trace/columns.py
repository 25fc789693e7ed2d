"""Two compact forms of a column, for tables that are handed to the writer (pyarrow stays in the writer)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Coded:
    """A text column as codes into its distinct values: ``codes`` int32[rows], -1 = null."""

    codes: npt.NDArray[np.int32]
    values: Sequence[str]


@dataclass(frozen=True)
class Lists:
    """A list<int32> column: row i is ``items[offsets[i]:offsets[i + 1]]``; both int32, offsets[rows + 1]."""

    items: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int32]
