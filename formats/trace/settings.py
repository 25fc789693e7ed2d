"""The settings of a trace, as plain data: the rows of the kind ``setting``."""

from __future__ import annotations

#: Settings that every trace holds (kind ``setting``); times in ISO 8601 UTC, lists as JSON.
SETTINGS: dict[str, str] = {
    "format_version": "version of the trace format, major.minor",
    "recorder_version": "version of scalene-trace that recorded",
    "started_at": "start of the recording, ISO 8601, UTC",
    "wall_ns": "length of the recording in nanoseconds",
    "command": "the command as given, JSON list; absent with --no-argv",
    "exit_status": "status that scalene-record returned for the program; absent when recovered, and when the program ran on",
    "features": "JSON list of what was recorded: cpu, wait, task (asyncio tasks), memory, alloc, copy, children, gpu (there was one)",
    "cpu_interval_ns": "mean CPU time between two ticks of a thread",
    "memory_threshold_bytes": "threshold of the footprint sampler",
    "alloc_interval": "mean bytes between two allocation samples: auto, or a number (1 = every allocation, 0 = none)",
    "copy_threshold_bytes": "bytes that a thread copies between two copy samples",
    "gpu_interval_ns": "how often GPUs were looked at, 0 = never",
    "gpu_devices": "JSON list of the GPUs: name, uuid, memory_bytes; absent where there was none, or they were not looked at",
    "hostname": "name of the host",
    "kernel": "kernel release",
    "machine": "processor architecture",
    "cpu_count": "processors available to the recorder",
    "ended_by": "why the recording goes no further: program (it ended), duration (--duration; it ran on), snapshot (it was recorded on), recovery",
    "recovered": "true when written by --recover, else false",
}
