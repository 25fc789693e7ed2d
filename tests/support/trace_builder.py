"""Builds traces by hand: tiny ones for tests whose figures are worked out in a comment, and one large one.

A :class:`TraceBuilder` collects rows; :meth:`TraceBuilder.write` hands them to the product's own writer. Ids are given
out from 1, in the order of the calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from scalene_trace.formats.trace.columns import Masked
from scalene_trace.formats.trace.writer import write_trace

MS = 1_000_000
SECOND = 1_000_000_000
TRACE_ID = "0123456789abcdef0123456789abcdef"

Row = dict[str, Any]

DEFAULT_SETTINGS = {
    "format_version": "1.7",
    "recorder_version": "0.1.0",
    "started_at": "2026-01-02T03:04:05.000006Z",
    "wall_ns": str(10 * SECOND),
    "command": json.dumps(["app.py", "--fast"]),
    "exit_status": "0",
    "features": json.dumps(["cpu", "memory", "children"]),
    "cpu_interval_ns": str(10 * MS),
    "memory_threshold_bytes": "10485767",
    "hostname": "builder",
    "kernel": "6.1.0",
    "machine": "x86_64",
    "cpu_count": "2",
    "recovered": "false",
}


@dataclass
class TraceBuilder:
    """Rows of a trace in the making. A new one holds the settings and nothing else."""

    settings: dict[str, str] = field(default_factory=lambda: dict(DEFAULT_SETTINGS))
    rows: dict[str, list[Row]] = field(default_factory=dict)
    location_ids: dict[tuple[str, str, int, int], int] = field(default_factory=dict)
    stack_ids: dict[tuple[int | str, ...], int] = field(default_factory=dict)

    def add(self, kind: str, **columns: Any) -> Row:
        """Appends one row of ``kind`` and returns it, so that a test can change it later."""
        self.rows.setdefault(kind, []).append(columns)
        return columns

    def process(self, t_ns: int = 0, **columns: Any) -> int:
        """A process with one Python; returns its id."""
        process = len(self.rows.get("process", [])) + 1
        row: Row = {"t_ns": t_ns, "process": process, "pid": 1000 + process, "parent_pid": 1, "cause": "root"}
        row |= {"executable": "/usr/bin/python3", "command": ["python3", "app.py"], "python_version": "3.12.4"}
        row |= {"stacks": True, "start_footprint_bytes": 0}
        self.add("process", **(row | columns))
        return process

    def thread(self, process: int, cpu_ns: int, t_ns: int = 0, **columns: Any) -> int:
        """A thread with its exact CPU time; returns its id."""
        thread = len(self.rows.get("thread", [])) + 1
        row: Row = {
            "t_ns": t_ns,
            "process": process,
            "thread": thread,
            "tid": 2000 + thread,
            "name": f"thread-{thread}",
        }
        self.add("thread", **(row | {"engine": "perf", "cpu_ns": cpu_ns} | columns))
        return thread

    def location(self, file: str, function: str, first_line: int, line: int) -> int:
        """Id of a location row, made on first use."""
        key = (file, function, first_line, line)
        if key not in self.location_ids:
            self.location_ids[key] = len(self.location_ids) + 1
            names = ("file", "function", "first_line", "line")
            self.add("location", id=self.location_ids[key], **dict(zip(names, key, strict=True)))
        return self.location_ids[key]

    def stack(self, *frames: tuple[str, str, int, int], labels: Sequence[str] = ()) -> int:
        """Id of the stack of these (file, function, first line, line), innermost first, made on first use."""
        locations = tuple(self.location(*frame) for frame in frames)
        key = (*locations, *labels)
        if key not in self.stack_ids:
            self.stack_ids[key] = stack = len(self.stack_ids) + 1
            row: Row = {"stack": stack, "hash": hash(frames) >> 1, "locations": list(locations), "truncated": False}
            self.add("stack", **row, labels=list(labels) or None)
        return self.stack_ids[key]

    def tick(
        self, t_ns: int, process: int, thread: int, stack: int | None, user_ns: int = 10 * MS, **columns: Any
    ) -> Row:
        """A CPU tick, by default of pure Python in the bytecode loop."""
        row: Row = {"t_ns": t_ns, "process": process, "thread": thread, "stack": stack, "user_ns": user_ns}
        row |= {"system_ns": 0, "clock_ns": t_ns, "pc_class": "eval", "opcode": "BINARY_OP", "eval_found": True}
        row |= {"vectorcall": False, "tp_call": False, "frame_setup": False, "type_call": False, "has_python": True}
        row |= {"gc": False, "torn": False, "system_only": False}
        return self.add("cpu", **(row | columns))

    def memory(
        self, t_ns: int, process: int, thread: int, stack: int | None, net: int, footprint: int, **columns: Any
    ) -> Row:
        """A footprint sample; ``allocated_bytes`` defaults to the absolute net, all native."""
        row: Row = {"t_ns": t_ns, "process": process, "thread": thread, "stack": stack, "net_bytes": net}
        row |= {"footprint_bytes": footprint, "python_footprint_bytes": 0, "allocated_bytes": abs(net)}
        return self.add("memory", **(row | {"python_allocated_bytes": 0} | columns))

    def alloc(
        self,
        t_ns: int,
        process: int,
        thread: int,
        stack: int | None,
        size: int,
        life: int | None = None,
        **columns: Any,
    ) -> Row:
        """An allocation, by default exact (interval 1) and of native memory; ``life`` in ns, None = never freed."""
        row: Row = {"t_ns": t_ns, "process": process, "thread": thread, "stack": stack, "size_bytes": size}
        row |= {"usable_bytes": size, "interval_bytes": 1, "lifetime_ns": life, "survived": 0, "at_exit": False}
        row |= {"allocator": "malloc", "python": False, "maximum": False} | columns
        return self.add("alloc", **({"life_interval_bytes": row["interval_bytes"]} | row))

    def wait(self, t_ns: int, process: int, thread: int, stack: int | None, duration_ns: int, **columns: Any) -> Row:
        """A wait, by default asleep from beginning to end."""
        row: Row = {"duration_ns": duration_ns, "span_ns": duration_ns, "class": "sleep", "syscall": None, "looks": 1}
        return self.add("wait", t_ns=t_ns, process=process, thread=thread, stack=stack, **(row | columns))

    def task(self, t_ns: int, process: int, thread: int, stack: int | None, duration_ns: int, **columns: Any) -> Row:
        """A suspension of task 1, by default "Task-1", without others that it stands for."""
        row: Row = {"duration_ns": duration_ns, "span_ns": duration_ns, "task": 1, "name": "Task-1"}
        return self.add("task", t_ns=t_ns, process=process, thread=thread, stack=stack, **(row | columns))

    def copy(self, t_ns: int, process: int, thread: int | None, stack: int | None, size: int) -> Row:
        """A copy sample."""
        return self.add("copy", t_ns=t_ns, process=process, thread=thread, stack=stack, bytes=size)

    def collections(self, t_ns: int, process: int, thread: int, *counts: int) -> Row:
        """Garbage collections of the generations 0, 1 and 2 since the row before."""
        by_generation = {f"generation{index}": count for index, count in enumerate(counts)}
        found = {"collected": 0, "uncollectable": 0}
        return self.add("gc", t_ns=t_ns, process=process, thread=thread, **by_generation, **found)

    def heap(self, t_ns: int, process: int, footprint: int, **columns: Any) -> Row:
        """What a process's memory consists of, by default native blocks only; without the ending ``_bytes``."""
        parts = {"python": 0, "mapped": 0, "untouched": 0, "reserved": 0, "arena": 0, "pool": 0} | columns
        sizes = {f"{name}_bytes": size for name, size in parts.items()}
        return self.add("heap", t_ns=t_ns, process=process, footprint_bytes=footprint, **sizes)

    def source(self, file: str, text: str) -> None:
        self.add("source", file=file, text=text, changed=False)

    def loss(self, name: str, severity: str, count: int, text: str) -> None:
        self.add("loss", name=name, severity=severity, count=count, text=text)

    def tables(self) -> dict[str, dict[str, list[Any]]]:
        """The rows as columns, the settings included."""
        rows = dict(self.rows)
        if self.settings:
            rows["setting"] = [{"name": name, "value": value} for name, value in self.settings.items()]
        return {kind: _columns(each) for kind, each in rows.items()}

    def write(self, path: Path) -> Path:
        write_trace(path, TRACE_ID, [self.tables()])
        return path


