"""The call tree of the stacks of a trace's samples.

A path is the frames of a stack from the outermost, as bytes: the number of each location in four bytes, highest first. Paths
sort as their frames do, in a tenth of the time that tuples of numbers take.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..trace.native import NativeFrames
from . import series
from .encode import Numbers, packed
from .series import NATIVE_SHIFT, NONE, STACK_MASK, BinnedFigures, Index
from .texts import Location

if TYPE_CHECKING:
    from ..trace.connection import Connection

#: The line of a location that is a native function, with its library as the file.
NATIVE_LINE = -1
#: The location, with number 1, of frames that a stack had beyond the limit of the recording.
_CUT = (None, "[outer frames not recorded]", None, None)
#: The bytes of a frame in a path.
_FRAME = 4


@dataclass(frozen=True)
class Calls:
    """Locations, and a call tree: node n has the location ``places[n]`` and the caller ``parents[n]`` < n (NONE = no caller).

    ``nodes``: the node of the innermost frame by key of BinnedFigures. ``short``: the number of stacks that were reduced to one line.
    """

    locations: list[Location]
    parents: Numbers
    places: Numbers
    nodes: Index
    short: int


@dataclass(frozen=True)
class _Stacks:
    """Python stacks: ``paths[numbers[n]]`` is the path of the n-th one."""

    numbers: Numbers
    paths: list[bytes]
    short: int


def calls_of(connection: Connection, tables: Iterable[BinnedFigures]) -> Calls:
    """The call tree of the samples in ``tables``. Node 0 stands for samples without a stack."""
    distinct, order = by_cost(tables)
    keys = distinct[order]
    rows = connection.execute(
        "SELECT id, file, function, first_line, line FROM locations WHERE id IS NOT NULL"
    ).fetchall()
    known: dict[int, Location] = {row[0]: row[1:] for row in rows}
    ids = np.array(sorted(known), np.int64)
    locations = [_CUT, *(known[each] for each in ids.tolist())]
    stacks = _python_stacks(connection, keys & STACK_MASK, Index(ids, np.arange(len(ids)) + 2))
    paths, ends = stacks.paths, stacks.numbers
    natives = keys[: series.MAX_STACKS] >> NATIVE_SHIFT
    if natives.any():
        callees = _Natives(NativeFrames(connection), locations)
        for place, (native, end) in enumerate(zip(natives.tolist(), ends.tolist(), strict=False)):
            if native and (below := callees.path(native)):
                ends[place] = len(paths)
                paths.append(paths[end] + below)
    by_key = np.empty_like(ends)
    by_key[order] = ends
    return joined(paths, Index(distinct, by_key), locations, stacks.short)


def by_cost(tables: Iterable[BinnedFigures]) -> tuple[Numbers, Numbers]:
    """The keys of the samples, sorted, and their places from the most costly on: by the largest share of the time, waiting or
    bytes of a table."""
    keys, shares = [], []
    for each in tables:
        distinct, rows = each.distinct
        sums = np.zeros(len(distinct))
        for values in each.figures.values():
            sums += np.bincount(rows, np.abs(values), len(distinct))
        keys.append(distinct)
        shares.append(sums / (float(sums.sum()) or 1.0))
    found, places = np.unique(np.concatenate(keys), return_inverse=True)
    costs = np.zeros(len(found))
    np.maximum.at(costs, places, np.concatenate(shares))
    found, costs = found[found != NONE], costs[found != NONE]
    return found, np.argsort(-costs, kind="stable")


def _python_stacks(connection: Connection, wanted: Numbers, numbers: Index) -> _Stacks:
    """The paths of the stacks ``wanted``, of which the first are the most costly: these keep all frames, the others only the
    innermost of the user's code, or the innermost if there is none. ``numbers``: those of locations, by their ids."""
    ids, rows = np.unique(wanted, return_inverse=True)
    firsts = np.full(len(ids), len(rows))
    np.minimum.at(firsts, rows, np.arange(len(rows)))
    is_whole = np.zeros(len(ids), bool)
    is_whole[np.argsort(firsts)[: series.MAX_STACKS]] = True
    owners = _owners(connection, numbers).of(ids)
    is_owned = ~is_whole & (owners > 0)
    found, ends = {b"": 0}, np.zeros(len(ids), np.int64)
    distinct, places = np.unique(owners[is_owned], return_inverse=True)
    lines = [found.setdefault(path_of([each]), len(found)) for each in distinct.tolist()]
    ends[is_owned] = np.array(lines, np.int64)[places]
    frames, short = _frames(connection, ids[~is_owned], numbers), int(np.count_nonzero(is_owned))
    for place in np.flatnonzero(~is_owned).tolist():
        path = frames.get(int(ids[place]))
        if path is not None and not is_whole[place]:
            path, short = path[-_FRAME:], short + 1
        ends[place] = found.setdefault(path or b"", len(found))
    return _Stacks(ends[rows], list(found), short)


