"""Traces for the tests: some with sums that are worked out here, and some that are thin, hostile or damaged."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from scalene_trace.formats.trace.writer import write_trace
from tests.support.trace_builder import MS, SECOND, TRACE_ID, TraceBuilder

APP = "/home/me/app.py"
LIBRARY = "/usr/lib/python3.12/json/decoder.py"
HOSTILE = (
    "\x1b[31mred\x1b]0;title\x07\n\rfake line 7\x00\u202egnp.\u2028\x9b"
    "<script>alert(1)</script>]]>\"'&amp;; 5 \\u0041 %s ${x}" + "x" * 10_000
)
ALL_FEATURES = json.dumps(["cpu", "wait", "memory", "alloc", "copy", "children"])


def small_trace(path: Path, file: str = APP, function: str = "main") -> Path:
    """Two lines, one of them with memory, source text and a loss."""
    builder = TraceBuilder()
    process = builder.process()
    thread = builder.thread(process, cpu_ns=0)
    builder.source(file, "import json\n\ndef main():\n    work()\n    more()\n")
    for index, number in enumerate((4, 4, 5)):
        builder.tick(index * SECOND, process, thread, builder.stack((file, function, 3, number)), system_ns=1 * MS)
    builder.memory(SECOND, process, thread, builder.stack((file, function, 3, 5)), 11_000_003, 11_000_003)
    builder.loss("torn_stack", "loss", 7, "stacks were not readable")
    return builder.write(path)


def rich_trace(path: Path) -> Path:
    """A trace of :func:`rich_builder`."""
    return rich_builder().write(path)


def rich_builder() -> TraceBuilder:
    """Two processes, three threads, every kind of sample.

    CPU: 10 ms Python and 1 ms kernel in work, 20 ms of crc32 of libz below decode below work, 30 ms of Python without a
    stack.
    Waits: 2 s asleep in main, 0.5 s for the GIL in work. Allocated: 1,999,993 bytes in work (freed at 3 s), 3,000,017 in
    main. The peak is at 2 s, where both are alive. Copied: 20,000,003 bytes in work.
    """
    builder = TraceBuilder()
    builder.settings["features"] = ALL_FEATURES
    builder.add("module", id=1, path="/usr/lib/libz.so.1.2.13", **{"class": "extension"})
    builder.add("symbol", module=1, start_offset=100, end_offset=200, name="crc32_z")
    process, child = builder.process(end_ns=10 * SECOND), builder.process(SECOND, cause="fork", parent=1)
    first, second = (
        builder.thread(process, cpu_ns=0, tid=1001),
        builder.thread(process, cpu_ns=0, python_name="fetcher"),
    )
    third = builder.thread(child, cpu_ns=0, t_ns=SECOND)
    outer = (APP, "<module>", 1, 20)
    main = builder.stack((APP, "main", 10, 12), outer)
    work = builder.stack((APP, "work", 3, 4), (APP, "main", 10, 13), outer)
    decode = builder.stack((LIBRARY, "decode", 30, 0), (APP, "work", 3, 5), (APP, "main", 10, 13), outer)
    builder.source(APP, "".join(f"line {n}\n" for n in range(1, 21)))
    builder.tick(1 * SECOND, process, first, work, system_ns=1 * MS)
    native = {"pc_class": "extension", "pc_module": 1, "pc_offset": 150}
    builder.tick(2 * SECOND, process, first, decode, user_ns=20 * MS, **native)
    builder.tick(3 * SECOND, child, third, None, user_ns=30 * MS)
    builder.wait(4 * SECOND, process, first, main, 2 * SECOND)
    builder.wait(4 * SECOND, process, second, work, SECOND // 2, **{"class": "gil"})
    for size, t_ns, life_ns, stack in ((1_999_993, 1, 2 * SECOND, work), (3_000_017, 1, None, main)):
        builder.alloc(
            t_ns * SECOND, process, first, stack, size, life_ns, python=True, type="bytes", allocator="malloc"
        )
    builder.memory(2 * SECOND, process, first, main, 11_000_003, 11_000_003)
    builder.memory(4 * SECOND, process, first, main, -10_999_999, 4)
    builder.copy(5 * SECOND, process, first, work, 20_000_003)
    builder.collections(6 * SECOND, process, first, 3, 0, 1)
    builder.add("mark", t_ns=2 * SECOND, what="mark", text="load", end_ns=3 * SECOND, pid=1001)
    builder.add("rss", t_ns=2 * SECOND, process=process, rss_bytes=50_000_000, shared_bytes=1)
    return builder


#: What rich_trace adds up to, in nanoseconds and bytes.
TOTALS = {
    "cpu": 61 * MS,
    "wait": 2 * SECOND + SECOND // 2,
    "allocated": 5_000_010,
    "live-at-peak": 5_000_010,
    "copies": 20_000_003,
}


def hostile_trace(path: Path) -> Path:
    """A trace of :func:`hostile_builder`."""
    return hostile_builder().write(path)


def hostile_builder() -> TraceBuilder:
    """Every text of the trace is hostile."""
    builder = TraceBuilder()
    builder.settings |= {"features": ALL_FEATURES, "command": json.dumps([HOSTILE, "\udcff"]), "started_at": HOSTILE}
    builder.settings |= {"hostname": HOSTILE, HOSTILE: HOSTILE}
    builder.add("module", id=1, path=f"/usr/lib/{HOSTILE}.so", **{"class": HOSTILE})
    builder.add("symbol", module=1, start_offset=0, end_offset=200, name=HOSTILE, demangled=HOSTILE)
    process = builder.process(executable=HOSTILE, command=[HOSTILE], python_version=HOSTILE, cause=HOSTILE, end=HOSTILE)
    thread = builder.thread(process, cpu_ns=0, name=HOSTILE, engine=HOSTILE, python_name=HOSTILE)
    builder.thread(process, cpu_ns=0, name=HOSTILE, engine=HOSTILE)
    builder.source(HOSTILE, HOSTILE)
    stack = builder.stack((HOSTILE, HOSTILE, 1, 2), ("", "", 0, 0), (HOSTILE, "\u202e", -5, -7))
    builder.tick(0, process, thread, stack, pc_class="extension", pc_module=1, pc_offset=5)
    builder.tick(SECOND, process, 99, stack, opcode=HOSTILE)
    builder.wait(SECOND, process, thread, stack, SECOND, **{"class": HOSTILE})
    builder.add("module", id=2, path=f"/opt/{HOSTILE}.so", **{"class": "extension"})
    builder.add("native", id=1, parent=None, module=2, offset=5, gap=False)
    builder.add("symbol", module=2, start_offset=0, end_offset=200, name=HOSTILE, demangled=HOSTILE)
    builder.wait(2 * SECOND, process, thread, stack, 3 * SECOND, native=1)
    call = {"t_ns": SECOND, "process": process, "thread": thread, "stack": stack, "duration_ns": 1, "span_ns": 1}
    builder.add("device_copy", **call, calls=1, direction=HOSTILE, bytes=1)
    builder.settings["gpu_devices"] = json.dumps([{"name": HOSTILE}])
    told = {"device": 0, "scope": "device", "duration_ns": SECOND, "charged": True}
    builder.add("gpu", t_ns=0, process=None, busy_ns=SECOND, memory_bytes=None, **told)
    builder.memory(0, process, thread, stack, 11_000_003, 11_000_003)
    for index in range(100):
        builder.alloc(index * SECOND // 10, process, thread, stack, 65_537, type=HOSTILE, allocator=HOSTILE)
    builder.copy(SECOND, process, thread, stack, 7)
    builder.add("mark", t_ns=SECOND, what=HOSTILE, text=HOSTILE, end_ns=0, pid=7)
    builder.loss(HOSTILE, HOSTILE, 1, HOSTILE)
    return builder


def gappy_trace(builder: TraceBuilder, seed: int, path: Path) -> Path:
    """What ``builder`` built, without a third of its values: nulls where the format has none, too. Times stay: a trace that
    lacks one is refused."""
    draw = random.Random(seed)
    tables = builder.tables()
    for columns in tables.values():
        for name in sorted(columns.keys() - {"t_ns"}):
            columns[name] = [None if draw.random() < 1 / 3 else each for each in columns[name]]
    write_trace(path, TRACE_ID, [tables])
    return path


def thin_trace(kind: str, path: Path) -> Path:
    """A valid trace with next to nothing in it."""
    builder = TraceBuilder()
    if kind == "nothing at all":
        builder.settings = {}
        return builder.write(path)
    process = builder.process()
    thread, stack = builder.thread(process, cpu_ns=10 * MS), builder.stack((APP, "main", 1, 2))
    if kind in ("cpu only", "one sample"):
        builder.settings["features"] = '["cpu"]' if kind == "cpu only" else ALL_FEATURES
        builder.tick(0, process, thread, stack)
    if kind == "memory only":
        builder.settings["features"] = '["memory", "alloc"]'
        builder.memory(0, process, thread, stack, 11_000_003, 11_000_003)
        builder.alloc(0, process, thread, stack, 11_000_003)
    return builder.write(path)


THIN = ("nothing at all", "no samples", "cpu only", "memory only", "one sample")

#: Ways in which a file can fail to be a complete trace.
DAMAGED = ("missing", "directory", "empty", "text", "another table", "cut", "headless")


def damaged(kind: str, path: Path) -> Path:
    """A trace that cannot be read."""
    data = small_trace(path).read_bytes()
    if kind == "missing":
        path.unlink()
    elif kind == "directory":
        path.unlink()
        path.mkdir()
    elif kind == "another table":
        pq.write_table(pa.table({"a": [1]}), path)
    else:
        contents = {
            "empty": b"",
            "text": b"hello, this is no trace\n" * 9,
            "cut": data[: len(data) // 2],
            "headless": data[100:],
        }
        path.write_bytes(contents[kind])
    return path
