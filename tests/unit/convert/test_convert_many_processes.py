"""Recordings of very many processes: how much memory the conversion takes for each, and that nothing is left out."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pytest

from scalene_trace.formats.spool import reader
from scalene_trace.formats.spool.reader import Spool
from scalene_trace.recorder.convert.convert import Conversion, Outcome
from tests.support.conversion import facts, rows
from tests.support.spool_builder import START_MONO_NS, C, SpoolBuilder

MODULES = 60
ALLOCATIONS = 20


def forked(count: int, **first: int) -> SpoolBuilder:
    """A process that has loaded images, and ``count`` processes that are forked from it, allocate and end."""
    builder = SpoolBuilder().start(1)
    for number in range(MODULES):
        builder.module(0x10000 * (number + 1), 0x10000 * (number + 1) + 0x8000, f"/lib/{number}.so")
    for process in range(2, count + 2):
        builder.start(process, cause=C["CAUSE_FORK"], parent=1, t_ns=START_MONO_NS + 1000 * process)
        common = {"thread": 2 * process, "t_ns": START_MONO_NS + 1000 * process + 1}
        builder.add("thread_start", process, **common)
        builder.add("tick", process, pc=0x10004, cpu_ns=5, **common)
        for number in range(ALLOCATIONS):
            builder.alloc(number + 1, process=process, **common)
        builder.add("thread_end", process, **common)
        builder.add("process_end", process, how=C["END_EXIT"], **common)
    return builder


def peak_bytes(count: int, folder: Path) -> int:
    """The most memory that the conversion takes at once."""
    path = forked(count).write(folder / str(count) / "spool", drained=count)
    spool = Spool(path, 64)
    gc.collect()
    tracemalloc.start()
    try:
        conversion = Conversion(spool, facts(folder), Outcome(None, None, True, {}), folder / "rss")
        for tables in conversion.tables():
            del tables
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_process_that_has_ended_takes_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It took 24 kB: its parent's images, its open allocations, and a dict for each row. Batches of 64 chunks take the
    same memory in both recordings."""
    monkeypatch.setattr(reader, "_SHORT_BYTES", 0)
    peak_bytes(70, tmp_path)
    per_process = (peak_bytes(330, tmp_path) - peak_bytes(130, tmp_path)) / 200
    assert per_process < 450  # 250; and 580 when all tables of processes and threads were made at once


def test_no_row_of_a_process_that_has_ended_is_left_out(tmp_path: Path) -> None:
    path = forked(200).write(tmp_path / "recording" / "spool", drained=100)
    conversion = Conversion(Spool(path, 64), facts(tmp_path), Outcome(None, None, True, {}), tmp_path / "rss")
    found = list(conversion.tables())
    sampled = [tables for tables in found if "alloc" in tables]
    assert sum(len(tables["alloc"]["t_ns"]) for tables in sampled[:-1]) >= 64 * ALLOCATIONS, (
        "they wait for the last batch"
    )
    allocs = [row for tables in sampled for row in rows(tables["alloc"])]
    assert len(allocs) == 200 * ALLOCATIONS and all(row["lifetime_ns"] is None for row in allocs)
    ticks = [row for tables in sampled for row in rows(tables["cpu"])]
    assert [row["process"] for row in ticks] == list(range(2, 202))
    assert {(row["pc_module"], row["pc_offset"]) for row in ticks} == {(1, 4)}
    processes, threads = (rows(tables[kind]) for kind in ("process", "thread") for tables in found if kind in tables)
    assert [row["process"] for row in processes] == list(range(1, 202))
    assert {(row["cause"], row["parent"], row["end"]) for row in processes[1:]} == {("fork", 1, "exit")}
    assert [row["thread"] for row in threads] == list(range(4, 404, 2))
