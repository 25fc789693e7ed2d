"""Makes the ``wait`` table from wait records. Everything here works on whole columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....formats.spool.layout import names_of
from ....formats.spool.reader import Bulk
from ....formats.trace.columns import Coded, Masked
from ..native.frames import NativeFrames
from ..survey.columns import LAST_ID, chosen_of
from ..survey.stacks import Stacks

_CLASSES = names_of("WAIT_")


def valid_waits(waits: Bulk) -> tuple[Bulk, int]:
    """The valid records, and the number of others."""
    records = waits.records
    fits = np.isin(records["wait_class"], list(_CLASSES)) & (records["t_ns"] >= 0) & (records["waited_ns"] >= 0)
    fits &= (records["t_ns"] <= records["end_ns"]) & (records["waited_ns"] <= records["end_ns"] - records["t_ns"])
    fits &= (records["process"] <= LAST_ID) & (records["thread"] <= LAST_ID)
    return chosen_of(waits, fits)


def wait_table(waits: Bulk, start_mono_ns: int, stacks: Stacks, native: NativeFrames) -> dict[str, Any]:
    """The ``wait`` table; ``waits`` are valid records. The watcher writes them into its own chunks, so the process comes
    from the record."""
    records = waits.records
    call = records["syscall"].astype(np.int32)
    numbers = list(_CLASSES)
    return {
        "t_ns": records["t_ns"] - start_mono_ns,
        "process": records["process"].astype(np.int32),
        "thread": records["thread"].astype(np.int32),
        "stack": stacks.id_of(records["stack"]),
        "duration_ns": records["waited_ns"],
        "span_ns": records["end_ns"] - records["t_ns"],
        "class": Coded((records["wait_class"].astype(np.int32) - numbers[0]), list(_CLASSES.values())),
        "syscall": Masked(call, call < 0),
        "looks": records["looks"].astype(np.int64),
        "native": native.id_of(records["native"]),
    }