def _owners(connection: Connection, numbers: Index) -> Index:
    """The number of the location that samples are charged to, by stack; stacks without a frame of the user's are absent."""
    rows = connection.execute("SELECT stack, location FROM stack_owners WHERE stack IS NOT NULL").fetchnumpy()
    return Index.of_pairs(rows["stack"].astype(np.int64), numbers.of(rows["location"].astype(np.int64)))


def _frames(connection: Connection, wanted: Numbers, numbers: Index) -> dict[int, bytes]:
    """The paths of stacks by their ids; those whose outer frames are missing begin with _CUT."""
    rows = connection.execute(
        "SELECT stack, coalesce(truncated, false) AS is_cut,"
        " coalesce(list_filter(locations, lambda each: each IS NOT NULL), []) AS locations"
        " FROM stacks SEMI JOIN (SELECT unnest($1::BIGINT[]) AS stack) USING (stack)",
        [wanted.tolist()],
    ).fetchnumpy()
    lists = rows["locations"]
    # frames in reverse: each stack from its outermost frame, the last stack first
    frames = numbers.of(np.concatenate([np.zeros(0, np.int32), *lists])[::-1].astype(np.int64))
    lengths = np.fromiter(map(len, lists[::-1]), np.int64, len(lists))
    counts = np.append(0, np.cumsum(frames > 0)) * _FRAME
    ends = counts[np.cumsum(lengths)]
    begins = counts[np.cumsum(lengths) - lengths]
    text, cut = frames[frames > 0].astype(">u4").tobytes(), path_of([1])
    columns = (each.tolist() for each in (rows["stack"][::-1], rows["is_cut"][::-1], begins, ends))
    return {stack: cut * is_cut + text[begin:end] for stack, is_cut, begin, end in zip(*columns, strict=True)}


class _Natives:
    """Paths of native functions, whose locations are appended to ``locations``."""

    def __init__(self, frames: NativeFrames, locations: list[Location]) -> None:
        self._frames, self._locations = frames, locations
        self._numbers: dict[tuple[str, str], int] = {}
        self._paths: dict[int, bytes] = {}

    def path(self, native: int) -> bytes:
        """The functions from the one that Python called to ``native``."""
        if native not in self._paths:
            self._paths[native] = path_of(map(self._number, self._frames.called(native)))
        return self._paths[native]

    def _number(self, function: tuple[str, str]) -> int:
        if function not in self._numbers:
            name, library = function
            self._locations.append((library, name, 0, NATIVE_LINE))
            self._numbers[function] = len(self._locations)
        return self._numbers[function]


def path_of(numbers: Iterable[int]) -> bytes:
    """The path of frames, from the outermost; the location with number n is ``locations[n - 1]`` (see :func:`joined`)."""
    return np.fromiter(numbers, ">u4").tobytes()


def joined(paths: Sequence[bytes], ends: Index, locations: Sequence[Location], short: int) -> Calls:
    """The call tree of ``paths``; ``ends``: the number of the path of each key. Of ``locations``, those that occur remain."""
    parents, numbers, nodes = tree(paths)
    used, firsts, places = np.unique(numbers[1:], return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    kept = [locations[number - 1] for number in used[order].tolist()]
    return Calls(kept, parents, np.append(NONE, ranks[places]), Index(ends.keys, nodes[ends.numbers]), short)


def tree(paths: Sequence[bytes]) -> tuple[Numbers, Numbers, Numbers]:
    """The nodes of a call tree in depth-first order, and the node in which each path ends: the caller of each node (NONE =
    none), the number of its location, and the nodes of ``paths``. Node 0 has no location; empty paths end in it.

    Sorted paths share the nodes of their common prefix with the one before.
    """
    # nodes that do not follow their caller, their callers, and the frames from there on
    forks, callers, added = [], [], []
    found, before, path, count = {b"": 0}, b"", [NONE], 1
    for frames in sorted(set(paths)):
        if frames:
            shared = _shared(before, frames)
            del path[shared + 1 :]
            forks.append(count)
            callers.append(path[-1])
            added.append(frames[shared * _FRAME :])
            stop = count + len(frames) // _FRAME - shared
            path.extend(range(count, stop))
            before, count, found[frames] = frames, stop, stop - 1
    parents = np.arange(-1, count - 1)
    parents[forks] = callers
    numbers = np.frombuffer(b"".join([bytes(_FRAME), *added]), ">u4").astype(np.int64)
    return parents, numbers, np.fromiter(map(found.__getitem__, paths), np.int64, len(paths))


def _shared(first: bytes, second: bytes) -> int:
    """The number of frames that two paths begin with in common."""
    least = min(len(first), len(second))
    difference = int.from_bytes(first[:least], "big") ^ int.from_bytes(second[:least], "big")
    return (least - (difference.bit_length() + 7) // 8) // _FRAME


def packed_calls(calls: Calls) -> dict[str, Any]:
    """The packed tree: parents (as distances from the node; 0 = none) and locations (from 1; 0 = none) of the nodes."""
    steps = np.where(calls.parents == NONE, 0, np.arange(len(calls.parents)) - calls.parents)
    return {"count": len(calls.parents), "parents": packed(steps), "locations": packed(calls.places + 1)}
