"""The figures of a trace by stack and time, and the calls that the stacks are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..trace import queries
from .bins import Bins
from .encode import Numbers, packed, packed_series

if TYPE_CHECKING:
    from ..trace.connection import Connection

#: Stacks that keep their callers, at most: those with most samples. Of the others the page knows the line only.
MAX_STACKS = 20_000
#: Threads that are told apart, at most.
MAX_THREADS = 500

CPU = ("python_us", "native_us", "system_us", "gc_us")
WAITS = ("sleep_us", "disk_us", "runnable_us", "gil_us")
MEMORY = ("growth_bytes", "copy_bytes")
ALLOCATIONS = ("alloc_bytes", "unlived_bytes", "gone_bytes", "kept_bytes")

Reals = npt.NDArray[np.float64]

#: In place of a stack or a thread that is none.
NONE = -1


@dataclass(frozen=True)
class BinnedFigures:
    """One query's figures: rows by ``keys`` (stack or thread id, NONE = no stack) and ``bins``, in columns by name."""

    keys: Numbers
    bins: Numbers
    figures: Mapping[str, Reals]

    def only(self, name: str) -> BinnedFigures:
        """The same rows with one of the figures."""
        return BinnedFigures(self.keys, self.bins, {name: self.figures[name]})


@dataclass(frozen=True)
class Calls:
    """Locations, and a tree of them: node n is called from node ``parents[n]`` (NONE: from none), which comes before it.

    ``nodes`` says for each stack id where it ends in the tree, ``short`` how many stacks lost their callers.
    """

    locations: list[tuple[Any, ...]]
    parents: list[int]
    places: list[int]
    nodes: Mapping[int, int]
    short: int


def cpu_and_wait_figures(connection: Connection, bins: Bins) -> tuple[list[BinnedFigures], list[BinnedFigures]]:
    """CPU and waiting time by stack, and by thread."""
    by_stack, by_thread = [], []
    for name, figures in (("binned_ticks", CPU), ("binned_waits", WAITS)):
        columns = _columns(connection, name, **bins.parameters)
        is_thread = columns["is_thread"].astype(bool)
        by_stack.append(_figures(columns, "stack", "bin", figures, ~is_thread))
        by_thread.append(_figures(columns, "thread", "bin", figures, is_thread))
    return by_stack, by_thread


def memory_figures(connection: Connection, bins: Bins) -> BinnedFigures:
    """Growth and copies by stack."""
    return read_figures(connection, "binned_memory", MEMORY, bins)


def read_figures(connection: Connection, name: str, figures: Iterable[str], bins: Bins) -> BinnedFigures:
    """Columns of the query ``name`` by stack and piece; 0 for NULL."""
    return _figures(_columns(connection, name, **bins.parameters), "stack", "bin", figures)


def allocation_figures(connection: Connection, bins: Bins, peaks_ns: Sequence[int]) -> BinnedFigures:
    """Allocations by stack and half of a bin; ``peaks_ns`` says where each bin is halved."""
    parameters = {"origin_ns": bins.origin_ns, "bin_ns": bins.width_ns, "peaks": list(peaks_ns)}
    return _figures(_columns(connection, "binned_allocations", **parameters), "stack", "half", ALLOCATIONS)


def _columns(connection: Connection, name: str, **parameters: Any) -> dict[str, Any]:
    return dict(connection.execute(queries.body(name), parameters).fetchnumpy())


def _figures(columns: dict[str, Any], key: str, time: str, figures: Iterable[str], rows: Any = None) -> BinnedFigures:
    chosen = slice(None) if rows is None else rows
    values = {name: np.ma.filled(columns[name], 0).astype(np.float64)[chosen] for name in figures}
    return BinnedFigures(_whole(columns[key])[chosen], _whole(columns[time])[chosen], values)


def _whole(column: Any) -> Numbers:
    """The column as whole numbers; NONE for NULL."""
    filled = np.ma.filled(column, NONE) if np.ma.isMaskedArray(column) else column
    numbers: Numbers = np.asarray(filled).astype(np.int64)
    return numbers


def packed_by_name(tables: Iterable[BinnedFigures], index: Mapping[int, int], other: int = 0) -> dict[str, Any]:
    """The figures, packed, with ``index`` of the key in place of the key (``other`` where it has none)."""
    found: dict[str, Any] = {}
    for each in tables:
        keys, bins = _indexed(each.keys, index, other), each.bins
        for name, values in each.figures.items():
            found[name] = packed_series(*_merged(keys, bins, values))
    return found


