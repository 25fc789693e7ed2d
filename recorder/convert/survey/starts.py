"""The start records of the processes. A recording may have a hundred thousand, most with the same texts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ....formats.dataclass import dataclass
from ....formats.spool.layout import constants, struct_dtype
from ....formats.spool.reader import WithPayload
from ..keyed.by_key import ByKey, Ints

_C = constants()


@dataclass(frozen=True)
class Starts:
    """The first start record of each process, by process, with the first interpreter that the process has had.
    ``process``: sorted and distinct; ``records``: one for each; ``payloads``: the bytes that follow each record; ``older``: of how
    many processes memory was recorded only from an attach on."""

    process: Ints
    records: npt.NDArray[np.void]
    payloads: list[bytes]
    older: int = 0

    def lineage(self) -> Lineage:
        """What every batch needs of the starts."""
        process, records = self.process, self.records
        forked = records["cause"] == _C["CAUSE_FORK"]
        return Lineage(
            ByKey(process[forked], records["parent"][forked].astype(np.int64)),
            ByKey(process, records["t_ns"].copy()),  # a view would keep the records
            ByKey(process, (records["python_version"] != 0).astype(np.int64)),
        )


@dataclass(frozen=True)
class Lineage:
    """``forked_from``: the process that each forked process was forked from; ``started_ns``: when each process started
    (CLOCK_MONOTONIC); ``has_python``: 1 for each process with an interpreter, else 0."""

    forked_from: ByKey
    started_ns: ByKey
    has_python: ByKey


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
        processes, cause = np.array(self._process, np.int64), records["cause"]
        is_late, is_memory = cause == _C["START_OF_PYTHON"], cause == _C["START_OF_MEMORY"]
        order = np.argsort(is_late, kind="stable")  # a process may have written its chunks in any order
        order = order[~is_memory[order]]
        process, first = np.unique(processes[order], return_index=True)
        rows = order[first]
        starts = records[rows]
        _add_late(starts, process, processes[is_late], records[is_late])
        _add_footprints(starts, process, processes[is_memory], records[is_memory])
        older = len(np.unique(processes[is_memory]))
        return Starts(process, starts, [self._payloads[row] for row in rows.tolist()], older)


def _add_footprints(starts: npt.NDArray[np.void], process: Ints, counted: Ints, found: npt.NDArray[np.void]) -> None:
    """Adds to start records the footprints that were ``found`` when memory began to be recorded in the processes
    ``counted``."""
    is_known = np.isin(counted, process)
    rows = np.searchsorted(process, counted[is_known])
    for field in ("footprint_bytes", "python_footprint_bytes"):
        starts[field][rows] = found[field][is_known]


def _add_late(starts: npt.NDArray[np.void], process: Ints, late: Ints, found: npt.NDArray[np.void]) -> None:
    """Adds to start records without an interpreter the first one that was ``found`` later in the processes ``late``."""
    order = np.argsort(found["t_ns"], kind="stable")
    names, first = np.unique(late[order], return_index=True)
    rows, of = np.searchsorted(process, names), order[first]
    chosen = starts["python_version"][rows] == 0
    for field in ("python_version", "stacks"):
        starts[field][rows[chosen]] = found[field][of[chosen]]
