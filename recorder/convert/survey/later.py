"""Which processes have records in later batches: what waits for those of its process waits no longer than that."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ....formats.spool.reader import Records
from ..keyed.by_key import ByKey, index_of


class Later:
    """``chunks``: how many chunks each process has in all batches."""

    def __init__(self, chunks: ByKey) -> None:
        self._left = ByKey(chunks.keys, chunks.values.copy())

    def than(self, batch: Records) -> None:
        """Call for each batch, in order: what is told afterwards is about later ones."""
        rows = index_of(self._left.keys, batch.chunks)
        np.subtract.at(self._left.values, rows[rows >= 0], 1)

    def has(self, processes: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.bool_]:
        """For each of these processes whether it has any there."""
        return self._left.of(processes) > 0
