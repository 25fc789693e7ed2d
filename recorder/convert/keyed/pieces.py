"""What arrives in pieces, one for each batch of a recording, and is wanted as a whole.

A piece waits. The pieces are merged when they have more rows, or more bytes, than what is known already, so all of it is sorted
a few times and not once for each piece.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from ....formats.spool.layout import concatenated, rows_of
from .by_key import ByKey, Ints

#: Rows that wait in any case, and their size, since a survey has a dozen of these; of one array beside its contents.
_MOST_WAITING, _MOST_BYTES, _ARRAY_BYTES = 16_384, 1 << 18, 144


class _Pieces(ABC):
    """Rows along the last axis of ``known``, and of the pieces."""

    def __init__(self, known: npt.NDArray[Any]) -> None:
        self._known = known
        self._waiting: list[npt.NDArray[Any]] = []
        self._rows = self._bytes = 0  # of those that wait

    @property
    def nbytes(self) -> int:
        """The size in memory, about."""
        return self._known.nbytes + self._bytes

    def _wait(self, piece: npt.NDArray[Any]) -> None:
        if not piece.shape[-1]:
            return
        self._waiting.append(piece)
        self._rows += piece.shape[-1]
        self._bytes += piece.nbytes + _ARRAY_BYTES
        if self._rows > max(_MOST_WAITING, self._known.shape[-1]) or self._bytes > max(_MOST_BYTES, self._known.nbytes):
            self._whole()

    def _whole(self) -> npt.NDArray[Any]:
        """What is known after all pieces."""
        if self._waiting:
            self._known = self._merged([self._known, *self._waiting])
            self._waiting.clear()
            self._rows = self._bytes = 0
        return self._known

    @abstractmethod
    def _merged(self, pieces: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """All pieces as one, without what is there twice."""


class Distinct(_Pieces):
    """Distinct records by their hash, or distinct hashes."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        super().__init__(np.empty(0, dtype))

    def add(self, more: npt.NDArray[Any]) -> None:
        """Adds an array."""
        self._wait(more)

    def all(self) -> npt.NDArray[Any]:
        """All of them, sorted. Of records with equal hashes the first one."""
        return self._whole()

    def _merged(self, pieces: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        found = concatenated(pieces)
        if not found.dtype.names:
            return np.unique(found)
        return rows_of(found, np.unique(found["hash"], return_index=True)[1])


class Counts(_Pieces):
    """How often each key occurs."""

    def __init__(self) -> None:
        super().__init__(np.empty((2, 0), np.int64))

    def add(self, keys: npt.NDArray[np.integer[Any]]) -> None:
        """Adds some keys."""
        self._wait(np.stack(np.unique(keys.astype(np.int64), return_counts=True)))

    def all(self) -> ByKey:
        """The count of each key."""
        return ByKey(*self._whole())

    def _merged(self, pieces: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        keys, counts = np.concatenate(pieces, axis=1)
        distinct, of_key = np.unique(keys, return_inverse=True)
        found = np.zeros(len(distinct), np.int64)
        np.add.at(found, of_key, counts)
        return np.stack([distinct, found])


class Extremes(_Pieces):
    """The lowest value of each key (with ``highest``: the highest), of pairs. Of equal values, the one with the lowest ``more`` is
    kept."""

    def __init__(self, highest: bool = False) -> None:
        super().__init__(np.empty((3, 0), np.int64))
        self._highest = highest

    def add(self, keys: Ints, values: Ints, more: Ints | None = None) -> None:
        """Adds a value, and another number that is kept with it, for each of ``keys``."""
        self._wait(np.stack([keys, values, np.zeros(len(keys), np.int64) if more is None else more]))

    def all(self) -> ByKey:
        """The extreme value of each key."""
        keys, values, _ = self._whole()
        return ByKey(keys, values)

    def more(self) -> ByKey:
        """The number that was given with the extreme value of each key."""
        keys, _, more = self._whole()
        return ByKey(keys, more)

    def _merged(self, pieces: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        rows = np.concatenate(pieces, axis=1)
        key, value, more = rows
        order = np.lexsort((more, ~value if self._highest else value, key))
        ordered = key[order]
        return rows[:, order[np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))]]
