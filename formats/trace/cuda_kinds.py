"""The kinds of records about calls of the CUDA libraries."""

from __future__ import annotations

from .kinds import Column, Kind

CUDA_KINDS: tuple[Kind, ...] = (
    Kind(
        "device_copy",
        "copies that the thread asked a CUDA library for, from one stack in one direction: one call, or those of up to 10 ms. t_ns = start of the first",
        ("t_ns", "process", "thread", "stack"),
        (
            Column(
                "direction",
                "string",
                "",
                "h2h, h2d, d2h, d2d (host, device) as the call says, or unified (the library finds out by the addresses)",
            ),
            Column("bytes", "int64", "bytes", "copied by all of them"),
            Column("calls", "int64", "", "how many"),
            Column(
                "duration_ns",
                "int64",
                "ns",
                "inside the calls, together; an asynchronous one returns before the copy is done",
            ),
            Column("span_ns", "int64", "ns", "from the start of the first to the end of the last"),
        ),
    ),
    Kind(
        "device_sync",
        "calls of a CUDA library in which the thread waited for the device, from one stack: one, or those of up to 10 ms. t_ns = start of the first",
        ("t_ns", "process", "thread", "stack"),
        (
            Column("calls", "int64", "", "how many"),
            Column("duration_ns", "int64", "ns", "inside the calls, together"),
            Column("span_ns", "int64", "ns", "from the start of the first to the end of the last"),
        ),
    ),
    Kind(
        "device_alloc",
        "a block of device memory that a CUDA library gave, with its life; every one is recorded",
        ("t_ns", "process", "thread", "stack"),
        (
            Column("bytes", "int64", "bytes", "as requested; with its padding, where the library pads rows"),
            Column(
                "lifetime_ns",
                "int64",
                "ns",
                "from allocation to free",
                "not freed while recorded: alive at the end of its process",
            ),
            Column(
                "allocator",
                "string",
                "",
                "malloc (cudaMalloc and the like), managed (lives on the device and the host in turns), async (in the order of a stream), unknown",
            ),
        ),
    ),
)
