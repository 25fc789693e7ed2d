"""Makes the ``alloc`` table from allocation, free and note records: one row for each sample, with its life.

Exact mode makes millions of records, so everything here works on whole columns, except for mappings that were unmapped in
parts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ....formats.dataclass import dataclass
from ....formats.spool.layout import constants, names_of, rows_of
from ....formats.spool.reader import Bulk, Records, by_time, joined
from ....formats.trace.columns import Coded, Masked
from ....formats.trace.text import storable
from ..keyed.by_key import index_of
from ..native.frames import NativeFrames
from ..survey.columns import Ints, chosen_of, rows_by_key, thread_ids, valid_sizes
from ..survey.later import Later
from ..survey.stacks import Stacks
from ..survey.survey import Survey

_C = constants()
_FLAGS = ("ALLOC_PYTHON", "ALLOC_MAXIMUM", "ALLOC_UNFOLLOWED", "ALLOC_BASE_SHIFT")
_ALLOCATORS = names_of("ALLOC_", without=_FLAGS)
_UNKNOWN_ALLOCATOR = 0
#: What a note may tell of an allocation, by its flag.
_NOTED = {"NOTE_TYPE": "type", "NOTE_NATIVE": "native"}
_TYPE_CHARACTERS = 200
#: A free or note record may be read a few chunks before its allocation. Older ones without an allocation are dropped.
_MOST_UNMATCHED = 65_536
#: Ids count up, so that most of them are close to the last one. These are looked up in a table, which has at most so many
#: places for each id; what has lived for long is older.
_CLOSE_IDS = 2
#: Batches with fewer records than so many times less than what is held back wait.
_SMALL_TIMES = 2
#: The coarsest interval is 2 to this power.
_COARSEST_EXPONENT = 40

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Lives:
    """The life of each allocation. ``followed``: whether its end is observed; ``interval``: sampling interval that holds
    for its life; ``type``, ``native``: hash of a type and of a native stack, 0 = unknown; ``end``: row of the free record,
    -1 = none; ``parts``: rows of the free records of its parts by its own row, in time order."""

    followed: Bools
    interval: Ints
    type: npt.NDArray[np.uint64]
    native: npt.NDArray[np.uint64]
    end: Ints
    parts: Mapping[int, list[int]]


@dataclass(frozen=True)
class _Rows:
    """The rows of the table. ``alloc``: row of the allocation; ``end``: as in _Lives; ``size``, ``usable``: bytes of this
    row; ``block``: bytes of the whole block, 0 = this row is the whole block. Invariant: the rows of one allocation add up
    to its size and usable bytes."""

    alloc: Ints
    end: Ints
    size: Ints
    usable: Ints
    block: Ints

    def where(self, chosen: Bools) -> _Rows:
        """The rows for which ``chosen`` is true."""
        return _Rows(*(each[chosen] for each in (self.alloc, self.end, self.size, self.usable, self.block)))


class Allocations:
    """Makes the rows of the ``alloc`` table, one batch of records at a time. A sample without an end is held back until a
    later batch has its end, or until the last batch of its process. Batches that are small beside what is held back wait for
    each other, so that the time for all of them is linear in their records.

    ``damaged``: records that were left out because of impossible sizes.
    """

    def __init__(self, survey: Survey, stacks: Stacks, native: NativeFrames) -> None:
        self.damaged = 0
        self._survey = survey
        self._stacks = stacks
        self._native = native
        self._held: dict[str, Bulk] = {}
        self._waiting: list[dict[str, Bulk]] = []
        self._later = Later(survey.chunks)
        self._has_python = survey.lineage.has_python

    def rows(self, batch: Records) -> dict[str, Any]:
        """The rows that are complete now, by time."""
        self._later.than(batch)
        allocs, invalid = _valid_allocations(batch.bulk["alloc"])
        notes, invalid_notes = valid_sizes(batch.bulk["note"], "interval_bytes")
        self.damaged += invalid + invalid_notes
        bulks = {"alloc": allocs, "note": notes, "free": batch.bulk["free"]}
        self._waiting.append(bulks)
        if not batch.last and _SMALL_TIMES * _records(*self._waiting) < _records(self._held):
            none = {kind: bulk.where(np.zeros(len(bulk), np.bool_)) for kind, bulk in bulks.items()}
            return self._table(none["alloc"], none["free"], _lives(none, _named(none)), None)
        parts = [self._held, *self._waiting] if self._held else self._waiting
        self._held, self._waiting = {}, []
        bulks = {kind: joined(*(each[kind] for each in parts)) for kind in bulks} if parts[1:] else bulks
        del parts
        bulks["alloc"] = by_time(bulks["alloc"])
        named = _named(bulks)
        lives = _lives(bulks, named)
        complete = None if batch.last else self._hold_back(bulks, lives, named)
        return self._table(bulks["alloc"], bulks["free"], lives, complete)

    def _hold_back(self, bulks: dict[str, Bulk], lives: _Lives, named: dict[str, Ints]) -> Bools:
        """Holds back the samples without an end and their note and free records; returns whether each is another one."""
        allocs = bulks["alloc"]
        open_rows = lives.followed & (lives.end < 0) & self._continues(allocs)
        self._held = {"alloc": allocs.where(open_rows)}
        for kind, rows in named.items():
            waits = (rows < 0) & self._continues(bulks[kind])
            waits[np.flatnonzero(waits)[:-_MOST_UNMATCHED]] = False
            waits[rows >= 0] = open_rows[rows[rows >= 0]]
            self._held[kind] = bulks[kind].where(waits)
        return ~open_rows

    def _continues(self, bulk: Bulk) -> Bools:
        """Has the process of each record more of them in a later batch?"""
        return self._later.has(bulk.process)

    def _table(self, allocs: Bulk, frees: Bulk, lives: _Lives, complete: Bools | None) -> dict[str, Any]:
        """``complete``: for each allocation whether it has rows now, None = all have."""
        stacks, survey = self._stacks, self._survey
        rows = _rows(allocs, frees, lives)
        if complete is not None:
            rows = rows.where(complete[rows.alloc])
        records = allocs.records
        if len(rows.alloc) != len(allocs) or lives.parts:
            records = rows_of(records, rows.alloc)
        process = allocs.process[rows.alloc]
        flags = records["flags"]
        interval = records["interval_bytes"].astype(np.int64)
        followed = lives.followed[rows.alloc]
        survived = _survived(survey, records["collections"], process, frees, rows.end)
        return {
            "t_ns": records["t_ns"] - survey.start_ns,
            "process": process,
            "thread": thread_ids(records),
            "stack": stacks.id_of(records["stack"]),
            "size_bytes": rows.size,
            "usable_bytes": rows.usable,
            "block_bytes": _masked_where(rows.block == 0, rows.block),
            "interval_bytes": _masked_where(interval == 0, interval),
            "life_interval_bytes": _masked_where(~followed | (interval == 0), lives.interval[rows.alloc]),
            "base_interval_bytes": _base_intervals(flags),
            "lifetime_ns": _lifetimes(records["t_ns"], frees, rows.end),
            "free_stack": stacks.id_of(_at_end(frees.records["stack"], rows.end)),
            "survived": _masked_where(~followed | (self._has_python.of(process) == 0), survived),
            "at_exit": (_at_end(frees.records["flags"], rows.end) & _C["FREE_FINALIZING"]) != 0,
            "allocator": _allocators(records["source"]),
            "python": (flags & _C["ALLOC_PYTHON"]) != 0,
            "type": _types(survey.types, _at_end(frees.records["type"], rows.end), lives.type[rows.alloc]),
            "maximum": (flags & _C["ALLOC_MAXIMUM"]) != 0,
            "native": self._native.id_of(lives.native[rows.alloc]),
        }


def _records(*batches: Mapping[str, Bulk]) -> int:
    return sum(len(bulk) for bulks in batches for bulk in bulks.values())


def _valid_allocations(allocs: Bulk) -> tuple[Bulk, int]:
    """The valid allocations, and the number of others. A block of zero bytes is never sampled, because its weight would be
    infinite."""
    fitting, too_large = valid_sizes(allocs, "size_bytes", "usable_bytes", "interval_bytes")
    never = (fitting.records["usable_bytes"] == 0) & (fitting.records["interval_bytes"] > 1)
    found, empty = chosen_of(fitting, ~never)
    return found, too_large + empty


def _named(bulks: Mapping[str, Bulk]) -> dict[str, Ints]:
    """The rows of the allocations that the note and free records name."""
    return {kind: _named_rows(bulks["alloc"], bulks[kind]) for kind in ("note", "free")}


def _lives(bulks: Mapping[str, Bulk], named_rows: Mapping[str, Ints]) -> _Lives:
    allocs, notes, named = bulks["alloc"], bulks["note"], named_rows["note"]
    records, flags = notes.records, notes.records["flags"]
    followed = (allocs.records["flags"] & _C["ALLOC_UNFOLLOWED"]) == 0
    followed[named[(named >= 0) & (flags & _C["NOTE_DROPPED"] != 0)]] = False
    thinned = (named >= 0) & (flags & _C["NOTE_THINNED"] != 0)
    interval = allocs.records["interval_bytes"].astype(np.int64)
    np.maximum.at(interval, named[thinned], records["interval_bytes"][thinned].astype(np.int64))
    types, natives = (_noted(allocs, notes, named, flag, name) for flag, name in _NOTED.items())
    return _Lives(followed, interval, types, natives, *_ends(bulks["free"], named_rows["free"], followed))


def _noted(allocs: Bulk, notes: Bulk, named: Ints, flag: str, name: str) -> npt.NDArray[np.uint64]:
    """For each allocation the field ``name`` of its last note with ``flag``, 0 = none."""
    found = np.zeros(len(allocs), np.uint64)
    rows = (named >= 0) & (notes.records["flags"] & _C[flag] != 0)
    found[named[rows]] = notes.records[name][rows]
    return found


def _ends(frees: Bulk, named: Ints, followed: Bools) -> tuple[Ints, Mapping[int, list[int]]]:
    """Row of the first free record of each followed allocation (-1 = none), and rows of free records of its parts before
    that. ``named``: row of the allocation of each free record."""
    if not followed.all():
        named = np.where((named >= 0) & followed[named], named, -1)
    is_part = frees.records["flags"] & _C["FREE_PART"] != 0
    end = np.full(len(followed), -1, np.int64)
    whole = np.flatnonzero((named >= 0) & ~is_part)[::-1]
    end[named[whole]] = whole  # in reverse order, so that the earliest record is assigned last and stays
    parts: dict[int, list[int]] = defaultdict(list)
    for free in np.flatnonzero((named >= 0) & is_part).tolist():
        alloc = int(named[free])
        if end[alloc] < 0 or free < end[alloc]:
            parts[alloc].append(free)
    return end, parts


def _named_rows(allocs: Bulk, others: Bulk) -> Ints:
    """Row of ``allocs`` that each record of ``others`` names by its process and id, -1 = none. If an id occurs more than
    once (a damaged spool), the first row is taken."""
    named = np.full(len(others), -1, np.int64)
    candidates = dict(rows_by_key(allocs.process))
    for process, rows in rows_by_key(others.process):
        if (found := candidates.get(process)) is None:
            continue
        at = _first_places(allocs.records["id"][found], others.records["id"][rows])
        named[rows] = np.where(at >= 0, found[at], -1)
    return named


def _first_places(ids: npt.NDArray[np.uint64], wanted: npt.NDArray[np.uint64]) -> Ints:
    """For each of ``wanted`` its first place in ``ids``, of which there is at least one; -1 = none."""
    last = ids.max()
    first = last - min(last - ids.min(), np.uint64(_CLOSE_IDS * len(ids)))
    places = np.full(int(last - first) + 2, -1, np.int32)  # one more for what is not between them
    is_old = ids < first
    old = np.flatnonzero(is_old)
    recent = np.flatnonzero(~is_old)[::-1] if len(old) else np.arange(len(ids))[::-1]
    places[ids[recent] - first] = recent  # in reverse order, so that the first one stays
    # what is below the first one wraps
    found: Ints = places[np.minimum(wanted - first, np.uint64(len(places) - 1))].astype(np.int64)
    if len(old):
        rest = np.flatnonzero(wanted < first)
        found[rest] = _first_of_any(ids[old], old, wanted[rest])
    return found


def _first_of_any(ids: npt.NDArray[np.uint64], rows: Ints, wanted: npt.NDArray[np.uint64]) -> Ints:
    """For each of ``wanted`` the first of ``rows`` whose id it is, -1 = none."""
    order = np.argsort(ids, kind="stable")
    at = np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)
    return np.where(ids[order[at]] == wanted, rows[order[at]], -1)


def _rows(allocs: Bulk, frees: Bulk, lives: _Lives) -> _Rows:
    size, usable = (allocs.records[name].astype(np.int64) for name in ("size_bytes", "usable_bytes"))
    alloc = np.arange(len(allocs))
    rows = _Rows(alloc, lives.end, size, usable, np.zeros(len(allocs), np.int64))
    if not lives.parts:
        return rows
    whole = np.ones(len(allocs), np.bool_)
    whole[list(lives.parts)] = False
    parts = [row for each in lives.parts for row in _part_rows(each, size[each], usable[each], frees, lives)]
    columns = zip((alloc, lives.end, size, usable, rows.block), np.array(parts, np.int64).T, strict=True)
    joined = [np.concatenate([column[whole], added]) for column, added in columns]
    order = np.argsort(joined[0], kind="stable")
    return _Rows(*(column[order] for column in joined))


def _part_rows(
    alloc: int, size: np.int64, usable: np.int64, frees: Bulk, lives: _Lives
) -> list[tuple[int, int, int, int, int]]:
    """The parts of one block in the order in which they were freed, then the rest, each as in _Rows. Earlier parts take as
    much of the requested bytes as they can hold, and the last part takes the rest."""
    whole = rest = int(usable)
    pieces: list[tuple[int, int]] = []
    for free in lives.parts[alloc]:
        taken = min(int(frees.records["bytes"][free]), rest)
        rest -= taken
        if taken:
            pieces.append((free, taken))
    if rest or not pieces:
        pieces.append((int(lives.end[alloc]), rest))
    reached = [min(bytes_so_far, int(size)) for bytes_so_far in accumulate((each for _, each in pieces), initial=0)]
    reached[-1] = int(size)
    block = whole if len(pieces) > 1 else 0
    requested = (after - before for before, after in pairwise(reached))
    return [(alloc, end, own, taken, block) for (end, taken), own in zip(pieces, requested, strict=True)]


def _at_end(values: npt.NDArray[Any], end: Ints) -> npt.NDArray[Any]:
    """``values`` of the free records, 0 where there is none."""
    taken = np.zeros(len(end), values.dtype)
    freed = end >= 0
    taken[freed] = values[end[freed]]
    return taken


def _masked_where(mask: Bools, values: npt.NDArray[Any]) -> Masked:
    return Masked(values, mask)


def _base_intervals(flags: npt.NDArray[np.uint16]) -> Masked:
    """The base intervals that flags hold (ALLOC_BASE_SHIFT); masked where there is none, or an impossible one."""
    codes = flags.astype(np.int64) >> _C["ALLOC_BASE_SHIFT"]
    exponents = (codes >> 7) - 1
    mantissas = 128 + (codes & 127)
    return _masked_where(
        (exponents < 0) | (exponents > _COARSEST_EXPONENT),
        np.left_shift(mantissas, np.clip(exponents, 0, _COARSEST_EXPONENT)) >> 7,
    )


def _lifetimes(allocated_ns: Ints, frees: Bulk, end: Ints) -> Masked:
    lifetimes = np.maximum(_at_end(frees.records["t_ns"], end) - allocated_ns, 0)
    return _masked_where(end < 0, lifetimes)


def _survived(
    survey: Survey, before: npt.NDArray[np.uint32], process: npt.NDArray[np.int32], frees: Bulk, end: Ints
) -> Ints:
    """Number of collections between each allocation and its free or, without one, the last record of its process."""
    after = survey.collections.of(process).astype(np.uint32)
    freed = end >= 0
    after[freed] = frees.records["collections"][end[freed]]
    return np.maximum((after - before).view(np.int32).astype(np.int64), 0)  # correct even if the counter has wrapped


def _allocators(sources: npt.NDArray[np.uint16]) -> Coded:
    names = {_UNKNOWN_ALLOCATOR: "unknown"} | _ALLOCATORS
    known = np.isin(sources, list(_ALLOCATORS))
    codes = np.searchsorted(list(names), np.where(known, sources, _UNKNOWN_ALLOCATOR))
    return Coded(codes.astype(np.int32), list(names.values()))


def _types(names: Mapping[int, str], freed: npt.NDArray[np.uint64], noted: npt.NDArray[np.uint64]) -> Coded:
    """Names of types, from the free records or, where those have none, from the notes."""
    known = {key: storable(name[:_TYPE_CHARACTERS]) for key, name in sorted(names.items()) if key and name}
    hashes = np.array(list(known), np.uint64)
    codes = _codes_of(hashes, freed)
    return Coded(np.where(codes >= 0, codes, _codes_of(hashes, noted)), list(known.values()))


def _codes_of(hashes: npt.NDArray[np.uint64], wanted: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
    return index_of(hashes, wanted).astype(np.int32)
