"""The figures of a trace by stack and time bin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..trace import queries
from .bins import Bins
from .encode import Numbers, packed_series

if TYPE_CHECKING:
    from ..trace.connection import Connection

#: The most stacks that keep their native functions, and the most that keep their callers: the most costly ones. Other stacks
#: are reduced to their Python frames, and to one line.
MAX_STACKS = 20_000
#: The most threads that are shown separately.
MAX_THREADS = 500

CPU = ("python_us", "native_us", "unclassified_us", "system_us", "gc_us")
WAITS = ("sleep_us", "disk_us", "runnable_us", "gil_us")
MEMORY = ("growth_bytes", "copy_bytes")
#: The queries of these three, which every page asks.
TICKS_BINNED, WAITS_BINNED, MEMORY_BINNED = BINNED = ("binned_ticks", "binned_waits", "binned_memory")
ALLOCATIONS = ("alloc_bytes", "unlived_bytes", "gone_bytes", "kept_bytes")

Reals = npt.NDArray[np.float64]

#: The key of samples without a stack or thread.
NONE = -1
#: In the key of a stack with native functions below it, the bit from which on the id of the innermost one stands.
NATIVE_SHIFT = 32
STACK_MASK = (1 << NATIVE_SHIFT) - 1


@dataclass(frozen=True)
class BinnedFigures:
    """The figures of one query: columns by name, whose rows belong to ``keys`` and ``bins``. Keys are ids of threads or of
    stacks; with native functions below the stack, their id is in the upper 32 bits."""

    keys: Numbers
    bins: Numbers
    figures: Mapping[str, Reals]

    @cached_property
    def distinct(self) -> tuple[Numbers, Numbers]:
        """The distinct keys, sorted, and the place of each row's key among them."""
        keys, rows = np.unique(self.keys, return_inverse=True)
        return keys, rows

    def only(self, name: str) -> BinnedFigures:
        """The same rows with only the figure ``name``."""
        return BinnedFigures(self.keys, self.bins, {name: self.figures[name]})


#: The keys of an index are looked up in a table if it has at most so many places for each.
_DENSE = 4


@dataclass(frozen=True)
class Index:
    """Numbers by key; ``keys`` are sorted."""

    keys: Numbers
    numbers: Numbers

    @staticmethod
    def of_pairs(keys: Numbers, numbers: Numbers) -> Index:
        """``numbers`` by ``keys`` in any order."""
        order = np.argsort(keys, kind="stable")
        return Index(keys[order], numbers[order])

    def of(self, keys: Numbers, other: int = 0) -> Numbers:
        """The number of each of ``keys``; ``other`` for those without one."""
        if not len(self.keys):
            return np.full(len(keys), other)
        least, most = int(self.keys[0]), int(self.keys[-1])
        if most - least < _DENSE * len(self.keys):  # a table: a fifth of the time of searching
            table = np.full(most - least + 1, other)
            table[self.keys - least] = self.numbers
            is_inside = (keys >= least) & (keys <= most)
            return np.where(is_inside, table[np.clip(keys, least, most) - least], other)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, self.numbers[places], other)


def cpu_and_wait_figures(connection: Connection, bins: Bins) -> tuple[list[BinnedFigures], list[BinnedFigures]]:
    """CPU and waiting time by stack, and by thread."""
    by_stack, by_thread = [], []
    for name, figures in ((TICKS_BINNED, CPU), (WAITS_BINNED, WAITS)):
        columns = _columns(connection, name, **bins.parameters)
        is_thread = columns["is_thread"].astype(bool)
        if "called_native" in columns:
            columns["stack"] = _with_native(_whole(columns["stack"]), _whole(columns["called_native"]))
        by_stack.append(_figures(columns, "stack", "bin", figures, ~is_thread))
        by_thread.append(_figures(columns, "thread", "bin", figures, is_thread))
    return by_stack, by_thread


def _with_native(stack: Numbers, native: Numbers) -> Numbers:
    """The keys of stacks with native functions below them; NONE = none."""
    return np.where(native == NONE, stack, native << NATIVE_SHIFT | stack & STACK_MASK)


