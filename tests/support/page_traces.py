"""Traces for the tests of pages and exports, and the inverse of how a page packs numbers."""

from __future__ import annotations

import base64
import json
import random
import zlib
from collections.abc import Iterator
from pathlib import Path

from tests.support.gpu_traces import gpu_trace, used
from tests.support.trace_builder import MS, SECOND, TraceBuilder

APP, LIB = "/home/me/app.py", "/usr/lib/python3.12/queue.py"


def unpacked(text: str, is_signed: bool = False) -> list[int]:
    """The other way round, one byte at a time."""
    numbers, value, shift = [], 0, 0
    for byte in zlib.decompress(base64.b64decode(text)):
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append((value >> 1) ^ -(value & 1) if is_signed else value)
            value = shift = 0
    return numbers


def busy_trace(path: Path) -> Path:
    """Two threads, three lines, library code, waits over several pieces, memory, copies, a child that ends early."""
    random_ = random.Random(20_260_102)
    builder = TraceBuilder()
    builder.settings["features"] = json.dumps(["cpu", "wait", "memory", "alloc", "copy", "children"])
    parent = builder.process(end_ns=10 * SECOND)
    child = builder.process(t_ns=SECOND, end_ns=6 * SECOND, cause="spawn", parent=parent)
    threads = [(parent, builder.thread(parent, 3 * SECOND)), (child, builder.thread(child, SECOND, SECOND))]
    main = (APP, "<module>", 1, 40)
    frames = [(APP, "work", 3, 7), (APP, "work", 3, 8), (LIB, "get", 100, 120)]
    stacks = [builder.stack(main), *(builder.stack(frame, main) for frame in frames), None]
    stacks.append(builder.stack(frames[2], frames[0], frames[1], main))
    footprint = 0
    for t_ns in sorted(random_.randrange(SECOND, 6 * SECOND) for _ in range(700)):
        process, thread = random_.choice(threads)
        stack, size = random_.choice(stacks), random_.randrange(1_000, 3_000_000)
        kind = random_.randrange(5)
        if kind == 0:
            drawn = random_.random()
            native = {"pc_class": "extension" if drawn < 0.5 else "interpreter", "opcode": None} if drawn < 0.6 else {}
            builder.tick(t_ns, process, thread, stack, system_ns=random_.randrange(3) * MS, **native)
        elif kind == 1:
            span_ns = random_.randrange(1, SECOND)
            waited = {"class": random_.choice(["sleep", "disk", "gil"]), "span_ns": span_ns}
            builder.wait(t_ns, process, thread, stack, span_ns // 2, **waited)
        elif kind == 2:
            net = random_.choice([10_485_767, -10_485_767])
            footprint = max(footprint + net, 0)
            builder.memory(t_ns, process, thread, stack, net, footprint if process == parent else 7)
        elif kind == 3:
            life = random_.choice([None, random_.randrange(1, 3 * SECOND)])
            builder.alloc(t_ns, process, thread, stack, size, life, interval_bytes=262_144)
        else:
            builder.copy(t_ns, process, thread, stack, size)
    builder.source(APP, "line\n" * 60)
    return builder.write(path)


def device_trace(path: Path, has_memory: bool = False) -> Path:
    """The GPU of ``gpu_trace``, busy for 1.3 s and used by a second process too, with calls of a CUDA library on lines 10, 20
    and in a library that line 10 calls; a second look at memory; half a turn on line 41, shorter than the averages.
    ``has_memory``: allocations and copies on line 10 too, so that every column there is has a figure."""
    builder = gpu_trace(busy_ms=1_300)
    if has_memory:
        builder.settings["features"] = json.dumps(["cpu", "wait", "memory", "alloc", "copy", "gpu"])
        stack = builder.stack((APP, "train", 5, 10))
        builder.memory(2 * SECOND, 1, 1, stack, 10_485_767, 10_485_767)
        builder.alloc(2 * SECOND, 1, 1, stack, 1_999_993, None, interval_bytes=262_144)
        builder.copy(3 * SECOND, 1, 1, stack, 20_000_003)
    other = builder.process(t_ns=SECOND, end_ns=9 * SECOND, cause="spawn", parent=1)
    builder.wait(5 * SECOND, other, builder.thread(other, 0), builder.stack((APP, "other", 50, 51)), SECOND)
    used(builder, 5 * SECOND, SECOND, 400 * MS, process=other, device=1)
    blink = builder.stack((APP, "blink", 40, 41))
    builder.wait(7 * SECOND, 1, 1, blink, 100 * MS)
    used(builder, 7 * SECOND, 200 * MS, 100 * MS)
    for t_ns, span_ns, size in ((2 * SECOND, 800 * MS, 100_000_007), (3 * SECOND, 300 * MS, 200_000_003)):
        used(builder, t_ns, span_ns, None, memory_bytes=size, device=1)
    train, load = builder.stack((APP, "train", 5, 10)), builder.stack((APP, "load", 15, 20))
    inside = builder.stack((LIB, "to", 7, 8), (APP, "train", 5, 10))
    calls = [(train, "h2d", 3_000_017), (inside, "d2h", 1_000_003), (load, "unified", 500_009), (None, "d2d", 70_001)]
    for number, (stack, direction, size) in enumerate(calls):
        for t_ns in (SECOND + number * 400 * MS, 6 * SECOND):
            call = {"t_ns": t_ns, "process": 1, "thread": 1, "stack": stack, "calls": 1, "span_ns": 3 * MS}
            builder.add("device_copy", **call, direction=direction, bytes=size, duration_ns=2 * MS)
            builder.add("device_sync", **call, duration_ns=(number + 1) * 250 * MS)
    return builder.write(path)


def empty_traces(folder: Path) -> Iterator[Path]:
    """Traces of nothing, of one tick, of memory alone."""
    yield TraceBuilder().write(folder / "empty.parquet")
    builder = TraceBuilder(settings={})
    yield builder.write(folder / "bare.parquet")
    builder = TraceBuilder()
    process = builder.process()
    builder.tick(5 * MS, process, builder.thread(process, 10 * MS), None)
    yield builder.write(folder / "one.parquet")
    builder = TraceBuilder()
    builder.settings["features"] = json.dumps(["memory"])
    process = builder.process()
    builder.memory(5 * MS, process, builder.thread(process, 10 * MS), None, 10_485_767, 10_485_767)
    yield builder.write(folder / "memory.parquet")


#: Texts of the cells of a column of the table that is shown, from top to bottom.
COLUMN = """(key => {{
    const table = document.querySelector('#pane .table');
    const place = [...table.querySelectorAll('.head .cell')].findIndex(each => each.dataset.key === key);
    const rows = [...table.querySelectorAll('.rows .row')].sort((a, b) => a.ariaRowIndex - b.ariaRowIndex);
    return rows.map(row => row.children[place].textContent);
}})('{key}')"""


def hostile_page_trace(path: Path) -> tuple[Path, list[str]]:
    """A trace all of whose texts want to be code."""
    evil = ["</script><script>window.done = 1</script>", "<img src=x onerror='window.done = 1'>", "<!--<script>"]
    evil += ["]]>&lt;b&gt;\"'`${window.done = 1}", "\x1b]0;title\x07\x1b[31m\r\n", "\u202e\u2028\x00", "x" * 10_000]
    builder = TraceBuilder()
    builder.settings["command"] = json.dumps(evil)
    builder.settings["features"] = json.dumps(["cpu", "memory", "wait", "alloc"])
    process = builder.process(command=evil, executable=evil[0], end=evil[1])
    for number, text in enumerate(evil):
        thread = builder.thread(process, SECOND, name=text)
        file = f"/app/{text.replace(chr(0), '')}.py"
        stack = builder.stack((file, text, 1, 1), (file, f"<module>{text}", 1, 2))
        builder.tick((number + 5) * MS, process, thread, stack)
        builder.wait((number + 5) * MS, process, thread, stack, MS)
        builder.memory((number + 5) * MS, process, thread, stack, 10_485_767, 10_485_767 * (number + 1))
        builder.alloc((number + 5) * MS, process, thread, stack, 2_000_003, type=text, allocator=text)
        builder.source(file, f"{text}\n{text}\n")
        builder.loss(text, "loss", 3, text)
        builder.add("mark", t_ns=5 * MS, what="mark", text=text)
    for number, file in enumerate(("constructor", "__proto__", "toString")):
        builder.tick((number + 50) * MS, process, thread, builder.stack((file, file, 1, 1)), pc_class="extension")
    return builder.write(path), evil
