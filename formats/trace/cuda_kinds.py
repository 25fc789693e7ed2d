"""The kinds of rows about calls of the CUDA libraries."""

from __future__ import annotations

from .kinds import Column, Kind

CUDA_KINDS: tuple[Kind, ...] = (
    Kind(
        "device_copy",
        "copies that the thread requested from a CUDA library, from one stack in one direction: one call, or the calls of up to 10 ms. t_ns = start of the first call",
        ("t_ns", "process", "thread", "stack"),
        (
            Column(
                "direction",
                "string",
                "",
                "h2h, h2d, d2h, d2d (host, device) as given to the call, or unified (the library infers it from the addresses)",
            ),
            Column("bytes", "int64", "bytes", "copied by all calls together"),
            Column("calls", "int64", "", "number of calls"),
            Column(
                "duration_ns",
                "int64",
                "ns",
                "time inside the calls, summed; an asynchronous call returns before its copy is done",
            ),
            Column("span_ns", "int64", "ns", "from the start of the first call to the end of the last"),
        ),
    ),
    Kind(
        "device_sync",
        "calls of a CUDA library in which the thread waited for the device, from one stack: one call, or the calls of up to 10 ms. t_ns = start of the first call",
        ("t_ns", "process", "thread", "stack"),
        (
            Column("calls", "int64", "", "number of calls"),
            Column("duration_ns", "int64", "ns", "time inside the calls, summed"),
            Column("span_ns", "int64", "ns", "from the start of the first call to the end of the last"),
        ),
    ),
    Kind(
        "device_alloc",
        "a block of device memory that a CUDA library allocated, with its life; every block is recorded",
        ("t_ns", "process", "thread", "stack"),
        (
            Column("bytes", "int64", "bytes", "as requested; including padding where the library pads rows"),
            Column(
                "lifetime_ns",
                "int64",
                "ns",
                "from allocation to free",
                "not freed during the recording: alive at the end of its process",
            ),
            Column(
                "allocator",
                "string",
                "",
                "malloc (cudaMalloc and similar), managed (migrates between device and host), async (ordered by a stream), unknown",
            ),
        ),
    ),
)
