"""The kind ``gpu``: figures that the driver of the GPUs reports."""

from __future__ import annotations

from .kinds import Column, Kind

GPU = Kind(
    "gpu",
    "a GPU sample as the driver reports it: the utilisation over an interval, or the memory in use at every observation in an interval. t_ns = start of the interval; process: the process that used the device; for scope device, the only recorded process that uses it",
    ("t_ns", "process"),
    (
        Column("device", "int32", "", "index of the device in the setting gpu_devices, from 0"),
        Column("scope", "string", "", "process (use of the device by this process) or device (use by any process)"),
        Column("duration_ns", "int64", "ns", "length of the interval; for utilisation, the driver's averaging period"),
        Column(
            "busy_ns", "int64", "ns", "time in it during which kernels ran: utilisation times duration", "about memory"
        ),
        Column(
            "memory_bytes",
            "int64",
            "bytes",
            "device memory of the process, or in use on the whole device",
            "about utilisation",
        ),
        Column(
            "charged",
            "bool",
            "",
            "whether it counts for the program; false for a whole device when its processes are also reported one by one, or when the program does not use it",
        ),
    ),
)
