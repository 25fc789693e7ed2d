"""From the records of suspended asyncio tasks to the ``task`` table. Everything here is per column but the names."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....formats.spool.reader import Bulk
from ...folder.text import storable
from ..stacks import Stacks

_LAST_ID = 2**31 - 1


def possible_tasks(tasks: Bulk) -> tuple[Bulk, int]:
    """The records that can be true, and how many others there were."""
    records = tasks.records
    fits = (records["t_ns"] >= 0) & (records["t_ns"] <= records["end_ns"]) & (records["suspended_ns"] >= 0)
    fits &= (records["process"] <= _LAST_ID) & (records["thread"] <= _LAST_ID) & (records["task"] <= _LAST_ID)
    fits &= records["number"] >= -1
    left_out = len(tasks) - int(np.count_nonzero(fits))
    return (Bulk(records[fits], tasks.process[fits]) if left_out else tasks), left_out


def task_table(tasks: Bulk, start_mono_ns: int, stacks: Stacks, names: dict[int, str]) -> dict[str, Any]:
    """The ``task`` table; ``tasks`` hold only possible ones, ``names`` what is before the number of a name, by hash.
    The chunk is the watcher's: the process is in the record."""
    records = tasks.records
    return {
        "t_ns": records["t_ns"] - start_mono_ns,
        "process": records["process"].astype(np.int32),
        "thread": records["thread"].astype(np.int32),
        "stack": stacks.id_of(records["stack"]),
        "duration_ns": records["suspended_ns"],
        "span_ns": records["end_ns"] - records["t_ns"],
        "task": records["task"].astype(np.int32),
        "name": [
            _name(names.get(prefix), number)
            for prefix, number in zip(records["name"].tolist(), records["number"].tolist(), strict=True)
        ],
    }


def _name(prefix: str | None, number: int) -> str | None:
    if prefix is None:
        return None
    return storable(prefix if number < 0 else f"{prefix}{number}")
