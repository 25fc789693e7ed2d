"""A table with one row for each key, whose columns are filled from records that come in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ....formats.trace.columns import Coded, Masked
from .by_key import Ints


class RowsByKey:
    """One row for each of the distinct ``keys``. A value that is not filled is null; a value that is filled again is
    replaced. All keys that are filled must be among ``keys``."""

    def __init__(self, keys: Ints) -> None:
        self.keys: Ints = np.unique(keys)
        self._columns: dict[str, Masked] = {}
        self._texts: dict[str, tuple[npt.NDArray[np.int32], Sequence[str]]] = {}
        self._objects: dict[str, list[Any]] = {}

    def fill(self, name: str, keys: Ints, values: npt.NDArray[Any] | Masked) -> None:
        """Fills a column of numbers."""
        if name not in self._columns:
            dtype = values.data.dtype if isinstance(values, Masked) else values.dtype
            self._columns[name] = Masked(np.zeros(len(self.keys), dtype), np.ones(len(self.keys), bool))
        column, at = self._columns[name], np.searchsorted(self.keys, keys)
        column.data[at] = values.data if isinstance(values, Masked) else values
        column.mask[at] = values.mask if isinstance(values, Masked) else False

    def add(self, name: str, keys: Ints, values: npt.NDArray[Any]) -> None:
        """Adds to values of a column of numbers that are filled."""
        self._columns[name].data[np.searchsorted(self.keys, keys)] += values

    def unfilled(self, name: str, keys: Ints) -> npt.NDArray[np.bool_]:
        """True for the keys without a value in a column of numbers."""
        if name not in self._columns:
            return np.ones(len(keys), bool)
        return self._columns[name].mask[np.searchsorted(self.keys, keys)]

    def fill_texts(self, name: str, keys: Ints, values: Coded) -> None:
        """Fills a column of texts, with one call."""
        codes = np.full(len(self.keys), -1, np.int32)
        codes[np.searchsorted(self.keys, keys)] = values.codes
        self._texts[name] = codes, values.values

    def fill_objects(self, name: str, keys: Ints, values: list[Any]) -> None:
        """Fills a column of lists, with one call."""
        column = [None] * len(self.keys)
        for row, value in zip(np.searchsorted(self.keys, keys).tolist(), values, strict=True):
            column[row] = value
        self._objects[name] = column

    def texts(self, name: str, keys: Ints) -> list[str | None]:
        """Values of a column of texts."""
        codes, values = self._texts[name]
        return [values[code] if code >= 0 else None for code in codes[np.searchsorted(self.keys, keys)].tolist()]

    def table(self, *order: str) -> dict[str, Any]:
        """The columns, by time, then by the columns ``order``. A row without a time counts as at the start. The columns are
        moved into the table one by one, so that they are not in memory twice."""
        column = self._columns["t_ns"]
        times = [self._columns[name].data for name in reversed(order)] + [np.where(column.mask, 0, column.data)]
        rows = np.lexsort(times)
        del times
        table: dict[str, Any] = {name: self._columns.pop(name)[rows] for name in list(self._columns)}
        for name in list(self._texts):
            codes, values = self._texts.pop(name)
            table[name] = Coded(codes[rows], values)
        for name in list(self._objects):
            objects = self._objects.pop(name)
            table[name] = [objects[row] for row in rows.tolist()]
        return table
