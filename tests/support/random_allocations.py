"""Allocators of random traces, and what a query says of an allocation."""

from __future__ import annotations

import math

from tests.support.trace_builder import Row

PYTHON_ALLOCATORS = (("pymalloc", True), ("malloc", True), ("chunk", True), ("arena", True))
ALLOCATORS = (*PYTHON_ALLOCATORS, ("malloc", False), ("mmap", False), ("mprotect", False))


def weight(block: int, interval: int | None) -> float | None:
    """For how many blocks a sampled one stands."""
    if interval is None:
        return None
    return 1.0 if interval == 1 else -1 / math.expm1(-block / interval)


def described(alloc: Row) -> Row:
    """The row with weights, parts and its end."""
    block = alloc["block_bytes"] or alloc["usable_bytes"]
    parts = block / alloc["usable_bytes"]
    is_freed = alloc["lifetime_ns"] is not None and not alloc["at_exit"]
    return alloc | {
        "parts": parts,
        "weight": weight(block, alloc["interval_bytes"]),
        "live": weight(block, alloc["life_interval_bytes"]),
        "end_ns": alloc["t_ns"] + alloc["lifetime_ns"] if is_freed else None,
    }
