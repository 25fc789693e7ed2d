"""From memory, copy, collection and heap records to the tables of the same names. Everything here is per column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ....formats.spool.reader import Bulk
from ..stacks import Stacks

if TYPE_CHECKING:
    from ..survey import Survey

#: No process has more address space, so a larger size comes from a damaged record.
_ADDRESS_SPACE_BYTES = 1 << 57

#: The unit of ``record_heap.untouched_pages``, whatever the machine's own.
_PAGE_BYTES = 4096

_COUNTERS = ("generation0", "generation1", "generation2", "collected", "uncollectable")
_HEAP_SIZES = ("footprint_bytes", "python_bytes", "mapped_bytes", "reserved_bytes", "arena_bytes", "pool_bytes")
_SAMPLE_SIZES = ("net_bytes", "footprint_bytes", "python_footprint_bytes", "allocated_bytes", "python_allocated_bytes")

Ints = npt.NDArray[np.int64]
Masked = np.ma.MaskedArray[Any, Any]


def memory_table(samples: Bulk, start_mono_ns: int, stacks: Stacks) -> dict[str, Any]:
    """The ``memory`` table."""
    records = samples.records
    return {
        "t_ns": records["t_ns"] - start_mono_ns,
        "process": samples.process,
        "thread": records["thread"].astype(np.int32),
        "stack": stacks.id_of(records["stack"]),
    } | {name: records[name].astype(np.int64) for name in _SAMPLE_SIZES}


def copy_table(copies: Bulk, start_mono_ns: int, stacks: Stacks) -> dict[str, Any]:
    """The ``copy`` table; ``copies`` hold only possible sizes."""
    return _common(copies, start_mono_ns) | {
        "stack": stacks.id_of(copies.records["stack"]),
        "bytes": copies.records["bytes"].astype(np.int64),
    }


def heap_table(heaps: Bulk, start_mono_ns: int) -> dict[str, Any]:
    """The ``heap`` table."""
    records = heaps.records
    return {
        "t_ns": records["t_ns"] - start_mono_ns,
        "process": heaps.process,
        "untouched_bytes": records["untouched_pages"].astype(np.int64) * _PAGE_BYTES,
    } | {name: records[name] for name in _HEAP_SIZES}


def gc_table(survey: Survey) -> dict[str, Any]:
    """The ``gc`` table: what was added to the counters since the record before, of the same process."""
    records = survey.kept["gc"]
    counters = np.column_stack(
        [records.records["collections"], records.records["collected"], records.records["uncollectable"]]
    )
    counters = np.minimum(counters, np.iinfo(np.int64).max).astype(np.int64)
    added = np.zeros_like(counters)
    inherited = _inherited_counters(survey, counters)
    for process, rows in rows_by_process(records.process):
        so_far = np.maximum.accumulate(np.vstack([inherited.get(process, counters[:0].sum(0)), counters[rows]]))
        added[rows] = np.diff(so_far, axis=0)
    return _common(records, survey.start_ns) | {name: added[:, column] for column, name in enumerate(_COUNTERS)}


def _inherited_counters(survey: Survey, counters: Ints) -> dict[int, Ints]:
    """What the interpreter of a forked process had counted at the fork, as far as its parent had said so."""
    records = survey.kept["gc"]
    parents = survey.forked_from()
    rows_of = dict(rows_by_process(records.process))
    inherited: dict[int, Ints] = {}
    for start in sorted(survey.process_starts, key=lambda each: each.process):
        parent = parents.get(start.process, 0)
        rows = rows_of.get(parent, np.empty(0, np.int64))
        before = rows[records.records["t_ns"][rows] <= start.record["t_ns"]]
        if parent in inherited:
            inherited[start.process] = inherited[parent]
        if len(before):
            inherited[start.process] = counters[before].max(axis=0)
    return inherited


def rows_by_process(process: npt.NDArray[np.int32]) -> Iterator[tuple[int, Ints]]:
    """Each process id with the rows that it has in ``process``, in their order."""
    order = np.argsort(process, kind="stable")
    ordered = process[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    yield from zip(ordered[starts].tolist(), np.split(order, starts[1:]), strict=False)


def thread_ids(records: npt.NDArray[np.void]) -> Masked:
    """The thread of each record, masked where it is nobody's."""
    threads = records["thread"].astype(np.int32)
    return np.ma.masked_array(threads, mask=threads == 0)


def possible(bulk: Bulk, *sizes: str) -> tuple[Bulk, int]:
    """The records whose ``sizes`` (names of fields, bytes) a process can have, and how many others there were."""
    fits = np.ones(len(bulk), np.bool_)
    for name in sizes:
        fits &= bulk.records[name] < _ADDRESS_SPACE_BYTES
    left_out = len(bulk) - int(np.count_nonzero(fits))
    return (Bulk(bulk.records[fits], bulk.process[fits]) if left_out else bulk), left_out


def _common(bulk: Bulk, start_mono_ns: int) -> dict[str, Any]:
    return {
        "t_ns": bulk.records["t_ns"] - start_mono_ns,
        "process": bulk.process,
        "thread": thread_ids(bulk.records),
    }
