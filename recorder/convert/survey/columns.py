"""Columns that records of several kinds share. Everything here works on whole columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ....formats.spool.reader import Bulk
from ....formats.trace.columns import Masked
from ..keyed.by_key import Ints as Ints

#: The user address space of x86-64 with five-level page tables is 2**56 bytes: a larger size comes from a damaged record.
_ADDRESS_SPACE_BYTES = 1 << 57
#: Ids of processes, threads and tasks are int32 in the trace.
LAST_ID = 2**31 - 1


def rows_by_key(keys: npt.NDArray[np.integer[Any]]) -> Iterator[tuple[int, Ints]]:
    """Each key with the rows that it has in ``keys``, in their order."""
    if len(keys) and (keys == keys[0]).all():
        yield int(keys[0]), np.arange(len(keys))
        return
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    yield from zip(ordered[starts].tolist(), np.split(order, starts[1:]), strict=False)


def thread_ids(records: npt.NDArray[np.void]) -> Masked:
    """The thread of each record, masked where the record belongs to no thread."""
    threads = records["thread"].astype(np.int32)
    return Masked(threads, threads == 0)


def valid_sizes(bulk: Bulk, *sizes: str) -> tuple[Bulk, int]:
    """The records whose ``sizes`` (names of fields, bytes) fit an address space, and the number of other records."""
    fits = np.ones(len(bulk), np.bool_)
    for name in sizes:
        fits &= bulk.records[name] < _ADDRESS_SPACE_BYTES
    return chosen_of(bulk, fits)


def chosen_of(bulk: Bulk, fits: npt.NDArray[np.bool_]) -> tuple[Bulk, int]:
    """The records for which ``fits`` is true, and the number of other records."""
    left_out = len(bulk) - int(np.count_nonzero(fits))
    return (bulk.where(fits) if left_out else bulk), left_out
