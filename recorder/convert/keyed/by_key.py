"""Values by key, for keys of which a long recording has hundreds of thousands: processes and threads. Everything here works
on whole columns; a key takes at most 24 bytes, a tenth of what a dict takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ....formats.dataclass import dataclass
from ....formats.trace.columns import Masked

Ints = npt.NDArray[np.int64]

#: Equal keys that follow each other are looked up once, if there are so many times fewer of these runs.
_FEWER_RUNS = 4


def index_of(sorted_keys: npt.NDArray[np.integer[Any]], wanted: npt.NDArray[np.integer[Any]]) -> Ints:
    """The index of each of ``wanted`` in ``sorted_keys`` (distinct), -1 = it is not there."""
    if not len(sorted_keys):
        return np.full(len(wanted), -1, np.int64)
    starts = np.flatnonzero(np.append(True, wanted[1:] != wanted[:-1])[: len(wanted)])
    if len(starts) < len(wanted) // _FEWER_RUNS:  # one after the other, as most events are
        return np.repeat(index_of(sorted_keys, wanted[starts]), np.diff(np.append(starts, len(wanted))))
    at = np.minimum(np.searchsorted(sorted_keys, wanted), len(sorted_keys) - 1)
    return np.where(sorted_keys[at] == wanted, at, -1)


def ids_of(
    sorted_keys: npt.NDArray[np.integer[Any]], ids: npt.NDArray[np.integer[Any]], wanted: npt.NDArray[np.integer[Any]]
) -> Masked:
    """The id (int32) of each of ``wanted``, masked where it has none or 0. ``ids``: that of each of ``sorted_keys``."""
    at = index_of(sorted_keys, wanted)
    found = np.where(at >= 0, ids[at] if len(ids) else 0, 0).astype(np.int32)
    return Masked(found, found == 0)


@dataclass(frozen=True)
class ByKey:
    """``keys``: sorted and distinct; ``values``: one for each."""

    keys: Ints
    values: Ints

    def of(self, keys: npt.NDArray[np.integer[Any]], default: int = 0) -> Ints:
        """The value of each of ``keys``, ``default`` where it has none."""
        if len(keys) > 1 and (keys == keys[0]).all():  # records of one process, most often
            return np.repeat(self.of(keys[:1], default), len(keys))
        at = index_of(self.keys, keys)
        return np.where(at >= 0, self.values[at] if len(self.values) else default, default)

    def one(self, key: int, default: int = 0) -> int:
        """The value of ``key``."""
        return int(self.of(np.array([key], np.int64), default)[0])


def last_by_key(keys: Ints, values: Ints) -> ByKey:
    """The last value of each key."""
    distinct, rows = np.unique(keys[::-1], return_index=True)
    return ByKey(distinct, values[::-1][rows])
