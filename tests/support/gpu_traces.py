"""Traces with samples of a graphics card, made by hand."""

from __future__ import annotations

from tests.support.recording import Json
from tests.support.trace_builder import MS, SECOND, TraceBuilder

APP = "/home/me/app.py"
PERIOD = 200 * MS


def gpu_trace(busy_ms: int = 1000) -> TraceBuilder:
    """Ten seconds of one process: the main thread waits on line 10 from 2 s to 3 s, and on line 20 from 3 s to 4 s, while
    another one computes on line 31. The device is busy for ``busy_ms`` from 2 s on, and holds 300 MB from 2 s to 2.8 s."""
    builder = TraceBuilder()
    builder.settings["features"] = '["cpu", "wait", "gpu"]'
    process = builder.process(end_ns=10 * SECOND)
    main, background = builder.thread(process, 0), builder.thread(process, 10 * SECOND)
    builder.wait(2 * SECOND, process, main, builder.stack((APP, "train", 5, 10)), SECOND)
    builder.wait(3 * SECOND, process, main, builder.stack((APP, "load", 15, 20)), SECOND)
    for index in range(1000):
        builder.tick(index * 10 * MS, process, background, builder.stack((APP, "work", 30, 31)))
    for index in range(50):
        start = index * PERIOD
        busy_ns = max(0, min(start + PERIOD, 2 * SECOND + busy_ms * MS) - max(start, 2 * SECOND))
        used(builder, start, PERIOD, busy_ns)
    builder.add("gpu", t_ns=2 * SECOND, **common(), duration_ns=800 * MS, busy_ns=None, memory_bytes=300_000_007)
    return builder


def common() -> Json:
    return {"process": 1, "device": 0, "scope": "process", "charged": True}


def used(builder: TraceBuilder, t_ns: int, duration_ns: int, busy_ns: int | None, **columns: object) -> None:
    row = {"duration_ns": duration_ns, "busy_ns": busy_ns, "memory_bytes": None}
    builder.add("gpu", t_ns=t_ns, **(common() | row | columns))
