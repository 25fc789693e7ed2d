"""Three forms of a column for the writer's tables, so that only the writer has to import pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..dataclass import dataclass


@dataclass(frozen=True)
class Coded:
    """A text column as indices into its distinct values: ``codes`` int32[rows], -1 = null."""

    codes: npt.NDArray[np.int32]
    values: Sequence[str]


@dataclass(frozen=True)
class Masked:
    """A column of numbers, some of which are null: ``data`` and ``mask`` (True = null) have equal length. numpy's own masked
    arrays are not used, because their import takes 8 ms."""

    data: npt.NDArray[Any]
    mask: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, rows: npt.NDArray[Any]) -> Masked:
        return Masked(self.data[rows], self.mask[rows])

    def tolist(self) -> list[Any]:
        """The values, None for null."""
        return [
            None if is_null else value for value, is_null in zip(self.data.tolist(), self.mask.tolist(), strict=True)
        ]


@dataclass(frozen=True)
class Lists:
    """A list<int32> column: row i is ``items[offsets[i]:offsets[i + 1]]``. Both are int32; there are rows + 1 offsets."""

    items: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int32]
