"""Makes the tables ``device_copy``, ``device_sync`` and ``device_alloc`` from records of calls of the CUDA libraries.
Everything here works on whole columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ....formats.spool.layout import constants, names_of
from ....formats.spool.reader import Bulk, Records, by_time, joined
from ....formats.trace.columns import Coded, Masked
from ..survey.columns import Ints, thread_ids, valid_sizes
from ..survey.later import Later
from ..survey.stacks import Stacks
from ..survey.survey import Survey

_C = constants()
_DIRECTIONS = names_of("DEVICE_", without=("DEVICE_SYNC",))
_SOURCES = {0: "unknown"} | names_of("GIVEN_BY_")
_EVENTS = names_of("BLOCK_")

Bools = npt.NDArray[np.bool_]
Tables = dict[str, dict[str, Any]]


class CudaCalls:
    """Makes the rows of the three tables, one batch of records at a time. A block without an end is held back until a later
    batch has its end, or until the last batch of its process.

    ``damaged``: records that were left out because they are invalid.
    """

    def __init__(self, survey: Survey, stacks: Stacks) -> None:
        self.damaged = 0
        self._start_ns = survey.start_ns
        self._stacks = stacks
        self._held: list[Bulk] = []
        self._later = Later(survey.chunks)

    def tables(self, batch: Records) -> Tables:
        """The rows that are complete now, by time."""
        self._later.than(batch)
        if not any(map(len, (batch.bulk["device_call"], batch.bulk["device_block"], *self._held))):
            return {}
        calls = self._valid(batch.bulk["device_call"], "direction", [*_DIRECTIONS, _C["DEVICE_SYNC"]])
        waits = calls.records["direction"] == _C["DEVICE_SYNC"]
        events = self._valid(batch.bulk["device_block"], "what", list(_EVENTS))
        return {
            "device_copy": self._copies(calls.where(~waits)),
            "device_sync": self._calls(calls.where(waits)),
            "device_alloc": self._blocks(by_time(joined(*self._held, events)), batch.last),
        }

    def _valid(self, bulk: Bulk, field: str, known: list[int]) -> Bulk:
        fitting, invalid = valid_sizes(bulk, "bytes")
        chosen = np.isin(fitting.records[field], known)
        self.damaged += invalid + int(np.count_nonzero(~chosen))
        return fitting.where(chosen)

    def _copies(self, copies: Bulk) -> dict[str, Any]:
        records = copies.records
        own = {"direction": _named(records["direction"], _DIRECTIONS), "bytes": records["bytes"].astype(np.int64)}
        return self._calls(copies) | own

    def _calls(self, calls: Bulk) -> dict[str, Any]:
        records = calls.records
        return self._common(calls) | {
            "calls": records["calls"].astype(np.int64),
            "duration_ns": np.maximum(records["duration_ns"], 0),
            "span_ns": np.maximum(records["end_ns"] - records["t_ns"], 0),
        }

    def _blocks(self, events: Bulk, last: bool) -> dict[str, Any]:
        end = _ends(events)
        allocated = events.records["what"] == _C["BLOCK_ALLOCATED"]
        ended = last | ~self._later.has(events.process)
        known = allocated & ((end >= 0) | ended)
        self._held = [events.where(allocated & ~known)]
        blocks, source = events.where(known), events.records["source"][known]
        return self._common(blocks) | {
            "bytes": blocks.records["bytes"].astype(np.int64),
            "lifetime_ns": _lifetimes(events.records["t_ns"], np.flatnonzero(known), end[known]),
            "allocator": _named(np.where(np.isin(source, list(_SOURCES)), source, 0), _SOURCES),
        }

    def _common(self, bulk: Bulk) -> dict[str, Any]:
        return {
            "t_ns": bulk.records["t_ns"] - self._start_ns,
            "process": bulk.process,
            "thread": thread_ids(bulk.records),
            "stack": self._stacks.id_of(bulk.records["stack"]),
        }


def _named(numbers: npt.NDArray[Any], names: dict[int, str]) -> Coded:
    """A column of names from ``numbers``; ``names`` are in the order of their numbers."""
    return Coded(np.searchsorted(list(names), numbers).astype(np.int32), list(names.values()))


def _ends(events: Bulk) -> Ints:
    """Row of the event that ended each allocation, -1 = none: its free or, if that was not recorded, the next allocation at
    the same address. ``events`` are in time order."""
    order = _granted(events, np.lexsort((events.records["address"], events.process)))
    end = np.full(len(events), -1, np.int64)
    following = np.flatnonzero(_same_block(events, order))
    end[order[following - 1]] = order[following]
    return end


def _granted(events: Bulk, order: Ints) -> Ints:
    """``order`` without refused frees and without the events that report the refusal. These follow directly, because they
    are recorded in the same call."""
    what = events.records["what"][order]
    refused = np.flatnonzero((what == _C["BLOCK_NOT_FREED"]) & _same_block(events, order))
    kept = what != _C["BLOCK_NOT_FREED"]
    kept[refused[what[refused - 1] == _C["BLOCK_FREED"]] - 1] = False
    granted: Ints = order[kept]
    return granted


def _same_block(events: Bulk, order: Ints) -> Bools:
    """For each row in ``order``: does it have the same address and process as the row before?"""
    same = np.zeros(len(order), np.bool_)
    addresses, processes = events.records["address"][order], events.process[order]
    same[1:] = (addresses[1:] == addresses[:-1]) & (processes[1:] == processes[:-1])
    return same


def _lifetimes(t_ns: Ints, blocks: Ints, end: Ints) -> Masked:
    lifetimes = np.zeros(len(blocks), np.int64)
    ended = end >= 0
    lifetimes[ended] = np.maximum(t_ns[end[ended]] - t_ns[blocks[ended]], 0)
    return Masked(lifetimes, ~ended)
