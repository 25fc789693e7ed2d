"""Makes the ``memory``, ``copy`` and ``heap`` tables. Everything here works on whole columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....formats.spool.reader import Bulk
from ....formats.trace.columns import Masked
from ..survey.columns import thread_ids
from ..survey.stacks import Stacks

#: The unit of the pages in ``record_heap``, whatever the machine's own.
_PAGE_BYTES = 4096

_HEAP_SIZES = ("footprint_bytes", "python_bytes", "mapped_bytes", "reserved_bytes")
#: Column of the ``heap`` table -> field of the record.
_HEAP_PAGES = {
    "untouched_bytes": "untouched_pages",
    "shared_mapped_bytes": "shared_pages",
    "arena_bytes": "arena_pages",
}
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
    pages = {column: records[field].astype(np.int64) * _PAGE_BYTES for column, field in _HEAP_PAGES.items()}
    return {
        "t_ns": records["t_ns"] - start_mono_ns,
        "process": heaps.process,
        "pool_bytes": Masked(
            records["pool_bytes"], records["pool_bytes"] < 0
        ),  # unknown where only arenas were counted
    } | ({name: records[name] for name in _HEAP_SIZES} | pages)


def _common(bulk: Bulk, start_mono_ns: int) -> dict[str, Any]:
    return {
        "t_ns": bulk.records["t_ns"] - start_mono_ns,
        "process": bulk.process,
        "thread": thread_ids(bulk.records),
    }
