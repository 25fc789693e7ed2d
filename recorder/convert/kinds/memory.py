"""Makes the ``memory``, ``copy``, ``gc`` and ``heap`` tables. Everything here works on whole columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....formats.spool.reader import Bulk
from ..survey.columns import Ints, rows_by_process, thread_ids
from ..survey.stacks import Stacks
from ..survey.survey import Survey

#: The unit of ``record_heap.untouched_pages``, whatever the machine's own.
_PAGE_BYTES = 4096

_COUNTERS = ("generation0", "generation1", "generation2", "collected", "uncollectable")
_HEAP_SIZES = ("footprint_bytes", "python_bytes", "mapped_bytes", "reserved_bytes", "arena_bytes", "pool_bytes")
_SAMPLE_SIZES = ("net_bytes", "footprint_bytes", "python_footprint_bytes", "allocated_bytes", "python_allocated_bytes")


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
    """The ``copy`` table; ``copies`` have only valid sizes."""
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
    """The ``gc`` table: the increase of each counter since the previous record of the same process."""
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
    """The counters of each forked process at its fork: the highest values that its parent had recorded before."""
    records = survey.kept["gc"]
    starts, parents = survey.starts, survey.starts.forked_from()
    started_ns = starts.records["t_ns"].tolist()
    rows_of = dict(rows_by_process(records.process))
    inherited: dict[int, Ints] = {}
    for process, parent, start_ns in zip(
        starts.process.tolist(), parents.of(starts.process).tolist(), started_ns, strict=True
    ):
        rows = rows_of.get(parent, np.empty(0, np.int64))
        before = rows[records.records["t_ns"][rows] <= start_ns]
        if parent in inherited:
            inherited[process] = inherited[parent]
        if len(before):
            inherited[process] = counters[before].max(axis=0)
    return inherited


def _common(bulk: Bulk, start_mono_ns: int) -> dict[str, Any]:
    return {
        "t_ns": bulk.records["t_ns"] - start_mono_ns,
        "process": bulk.process,
        "thread": thread_ids(bulk.records),
    }