def packed_peaks(tables: Iterable[BinnedFigures], index: Mapping[int, int]) -> dict[str, Any]:
    """Likewise for figures of which the highest counts: of several stacks that end in one place, the larger."""
    found: dict[str, Any] = {}
    for each in tables:
        keys, bins = _indexed(each.keys, index, 0), each.bins
        for name, values in each.figures.items():
            found[name] = packed_series(*_highest(keys, bins, values))
    return found


def _highest(keys: Numbers, bins: Numbers, values: Reals) -> tuple[Numbers, Numbers, Numbers]:
    if not len(keys):
        return keys, bins, keys
    width = int(bins.max()) + 1
    places, rows = np.unique(keys * width + bins, return_inverse=True)
    most = np.zeros(len(places), np.int64)
    np.maximum.at(most, rows, values.astype(np.int64))
    return places // width, places % width, most


def _indexed(keys: Numbers, index: Mapping[int, int], other: int) -> Numbers:
    distinct, places = np.unique(keys, return_inverse=True)
    known = np.array([index.get(int(key), other) for key in distinct], np.int64)
    return known[places] if len(distinct) else keys


def _merged(keys: Numbers, bins: Numbers, values: Reals) -> tuple[Numbers, Numbers, Numbers]:
    """Rows of the same key and bin added up (several stacks may end in one place), in whole numbers.

    Running sums are rounded, not the rows, so that the sum over any run of bins of a key is at most one off.
    """
    if not len(keys):
        return keys, bins, keys
    width = int(bins.max()) + 1
    places, rows = np.unique(keys * width + bins, return_inverse=True)
    running = np.rint(np.cumsum(np.bincount(rows, values))).astype(np.int64)
    return places // width, places % width, np.diff(running, prepend=0)


def calls_of(connection: Connection, tables: Iterable[BinnedFigures], user_files: set[str]) -> Calls:
    """The calls that led to the samples of ``facts``. Node 0 stands for samples without a stack."""
    rows = connection.execute("SELECT id, file, function, first_line, line FROM locations").fetchall()
    known = {row[0]: row[1:] for row in rows}
    stacks: dict[int, tuple[int, ...]] = {}
    wanted = _by_weight(tables)
    is_wanted = frozenset(wanted)
    for stack, locations in connection.execute("SELECT stack, locations FROM stacks").fetchall():
        if stack in is_wanted:
            stacks[stack] = tuple(reversed([each for each in locations or () if each in known]))
    rare = set(wanted[MAX_STACKS:]) if len(wanted) > MAX_STACKS else set()
    for stack in rare & stacks.keys():
        stacks[stack] = _owner_only(stacks[stack], known, user_files)
    return _tree(stacks, known, len(rare))


def _by_weight(tables: Iterable[BinnedFigures]) -> list[int]:
    """The stacks of the samples, those with most rows first."""
    keys = np.concatenate([each.keys for each in tables])
    distinct, counts = np.unique(keys[keys != NONE], return_counts=True)
    return [int(stack) for stack in distinct[np.argsort(-counts, kind="stable")]]


def _owner_only(stack: tuple[int, ...], known: Mapping[int, tuple[Any, ...]], user_files: set[str]) -> tuple[int, ...]:
    """The innermost frame of the user's alone, or the innermost one."""
    own = tuple(each for each in stack if known[each][0] in user_files)
    return (own or stack)[-1:]


def _tree(stacks: Mapping[int, tuple[int, ...]], known: Mapping[int, tuple[Any, ...]], short: int) -> Calls:
    """``stacks`` (outermost first), one after the other in their order, each from where it leaves the one before."""
    numbers: dict[int, int] = {}
    parents, places, nodes = [NONE], [NONE], dict[int, int]()
    path: list[tuple[int, int]] = []  # (location, node) of the stack before
    for stack, frames in sorted(stacks.items(), key=lambda item: item[1]):
        shared = 0
        while shared < min(len(path), len(frames)) and path[shared][0] == frames[shared]:
            shared += 1
        del path[shared:]
        for location in frames[shared:]:
            parents.append(path[-1][1] if path else NONE)
            places.append(numbers.setdefault(location, len(numbers)))
            path.append((location, len(parents) - 1))
        nodes[stack] = path[-1][1] if path else 0
    return Calls([known[location] for location in numbers], parents, places, nodes, short)


def packed_calls(calls: Calls) -> dict[str, Any]:
    """Parents (as steps back from the node; 0 = none) and locations (from 1; 0 = none) of the nodes."""
    parents, places = np.array(calls.parents, np.int64), np.array(calls.places, np.int64)
    steps = np.where(parents == NONE, 0, np.arange(len(parents)) - parents)
    return {"count": len(parents), "parents": packed(steps), "locations": packed(places + 1)}