def memory_figures(connection: Connection, bins: Bins) -> BinnedFigures:
    """Growth and copied bytes by stack."""
    return read_figures(connection, MEMORY_BINNED, MEMORY, bins)


def read_figures(connection: Connection, name: str, figures: Iterable[str], bins: Bins) -> BinnedFigures:
    """The columns ``figures`` of the query ``name`` by stack and bin; NULL becomes 0."""
    return _figures(_columns(connection, name, **bins.parameters), "stack", "bin", figures)


def allocation_figures(connection: Connection, bins: Bins, peaks_ns: Sequence[int]) -> BinnedFigures:
    """Allocations by stack and half bin; ``peaks_ns``: the time at which each bin is split."""
    parameters = {"origin_ns": bins.origin_ns, "bin_ns": bins.width_ns, "peaks": list(peaks_ns)}
    return _figures(_columns(connection, "binned_allocations", **parameters), "stack", "half", ALLOCATIONS)


def _columns(connection: Connection, name: str, **parameters: Any) -> dict[str, Any]:
    return dict(connection.execute(queries.body(name), parameters).fetchnumpy())


def _figures(columns: dict[str, Any], key: str, time: str, figures: Iterable[str], rows: Any = None) -> BinnedFigures:
    chosen = slice(None) if rows is None else rows
    values = {name: np.ma.filled(columns[name], 0).astype(np.float64)[chosen] for name in figures}
    return BinnedFigures(_whole(columns[key])[chosen], _whole(columns[time])[chosen], values)


def _whole(column: Any) -> Numbers:
    """The column as integers; NULL becomes NONE."""
    filled = np.ma.filled(column, NONE) if np.ma.isMaskedArray(column) else column
    numbers: Numbers = np.asarray(filled).astype(np.int64)
    return numbers


def packed_by_name(tables: Iterable[BinnedFigures], index: Index, other: int = 0) -> dict[str, Any]:
    """The packed figures by name, with keys replaced by their numbers in ``index``, or by ``other`` if they have none."""
    found: dict[str, Any] = {}
    for each in tables:
        cells = _cells(each, index, other)
        for name, values in each.figures.items():
            found[name] = cells.packed(cells.sums(values))
    return found


def packed_peaks(tables: Iterable[BinnedFigures], index: Index) -> dict[str, Any]:
    """Like :func:`packed_by_name` for peaks: if several stacks end in the same node, the highest value counts."""
    found: dict[str, Any] = {}
    for each in tables:
        cells = _cells(each, index, 0)
        for name, values in each.figures.items():
            found[name] = cells.packed(cells.highest(values))
    return found


@dataclass(frozen=True)
class _Cells:
    """The distinct pairs of number and bin, in order, and the one of each row (several stacks may end in one node)."""

    numbers: Numbers
    bins: Numbers
    rows: Numbers

    def sums(self, values: Reals) -> Numbers:
        """The sum of the rows of each cell, as integers.

        Running sums are rounded instead of single rows, so that the sum over any range of bins is off by at most 1.
        """
        running = np.rint(np.cumsum(np.bincount(self.rows, values, len(self.bins)))).astype(np.int64)
        return np.diff(running, prepend=0)

    def highest(self, values: Reals) -> Numbers:
        """The highest row of each cell, or 0."""
        most = np.zeros(len(self.bins), np.int64)
        np.maximum.at(most, self.rows, values.astype(np.int64))
        return most

    def packed(self, values: Numbers) -> dict[str, Any]:
        """The packed ``values`` of the cells."""
        return packed_series(self.numbers, self.bins, values)


def _cells(table: BinnedFigures, index: Index, other: int) -> _Cells:
    keys, rows = table.distinct
    width = int(table.bins.max(initial=0)) + 1
    cells, places = np.unique(index.of(keys, other)[rows] * width + table.bins, return_inverse=True)
    return _Cells(cells // width, cells % width, places)
