"""Makes the ``task`` table from records of suspended asyncio tasks. All but the names works on whole columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....formats.spool.reader import Bulk
from ....formats.trace.text import storable
from ..survey.columns import LAST_ID, chosen_of
from ..survey.stacks import Stacks


def valid_tasks(tasks: Bulk) -> tuple[Bulk, int]:
    """The valid records, and the number of others."""
    records = tasks.records
    fits = (records["t_ns"] >= 0) & (records["t_ns"] <= records["end_ns"]) & (records["suspended_ns"] >= 0)
    fits &= (records["process"] <= LAST_ID) & (records["thread"] <= LAST_ID) & (records["task"] <= LAST_ID)
    fits &= records["number"] >= -1
    return chosen_of(tasks, fits)


def task_table(tasks: Bulk, start_mono_ns: int, stacks: Stacks, names: dict[int, str]) -> dict[str, Any]:
    """The ``task`` table. ``tasks``: valid records; ``names``: the part of a task's name before its number, by hash.

    The watcher writes these records into its own chunks, so the process comes from the record.
    """
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