def _columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    names: Iterable[str] = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def write_large_trace(path: Path, ticks: int = 400_000, allocations: int = 720_000, seed: int = 20_260_102) -> Path:
    """A trace of an hour of one program: 5,000 stacks 5 to 40 deep, 8 threads, 2,000 memory samples.

    Each stack allocates blocks of 16 bytes to 4 MB that live for a microsecond to an hour.
    """
    random = np.random.default_rng(seed)
    builder = TraceBuilder()
    builder.settings["wall_ns"] = str(3600 * SECOND)
    process = builder.process(end_ns=3600 * SECOND)
    _large_sources(builder)
    stacks = _large_stacks(builder, random)
    t_ns = np.sort(random.integers(0, 3600 * SECOND, ticks))
    threads = [builder.thread(process, cpu_ns=ticks // 8 * 10 * MS + i * MS) for i in range(8)]
    _large_memory(builder, random, process, threads, stacks)
    tables: dict[str, dict[str, Any]] = dict(builder.tables())
    tables["cpu"] = _large_ticks(random, t_ns, process, threads, stacks)
    tables["alloc"] = _large_allocations(random, allocations, process, threads, stacks)
    write_trace(path, TRACE_ID, [tables])
    return path


def write_wide_trace(path: Path, lines: int = 10_000, ticks: int = 1_000_000, seed: int = 20_260_103) -> Path:
    """A trace of an hour whose ticks are spread evenly over many lines, each called in its own way: nothing repeats."""
    random = np.random.default_rng(seed)
    builder = TraceBuilder()
    builder.settings["wall_ns"] = str(3600 * SECOND)
    process = builder.process(end_ns=3600 * SECOND)
    _large_sources(builder)
    threads = [builder.thread(process, cpu_ns=ticks // 8 * 10 * MS + i * MS) for i in range(8)]
    _large_memory(builder, random, process, threads, stacks := np.array(_wide_stacks(builder, lines), dtype=np.int32))
    tables: dict[str, dict[str, Any]] = dict(builder.tables())
    drawn = _large_ticks(random, np.sort(random.integers(0, 3600 * SECOND, ticks)), process, threads, stacks)
    tables["cpu"] = drawn | {"stack": random.choice(stacks, ticks)}
    write_trace(path, TRACE_ID, [tables])
    return path


def _wide_stacks(builder: TraceBuilder, lines: int) -> list[int]:
    """A stack for each line, ten calls deep: 20 functions of a file, 40 lines each."""
    frames = [
        (f"/home/me/project/module_{n // 800}.py", f"function_{n % 800 // 40}", n % 800 // 40 * 40 + 1, n % 800 + 1)
        for n in range(lines)
    ]
    return [builder.stack(*(frames[(n * 7919**depth) % lines] for depth in range(10))) for n in range(lines)]


def _large_sources(builder: TraceBuilder) -> None:
    for file in range(30):
        builder.source(
            f"/home/me/project/module_{file}.py", "".join(f"    value_{n} = step({n})\n" for n in range(800))
        )


def _large_stacks(builder: TraceBuilder, random: np.random.Generator) -> np.ndarray[Any, Any]:
    stacks = []
    for _ in range(5_000):
        depth = int(random.integers(5, 40))
        frames = []
        for _ in range(depth):
            file, function = int(random.zipf(1.5)) % 40, int(random.integers(0, 20))
            name = f"/home/me/project/module_{file}.py" if file < 30 else f"/usr/lib/python3.12/library_{file}.py"
            frames.append(
                (name, f"function_{function}", function * 40 + 1, function * 40 + 2 + int(random.zipf(1.4)) % 36)
            )
        stacks.append(builder.stack(*frames))
    return np.array(stacks, dtype=np.int32)


def _large_memory(
    builder: TraceBuilder, random: np.random.Generator, process: int, threads: list[int], stacks: np.ndarray[Any, Any]
) -> None:
    footprint = 0
    for index in range(2_000):
        net = 10_485_767 if index % 3 else -10_485_767
        footprint += net
        stack = int(stacks[int(random.integers(0, 50))])
        builder.memory(
            index * 3600 * SECOND // 2_000, process, threads[0], stack, net, footprint, python_allocated_bytes=3_000_017
        )


def _large_ticks(
    random: np.random.Generator,
    t_ns: np.ndarray[Any, Any],
    process: int,
    threads: list[int],
    stacks: np.ndarray[Any, Any],
) -> dict[str, Any]:
    ticks = len(t_ns)
    opcodes = np.array(
        ["BINARY_OP", "LOAD_FAST", "CALL", "CALL_PY_EXACT_ARGS", "CALL_BUILTIN_FAST", "CALL_FUNCTION_EX"]
    )
    classes = np.array(["eval", "interpreter", "support", "extension"])
    drawn = random.choice(classes, ticks, p=[0.4, 0.3, 0.2, 0.1])
    extension = Masked(np.full(ticks, 7, dtype=np.int32), drawn != "extension")
    return {
        "t_ns": t_ns,
        "process": np.full(ticks, process, dtype=np.int32),
        "thread": random.choice(np.array(threads, dtype=np.int32), ticks),
        "stack": stacks[np.minimum(random.zipf(1.2, ticks), len(stacks)) - 1],
        "user_ns": random.integers(9, 12, ticks) * MS,
        "system_ns": np.where(random.random(ticks) < 0.1, MS, 0),
        "clock_ns": t_ns,
        "pc_class": drawn.tolist(),
        "pc_module": random.integers(1, 9, ticks).astype(np.int32),
        "pc_offset": random.integers(4096, 5_000_000, ticks),
        "extension_module": extension,
        "opcode": random.choice(opcodes, ticks).tolist(),
        "eval_found": random.random(ticks) < 0.95,
        "vectorcall": random.random(ticks) < 0.2,
        "tp_call": random.random(ticks) < 0.05,
        "frame_setup": np.zeros(ticks, dtype=bool),
        "type_call": np.zeros(ticks, dtype=bool),
        "has_python": random.random(ticks) < 0.98,
        "gc": random.random(ticks) < 0.02,
        "torn": np.zeros(ticks, dtype=bool),
        "system_only": np.zeros(ticks, dtype=bool),
    }


def _large_allocations(
    random: np.random.Generator, count: int, process: int, threads: list[int], stacks: np.ndarray[Any, Any]
) -> dict[str, Any]:
    t_ns = np.sort(random.integers(0, 3600 * SECOND, count))
    size = np.exp(random.uniform(np.log(16), np.log(4e6), count)).astype(np.int64)
    lifetime_ns = np.exp(random.uniform(np.log(1e3), np.log(3600e9), count)).astype(np.int64)
    is_alive = t_ns + lifetime_ns >= 3600 * SECOND
    interval = random.choice(np.array([262_144, 524_288]), count)
    types = np.array(["list", "dict", "bytes", "str", "app.Node", "numpy.ndarray", None], object)
    return {
        "t_ns": t_ns,
        "process": np.full(count, process, dtype=np.int32),
        "thread": random.choice(np.array(threads, dtype=np.int32), count),
        "stack": stacks[np.minimum(random.zipf(1.2, count), len(stacks)) - 1],
        "size_bytes": size,
        "usable_bytes": (size + 15) // 16 * 16,
        "interval_bytes": interval,
        "life_interval_bytes": interval,
        "lifetime_ns": Masked(lifetime_ns, is_alive),
        "free_stack": Masked(random.choice(stacks, count), is_alive),
        "survived": random.integers(0, 50, count),
        "at_exit": np.zeros(count, dtype=bool),
        "allocator": np.where(size <= 512, "pymalloc", np.where(size > 200_000, "mmap", "malloc")).tolist(),
        "python": size <= 200_000,
        "type": random.choice(types, count).tolist(),
        "maximum": random.random(count) < 0.01,
    }
