"""The figures of a trace by stack and time bin, and the call tree of its stacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..trace import queries
from ..trace.native import NativeFrames
from .bins import Bins
from .encode import Numbers, packed, packed_series

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
ALLOCATIONS = ("alloc_bytes", "unlived_bytes", "gone_bytes", "kept_bytes")

Reals = npt.NDArray[np.float64]

#: The key of samples without a stack or thread.
NONE = -1
#: The location of frames that a stack had beyond the limit of the recording.
_CUT = -2
_CUT_LOCATION = (None, "[outer frames not recorded]", None, None)
#: In the key of a stack with native functions below it, the bit from which on the id of the innermost one stands.
_NATIVE_SHIFT = 32
_STACK_MASK = (1 << _NATIVE_SHIFT) - 1
#: The line of a location that is a native function, with its library as the file.
NATIVE_LINE = -1


@dataclass(frozen=True)
class BinnedFigures:
    """The figures of one query: columns by name, whose rows belong to ``keys`` and ``bins``. Keys are ids of threads or of
    stacks; with native functions below the stack, their id is in the upper 32 bits."""

    keys: Numbers
    bins: Numbers
    figures: Mapping[str, Reals]

    def only(self, name: str) -> BinnedFigures:
        """The same rows with only the figure ``name``."""
        return BinnedFigures(self.keys, self.bins, {name: self.figures[name]})


@dataclass(frozen=True)
class Calls:
    """Locations, and a call tree: node n has the location ``places[n]`` and the caller ``parents[n]`` < n (NONE = no caller).

    ``nodes``: the node of the innermost frame by key of BinnedFigures. ``short``: the number of stacks that were reduced to one line.
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
        if "called_native" in columns:
            columns["stack"] = _with_native(_whole(columns["stack"]), _whole(columns["called_native"]))
        by_stack.append(_figures(columns, "stack", "bin", figures, ~is_thread))
        by_thread.append(_figures(columns, "thread", "bin", figures, is_thread))
    return by_stack, by_thread


def _with_native(stack: Numbers, native: Numbers) -> Numbers:
    """The keys of stacks with native functions below them; NONE = none."""
    return np.where(native == NONE, stack, native << _NATIVE_SHIFT | stack & _STACK_MASK)


def memory_figures(connection: Connection, bins: Bins) -> BinnedFigures:
    """Growth and copied bytes by stack."""
    return read_figures(connection, "binned_memory", MEMORY, bins)


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


def packed_by_name(tables: Iterable[BinnedFigures], index: Mapping[int, int], other: int = 0) -> dict[str, Any]:
    """The packed figures by name, with keys replaced by ``index[key]``, or by ``other`` if the key has no index."""
    found: dict[str, Any] = {}
    for each in tables:
        keys, bins = _indexed(each.keys, index, other), each.bins
        for name, values in each.figures.items():
            found[name] = packed_series(*_merged(keys, bins, values))
    return found


def packed_peaks(tables: Iterable[BinnedFigures], index: Mapping[int, int]) -> dict[str, Any]:
    """Like :func:`packed_by_name` for peaks: if several stacks end in the same node, the highest value counts."""
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
    """Sums of rows with the same key and bin (several stacks may end in one node), as integers.

    Running sums are rounded instead of single rows, so that the sum over any range of bins of a key is off by at most 1.
    """
    if not len(keys):
        return keys, bins, keys
    width = int(bins.max()) + 1
    places, rows = np.unique(keys * width + bins, return_inverse=True)
    running = np.rint(np.cumsum(np.bincount(rows, values))).astype(np.int64)
    return places // width, places % width, np.diff(running, prepend=0)


def calls_of(connection: Connection, tables: Iterable[BinnedFigures], user_files: set[str]) -> Calls:
    """The call tree of the samples in ``tables``. Node 0 stands for samples without a stack."""
    rows = connection.execute(
        "SELECT id, file, function, first_line, line FROM locations WHERE id IS NOT NULL"
    ).fetchall()
    known: dict[int, tuple[Any, ...]] = {row[0]: row[1:] for row in rows} | {_CUT: _CUT_LOCATION}
    wanted = _by_cost(tables)
    python = _python_stacks(connection, {key & _STACK_MASK for key in wanted}, known)
    natives = NativeFrames(connection)
    below = _native_locations(natives, {key >> _NATIVE_SHIFT for key in wanted} - {0}, known)
    own = {location for location, (file, *_) in known.items() if file in user_files}
    whole = set(list(dict.fromkeys(key & _STACK_MASK for key in wanted))[:MAX_STACKS])
    stacks = dict[int, tuple[int, ...]]()
    for number, key in enumerate(wanted):
        frames = python.get(key & _STACK_MASK)
        if frames is not None and key & _STACK_MASK not in whole:
            stacks[key] = _owner_only(frames, own)
        elif number >= MAX_STACKS:
            stacks[key] = frames or ()
        elif frames is not None or key >> _NATIVE_SHIFT:
            stacks[key] = (frames or ()) + below.get(key >> _NATIVE_SHIFT, ())
    return tree(stacks, known, len({key & _STACK_MASK for key in wanted} & python.keys() - whole))


