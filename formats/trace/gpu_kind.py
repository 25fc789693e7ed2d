"""The kind ``gpu``: what the driver of the GPUs tells."""

from __future__ import annotations

from .kinds import Column, Kind

GPU = Kind(
    "gpu",
    "what a GPU did, as its driver tells it: how busy it was over an interval, or the memory that every look in an interval met. t_ns = start of the interval; process: whose work, of scope device: the one recorded process that uses it",
    ("t_ns", "process"),
    (
        Column("device", "int32", "", "place of the device in the setting gpu_devices, from 0"),
        Column("scope", "string", "", "process (what this process did with the device) or device (whoever did it)"),
        Column("duration_ns", "int64", "ns", "length of the interval: of utilisation, what the driver averages over"),
        Column("busy_ns", "int64", "ns", "for how much of it kernels ran: utilisation times duration", "about memory"),
        Column(
            "memory_bytes",
            "int64",
            "bytes",
            "memory of the process on the device, or in use on the device",
            "about utilisation",
        ),
        Column(
            "charged",
            "bool",
            "",
            "it counts as the program's; false for the whole of a device whose processes are told apart, or that the program does not use",
        ),
    ),
)
