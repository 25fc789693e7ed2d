"""The start records of the processes. A recording may have a hundred thousand, most with the same texts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ....formats.spool.layout import constants, struct_dtype
from ....formats.spool.reader import WithPayload
from ..keyed.by_key import ByKey, Ints

_C = constants()


@dataclass(frozen=True)
class Starts:
    """The first start record of each process, by process. ``process``: sorted and distinct; ``records``: one for each;
    ``payloads``: the bytes that follow each record."""

    process: Ints
    records: npt.NDArray[np.void]
    payloads: list[bytes]

    @cached_property
    def forked_from(self) -> ByKey:
        """The process that each forked process was forked from."""
        forked = self.records["cause"] == _C["CAUSE_FORK"]
        return ByKey(self.process[forked], self.records["parent"][forked].astype(np.int64))

    @cached_property
    def started_ns(self) -> ByKey:
        """When each process started (CLOCK_MONOTONIC)."""
        return ByKey(self.process, self.records["t_ns"])

    def has_python(self) -> ByKey:
        """1 for each process with an interpreter, else 0."""
        return ByKey(self.process, (self.records["python_version"] != 0).astype(np.int64))


class StartCollector:
    """Collects start records, with equal payloads only once."""

    def __init__(self) -> None:
        self._process: list[int] = []
        self._records: list[bytes] = []
        self._payloads: list[bytes] = []
        self._distinct: dict[bytes, bytes] = {}

    def add(self, found: list[WithPayload]) -> None:
        """Adds the records of a batch."""
        if not found:
            return
        self._process += [each.process for each in found]
        self._records.append(b"".join(each.record.tobytes() for each in found))
        self._payloads += [self._distinct.setdefault(each.payload, each.payload) for each in found]

    def all(self) -> Starts:
        """The starts of all batches."""
        records = np.frombuffer(b"".join(self._records), struct_dtype("record_process_start"))
        process, rows = np.unique(np.array(self._process, np.int64), return_index=True)
        return Starts(process, records[rows], [self._payloads[row] for row in rows.tolist()])