def _python_stacks(
    connection: Connection, wanted: set[int], known: Mapping[int, tuple[Any, ...]]
) -> dict[int, tuple[int, ...]]:
    """The locations of stacks by their ids, from the outermost; those whose outer frames are missing begin with _CUT."""
    rows = connection.execute("SELECT stack, truncated, locations FROM stacks").fetchall()
    return {
        stack: (_CUT,) * bool(is_cut) + tuple(reversed([each for each in locations or () if each in known]))
        for stack, is_cut, locations in rows
        if stack in wanted
    }


def _native_locations(
    natives: NativeFrames, wanted: set[int], known: dict[int, tuple[Any, ...]]
) -> dict[int, tuple[int, ...]]:
    """The native functions from the callee to each of ``wanted``, as locations, which are added to ``known``."""
    first, numbers = max(known, default=0) + 1, dict[tuple[str, str], int]()
    found = {}
    for native in wanted:
        names = natives.called(native)
        found[native] = tuple(first + numbers.setdefault(each, len(numbers)) for each in names)
    known.update({first + number: (library, name, 0, NATIVE_LINE) for (name, library), number in numbers.items()})
    return found


def _by_cost(tables: Iterable[BinnedFigures]) -> list[int]:
    """The stacks of the samples, the most costly first: by their largest share of the time, waiting or bytes of a table."""
    costs: dict[int, float] = {}
    for each in tables:
        keys, rows = np.unique(each.keys, return_inverse=True)
        sums = np.zeros(len(keys))
        for values in each.figures.values():
            sums += np.bincount(rows, np.abs(values), len(keys))
        whole = float(sums.sum()) or 1.0
        for key, cost in zip(keys.tolist(), (sums / whole).tolist(), strict=True):
            costs[key] = max(costs.get(key, 0.0), cost)
    costs.pop(NONE, None)
    return sorted(costs, key=lambda key: (-costs[key], key))


def _owner_only(stack: tuple[int, ...], own: Set[int]) -> tuple[int, ...]:
    """Only the innermost frame of those in ``own``, or the innermost frame if there is none."""
    found = next((each for each in reversed(stack) if each in own), None)
    return stack[-1:] if found is None else (found,)


def tree(stacks: Mapping[int, tuple[int, ...]], known: Mapping[int, tuple[Any, ...]], short: int) -> Calls:
    """The call tree of ``stacks`` (frames from the outermost): sorted stacks share the nodes of their common prefix."""
    numbers: dict[int, int] = {}
    parents, places, nodes = [NONE], [NONE], dict[int, int]()
    before: tuple[int, ...] = ()
    path: list[int] = [0]  # the nodes of the stack before, from the root on
    for stack, frames in sorted(stacks.items(), key=itemgetter(1)):
        shared = _shared(before, frames)
        del path[shared + 1 :]
        for location in frames[shared:]:
            parents.append(path[-1] or NONE)
            places.append(numbers.setdefault(location, len(numbers)))
            path.append(len(parents) - 1)
        nodes[stack], before = path[-1], frames
    return Calls([known[location] for location in numbers], parents, places, nodes, short)


def _shared(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    """The length of the common prefix. Comparing halves takes a tenth of the time that comparing frames one by one does."""
    least, most = 0, min(len(first), len(second))
    if first[:most] == second[:most]:
        return most
    while most - least > 1:
        middle = (least + most) // 2
        if first[least:middle] == second[least:middle]:
            least = middle
        else:
            most = middle
    return least


def packed_calls(calls: Calls) -> dict[str, Any]:
    """The packed tree: parents (as distances from the node; 0 = none) and locations (from 1; 0 = none) of the nodes."""
    parents, places = np.array(calls.parents, np.int64), np.array(calls.places, np.int64)
    steps = np.where(parents == NONE, 0, np.arange(len(parents)) - parents)
    return {"count": len(parents), "parents": packed(steps), "locations": packed(places + 1)}
