"""Makes the ``gpu`` table from a recording's file of GPU samples. Everything here works on whole columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ....formats.spool.regular import open_regular, read_regular, read_some
from ....formats.trace.columns import Coded, Masked
from ...folder.files import GPU_DEVICES_NAME, GPU_NAME

#: The fields of GPU_STRUCT.
_DTYPE = np.dtype(
    [
        *((name, "<i8") for name in ("t_ns", "duration_ns", "busy_ns", "memory_bytes")),
        *(("process", "<i4"), ("device", "<i2"), ("whole", "?"), ("charged", "?")),
    ]
)
_BATCH_ROWS = 100_000
#: Larger values come from damaged rows.
_MOST_BYTES = 1 << 57
_LONGEST_NS = 1 << 40
_MOST_DEVICES = 1024

Rows = npt.NDArray[np.void]


class GpuRows:
    """The GPU samples of the recording in ``folder``, up to ``until_ns`` (None = all).

    ``devices``: JSON list of the devices, None where there was none. Known when all tables have been made: ``damaged``, the
    number of invalid rows, ``rows``, that of the others, and ``whole``, the devices that are charged as a whole.
    """

    def __init__(self, folder: Path, until_ns: int | None) -> None:
        self.damaged = self.rows = 0
        self.whole: set[int] = set()
        self.devices = _devices(folder / GPU_DEVICES_NAME)
        self._path, self._until_ns = folder / GPU_NAME, until_ns
        self._split: set[tuple[int, bool]] = set()
        if self.devices is not None:
            for rows in self._batches():
                self._split |= _split_of(rows)

    def tables(self) -> Iterator[dict[str, Any]]:
        """The ``gpu`` table, in pieces."""
        if self.devices is None:
            return
        self.damaged = self.rows = 0
        for rows in self._batches():
            charged = rows["charged"] & ~(rows["whole"] & _is_split(rows, self._split))
            used = charged & rows["whole"] & ((rows["busy_ns"] > 0) | (rows["memory_bytes"] > 0))
            self.whole |= set(rows["device"][used].tolist())
            self.rows += len(rows)
            yield _table(rows, charged)

    def _batches(self) -> Iterator[Rows]:
        file = open_regular(self._path)
        if file is None:
            return
        with file:
            while len(rows := _read(file)):
                fits = _is_valid(rows)
                self.damaged += len(rows) - int(np.count_nonzero(fits))
                if self._until_ns is not None:
                    fits &= rows["t_ns"] + rows["duration_ns"] <= self._until_ns
                yield rows[fits]


def _read(file: BinaryIO) -> Rows:
    data = read_some(file, _BATCH_ROWS * _DTYPE.itemsize)
    return np.frombuffer(data[: len(data) // _DTYPE.itemsize * _DTYPE.itemsize], _DTYPE)


def _is_valid(rows: Rows) -> npt.NDArray[np.bool_]:
    is_busy = (rows["busy_ns"] >= 0) & (rows["busy_ns"] <= rows["duration_ns"]) & (rows["memory_bytes"] == -1)
    is_memory = (rows["busy_ns"] == -1) & (rows["memory_bytes"] >= 0) & (rows["memory_bytes"] < _MOST_BYTES)
    fits: npt.NDArray[np.bool_] = is_busy | is_memory
    fits &= (rows["t_ns"] >= 0) & (rows["t_ns"] < 1 << 62) & (rows["duration_ns"] >= 0)
    fits &= (rows["duration_ns"] < _LONGEST_NS) & (rows["process"] >= 0)
    return fits & (rows["device"] >= 0) & (rows["device"] < _MOST_DEVICES)


def _split_of(rows: Rows) -> set[tuple[int, bool]]:
    """What the driver has reported by process: (device, is it memory?)."""
    parts = rows[~rows["whole"]]
    return set(zip(parts["device"].tolist(), (parts["busy_ns"] < 0).tolist(), strict=True))


def _is_split(rows: Rows, split: set[tuple[int, bool]]) -> npt.NDArray[np.bool_]:
    """Is the same quantity also reported by process? Then the whole device does not count, not even before the first
    report: pids may belong to another namespace until one of them is known."""
    is_split = np.zeros(len(rows), np.bool_)
    for device, is_memory in split:
        is_split |= (rows["device"] == device) & ((rows["busy_ns"] < 0) == is_memory)
    return is_split


def _table(rows: Rows, charged: npt.NDArray[np.bool_]) -> dict[str, Any]:
    return {
        "t_ns": rows["t_ns"],
        "process": Masked(rows["process"], rows["process"] == 0),
        "device": rows["device"].astype(np.int32),
        "scope": Coded(rows["whole"].astype(np.int32), ["process", "device"]),
        "duration_ns": rows["duration_ns"],
        "busy_ns": Masked(rows["busy_ns"], rows["busy_ns"] < 0),
        "memory_bytes": Masked(rows["memory_bytes"], rows["memory_bytes"] < 0),
        "charged": charged,
    }


def _devices(path: Path) -> str | None:
    data = read_regular(path)
    try:
        return json.dumps(json.loads(data)) if data else None
    except (ValueError, RecursionError):
        return "[]"
