"""Makes the ``gc`` table from the counts of garbage collections, one batch of records at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....formats.spool.reader import Records
from ..survey.columns import Ints, rows_by_key, thread_ids
from ..survey.gc_history import counters_of
from ..survey.later import Later
from ..survey.survey import Survey

_COUNTERS = ("generation0", "generation1", "generation2", "collected", "uncollectable")


class Collections:
    """The increase of each counter since the previous record of the same process. A forked process has inherited the
    counters of its parent."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        self._so_far: dict[int, Ints] = {}
        self._later = Later(survey.chunks)

    def rows(self, batch: Records) -> dict[str, Any]:
        """The rows of a batch, by time."""
        self._later.than(batch)
        bulk = batch.bulk["gc"]
        counters = counters_of(bulk.records)
        added = np.zeros_like(counters)
        for process, rows in rows_by_key(bulk.process):
            so_far = np.maximum.accumulate(np.vstack([self._before(process), counters[rows]]))
            added[rows] = np.diff(so_far, axis=0)
            self._so_far[process] = so_far[-1]
        processes = np.array(list(self._so_far), np.int64)
        for process in processes[~self._later.has(processes)].tolist():
            del self._so_far[process]
        counts = bulk.records["t_ns"] >= self._survey.start_ns  # others say what had been before (recorder/rotate/)
        bulk, added = bulk.where(counts), added[counts]
        return {
            "t_ns": bulk.records["t_ns"] - self._survey.start_ns,
            "process": bulk.process,
            "thread": thread_ids(bulk.records),
        } | {name: added[:, column] for column, name in enumerate(_COUNTERS)}

    def _before(self, process: int) -> Ints:
        if process in self._so_far:
            return self._so_far[process]
        return self._survey.gc_history.inherited(process, self._survey.lineage)
