"""Values by key, for keys of which a long recording has hundreds of thousands: processes and threads. Everything here works
on whole columns; a key takes at most 24 bytes, a tenth of what a dict takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ....formats.dataclass import dataclass
from ....formats.spool.layout import concatenated, rows_of
from ....formats.trace.columns import Masked

#: Rows that wait before they are merged with the others; a piece takes as much memory as so many rows beside its own.
_MOST_WAITING, _ROWS_OF_PIECE = 16_384, 6

Ints = npt.NDArray[np.int64]


def index_of(sorted_keys: npt.NDArray[np.integer[Any]], wanted: npt.NDArray[np.integer[Any]]) -> Ints:
    """The index of each of ``wanted`` in ``sorted_keys`` (distinct), -1 = it is not there."""
    if not len(sorted_keys):
        return np.full(len(wanted), -1, np.int64)
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
        if not len(self.keys):
            return np.full(len(keys), default, np.int64)
        if len(keys) > 1 and (keys == keys[0]).all():  # records of one process, most often
            return np.repeat(self.of(keys[:1], default), len(keys))
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.values[at], default)

    def one(self, key: int, default: int = 0) -> int:
        """The value of ``key``."""
        return int(self.of(np.array([key], np.int64), default)[0])


def last_by_key(keys: Ints, values: Ints) -> ByKey:
    """The last value of each key."""
    distinct, rows = np.unique(keys[::-1], return_index=True)
    return ByKey(distinct, values[::-1][rows])


class Distinct:
    """Distinct records by their hash, or distinct hashes, of arrays that arrive in pieces. They are sorted again when there are as
    many new ones as known ones, so that the time for all is that of sorting them a few times."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._known = np.empty(0, dtype)
        self._waiting: list[npt.NDArray[Any]] = []
        self._count = 0

    def add(self, more: npt.NDArray[Any]) -> None:
        """Adds an array."""
        if not len(more):
            return
        self._waiting.append(more)
        self._count += len(more)
        if self._count > max(_MOST_WAITING, len(self._known)):
            self._merge()

    @property
    def nbytes(self) -> int:
        """Their size in memory, about."""
        return self._known.nbytes + sum(each.nbytes for each in self._waiting)

    def all(self) -> npt.NDArray[Any]:
        """All of them, sorted. Of records with equal hashes the first one."""
        self._merge()
        return self._known

    def _merge(self) -> None:
        found = concatenated([self._known, *self._waiting])
        self._waiting.clear()
        self._count = 0
        self._known = (
            rows_of(found, np.unique(found["hash"], return_index=True)[1]) if found.dtype.names else np.unique(found)
        )


class Counts:
    """How often each key occurs, of keys that arrive in pieces."""

    def __init__(self) -> None:
        self._keys = self._counts = np.empty(0, np.int64)

    def add(self, keys: npt.NDArray[np.integer[Any]]) -> None:
        """Adds some keys."""
        self._keys, of_key = np.unique(np.concatenate([self._keys, keys]), return_inverse=True)
        counts = np.zeros(len(self._keys), np.int64)
        np.add.at(counts, of_key, np.concatenate([self._counts, np.ones(len(keys), np.int64)]))
        self._counts = counts

    @property
    def nbytes(self) -> int:
        """Their size in memory."""
        return self._keys.nbytes + self._counts.nbytes

    def all(self) -> ByKey:
        """The count of each key."""
        return ByKey(self._keys, self._counts)


class Extremes:
    """The lowest value of each key (with ``highest``: the highest), of pairs that arrive in pieces. Of equal values, the one
    with the lowest ``more`` is kept."""

    def __init__(self, highest: bool = False) -> None:
        self._highest = highest
        self._rows = np.empty((3, 0), np.int64)
        self._waiting: list[Ints] = []
        self._count = 0

    def add(self, keys: Ints, values: Ints, more: Ints | None = None) -> None:
        """Adds a value, and another number that is kept with it, for each of ``keys``."""
        self._waiting.append(np.stack([keys, values, np.zeros(len(keys), np.int64) if more is None else more]))
        self._count += len(keys) + _ROWS_OF_PIECE
        if self._count > max(_MOST_WAITING, self._rows.shape[1]):
            self._merge()

    @property
    def nbytes(self) -> int:
        """Their size in memory, about."""
        return self._rows.nbytes + self._count * 24

    def all(self) -> ByKey:
        """The extreme value of each key."""
        self._merge()
        return ByKey(self._rows[0], self._rows[1])

    def more(self) -> ByKey:
        """The number that was given with the extreme value of each key."""
        self._merge()
        return ByKey(self._rows[0], self._rows[2])

    def _merge(self) -> None:
        rows = np.concatenate([self._rows, *self._waiting], axis=1)
        self._waiting.clear()
        self._count = 0
        key, value, more = rows
        order = np.lexsort((more, ~value if self._highest else value, key))
        ordered = key[order]
        self._rows = rows[:, order[np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))]]
