"""The settings of a trace, as plain data: the names of the rows of kind ``setting`` and their meaning."""

from __future__ import annotations

#: Name → meaning. A setting is in every trace unless its text says otherwise.
SETTINGS: dict[str, str] = {
    "format_version": "version of the trace format, major.minor",
    "recorder_version": "version of scalene-trace that recorded",
    "started_at": "start of the recording, ISO 8601, UTC",
    "wall_ns": "length of the recording in nanoseconds",
    "command": "the command as given, JSON list; absent with --no-argv",
    "labels": "labels of --label, a JSON object of texts in the order given; absent without labels",
    "follows": "id of the trace of the same recording that ends where this one begins (--rotate); absent in others",
    "exit_status": "exit status of the program, 128 + n for signal n; absent when recovered, and when the program ran on",
    "features": "JSON list of what was recorded: cpu, wait, task (asyncio tasks and greenlets), memory, alloc, copy, children, gpu (if there was one)",
    "cpu_interval_ns": "mean CPU time between two ticks of a thread",
    "memory_threshold_bytes": "change of the footprint, in bytes, between two footprint samples",
    "alloc_interval": "mean bytes between two allocation samples: auto, or a number (1 = every allocation, 0 = none)",
    "copy_threshold_bytes": "bytes that a thread copies between two copy samples",
    "gpu_interval_ns": "time between two GPU samples, 0 = none were taken",
    "gpu_devices": "JSON list of the GPUs: name, uuid, memory_bytes; absent without a GPU, and when none was sampled",
    "sample": "window and period of --sample, like 30s/10min; absent without it",
    "cpu_budget": "share of --cpu-budget, like 0.5%; absent without it. What it did is in rows of kind mark (set)",
    "hostname": "name of the host",
    "kernel": "kernel release",
    "machine": "processor architecture",
    "cpu_count": "processors available to the recorder",
    "ended_by": "why the recording ends here: program (it ended), duration (--duration; the program ran on), snapshot (the recording continued), rotation (the next trace of the recording begins here, --rotate), detach (scalene-record --pid was stopped; the program ran on), recovery (--recover)",
    "recovered": "true when written by --recover, else false",
}
