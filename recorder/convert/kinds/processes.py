"""Makes the ``process`` and ``thread`` tables from records of starts and ends. A recording may have a hundred thousand of
each, so that everything but the texts works on whole columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ....formats.spool.layout import constants, names_of
from ....formats.trace.columns import Coded, Masked
from ....formats.trace.text import from_bytes
from ..keyed.by_key import ByKey, Ints, last_by_key
from ..keyed.rows_by_key import RowsByKey
from ..survey.lives import Lives
from ..survey.stacks import Stacks, python_version_text
from ..survey.starts import Starts
from .ends import SeenEnds

_C = constants()
_CAUSES, _ENDS, _ENGINES = names_of("CAUSE_"), names_of("END_"), names_of("ENGINE_")
#: Ends that are not in the spool.
_KILLED, _RUNNING = max(_ENDS) + 1, max(_ENDS) + 2
_END_NAMES = {number: {"quick": "quick_exit"}.get(name, name) for number, name in _ENDS.items()}
_END_NAMES |= {_KILLED: "killed", _RUNNING: "running"}
#: Names of columns in the trace, and their fields in the records of ends.
_PROCESS_END = {name: name for name in ("user_ns", "system_ns", "peak_rss_bytes")} | {
    "end_footprint_bytes": "footprint_bytes"
}
_THREAD_END = ("cpu_ns", "user_ns", "system_ns")

Records = npt.NDArray[np.void]


def process_table(lives: Lives, start_ns: int, seen_ends: SeenEnds, running: Ints) -> dict[str, Any]:
    """The ``process`` table, by time. ``start_ns``: CLOCK_MONOTONIC at the start of the recording; ``running``: processes that
    run on."""
    starts, seen, ends = lives.starts, lives.processes_seen, lives.process_ends
    rows = RowsByKey(np.concatenate([starts.process, seen.keys, ends.process.astype(np.int64)]))
    rows.fill("process", rows.keys, rows.keys.astype(np.int32))
    rows.fill("t_ns", seen.keys, _since(start_ns, seen.values))
    _fill_starts(rows, starts, start_ns)
    last = last_by_key(ends.process.astype(np.int64), np.arange(len(ends)))
    _fill_process_ends(rows, last.keys, ends.records[last.values], start_ns, seen_ends, running)
    return rows.table("process")


def thread_table(
    lives: Lives, start_ns: int, clocks: ByKey, seen_ends: SeenEnds, stacks: Stacks, names: Mapping[int, str]
) -> dict[str, Any]:
    """The ``thread`` table, by time. ``clocks``: each thread's CPU clock when its recording began; ``names``: texts by hash.
    The main thread of a process has the CPU time that only its parent has seen."""
    seen, last_clock = lives.threads_seen, lives.last_clock
    latest_first = np.argsort(seen.values, kind="stable")[::-1]  # what is filled last stays: the earliest
    keys, first_ns = seen.keys[latest_first], seen.values[latest_first]
    threads, process = keys & 0xFFFFFFFF, keys >> 32
    rows = RowsByKey(threads)
    rows.fill("process", threads, process.astype(np.int32))
    rows.fill("thread", rows.keys, rows.keys.astype(np.int32))
    rows.fill("t_ns", threads, _since(start_ns, first_ns))
    rows.fill("cpu_ns", rows.keys, np.zeros(len(rows.keys), np.int64))
    rows.fill("cpu_ns", last_clock.keys, np.maximum(last_clock.values - clocks.of(last_clock.keys), 0))
    _fill_thread_starts(rows, lives.thread_starts, start_ns, stacks)
    _fill_thread_ends(rows, ended_threads(lives), start_ns)
    _fill_python_names(rows, lives.thread_names, names)
    _fill_seen_ends(rows, seen_ends, threads, process, start_ns)
    return rows.table("process", "thread")


def _fill_starts(rows: RowsByKey, starts: Starts, start_ns: int) -> None:
    process, records = starts.process, starts.records
    parent, version = records["parent"].astype(np.int32), records["python_version"].astype(np.int64)
    rows.fill("t_ns", process, _since(start_ns, records["t_ns"]))
    rows.fill("pid", process, records["pid"].astype(np.int64))
    rows.fill("parent_pid", process, records["parent_pid"].astype(np.int64))
    rows.fill("parent", process, Masked(parent, parent == 0))
    rows.fill("stacks", process, records["stacks"] & _C["PYTHON_STACKS"] != 0)
    is_free_threaded = records["stacks"] & _C["PYTHON_FREE_THREADED"] != 0
    rows.fill("free_threaded", process, Masked(is_free_threaded, version == 0))
    rows.fill("start_footprint_bytes", process, records["footprint_bytes"])
    rows.fill_texts("cause", process, _coded(records["cause"], _CAUSES, "root"))
    versions, codes = np.unique(version, return_inverse=True)
    texts = [python_version_text(each) for each in versions.tolist()]
    rows.fill_texts("python_version", process, Coded(np.where(version == 0, -1, codes).astype(np.int32), texts))
    executables, commands = _texts(starts)
    rows.fill_texts("executable", process, executables)
    rows.fill_objects("command", process, commands)


def command_lines(starts: Starts) -> dict[int, list[str] | None]:
    """The command line of each process that was not forked. (A forked one has that of its parent.)"""
    rows = np.flatnonzero(starts.records["cause"] != _C["CAUSE_FORK"])
    _, commands = _texts(starts)
    return {int(starts.process[row]): commands[row] for row in rows.tolist()}


def _texts(starts: Starts) -> tuple[Coded, list[list[str] | None]]:
    """The executable and the command line of each process. Equal ones are made once."""
    codes: list[int] = []
    executables: list[str] = []
    commands: list[list[str] | None] = []
    known: dict[tuple[bytes, int, int], int] = {}
    sizes = zip(starts.records["exe_bytes"].tolist(), starts.records["argv_bytes"].tolist(), strict=True)
    for payload, (exe_bytes, argv_bytes) in zip(starts.payloads, sizes, strict=True):
        code = known.setdefault((payload, exe_bytes, argv_bytes), len(known))
        if code == len(executables):
            executables.append(from_bytes(payload[:exe_bytes].rstrip(b"\0")))
            commands.append(_arguments(payload[exe_bytes:][:argv_bytes]))
        codes.append(code)
    return Coded(np.array(codes, np.int32), executables), [commands[code] for code in codes]


def _arguments(data: bytes) -> list[str] | None:
    return [from_bytes(each) for each in data.removesuffix(b"\0").split(b"\0")] if data else None


def _fill_process_ends(
    rows: RowsByKey, process: Ints, records: Records, start_ns: int, seen: SeenEnds, running: Ints
) -> None:
    """Fills the ends from the last end record of each process (a failed exec cancels those before it), then from what was
    seen from outside."""
    ended = records["how"] != _C["END_NONE"]
    process, records = process[ended], records[ended]
    status = (records["exit_status"] & 255).astype(np.int64)
    rows.fill("end_ns", process, _since(start_ns, records["t_ns"]))
    rows.fill("exit_status", process, Masked(status, records["how"] != _C["END_QUICK"]))
    for name, field in _PROCESS_END.items():
        rows.fill(name, process, records[field])
    rows.fill("exit_status", seen.process, seen.status)
    for name, counted, late in zip(("user_ns", "system_ns"), seen.end_ns.T, seen.late_ns.T, strict=True):
        rows.fill(name, seen.process[seen.told], (counted + late)[seen.told])
    silent = np.isin(seen.process, process, invert=True)
    rows.fill("end_ns", seen.process[silent], _since(start_ns, seen.t_ns[silent]))
    measured = silent & (seen.peak_rss_bytes > 0)
    rows.fill("peak_rss_bytes", seen.process[measured], seen.peak_rss_bytes[measured])
    how = np.where(seen.killed[silent], _KILLED, _C["END_EXIT"])
    running = running[np.isin(running, seen.process, invert=True)]
    ends = np.concatenate([records["how"], how, np.full(len(running), _RUNNING)])
    rows.fill_texts("end", np.concatenate([process, seen.process[silent], running]), _coded(ends, _END_NAMES))


def _fill_thread_starts(rows: RowsByKey, records: Records, start_ns: int, stacks: Stacks) -> None:
    threads, starter = records["thread"].astype(np.int64), records["starter"].astype(np.int32)
    rows.fill("starter", threads, Masked(starter, starter == 0))
    rows.fill("start_stack", threads, stacks.id_of(records["stack"]))
    rows.fill("t_ns", threads, _since(start_ns, records["t_ns"]))
    rows.fill("tid", threads, records["tid"].astype(np.int64))
    rows.fill_texts("engine", threads, _coded(records["engine"], _ENGINES, "none"))


def ended_threads(lives: Lives) -> Records:
    """The end records of threads, without those that a failed exec of the thread has withdrawn later."""
    exits, ends = lives.process_ends.records, lives.thread_ends
    failed = exits[exits["how"] == _C["END_NONE"]]
    lived_on = last_by_key(failed["thread"].astype(np.int64), failed["t_ns"])
    found: Records = ends[ends["t_ns"] >= lived_on.of(ends["thread"].astype(np.int64))]
    return found


def _fill_thread_ends(rows: RowsByKey, records: Records, start_ns: int) -> None:
    threads = records["thread"].astype(np.int64)
    names, codes = np.unique(records["name"], return_inverse=True)
    rows.fill("end_ns", threads, _since(start_ns, records["t_ns"]))
    rows.fill_texts("name", threads, Coded(codes.astype(np.int32), [from_bytes(each) for each in names.tolist()]))
    for name in _THREAD_END:
        rows.fill(name, threads, records[name])


def _fill_python_names(rows: RowsByKey, records: Records, names: Mapping[int, str]) -> None:
    """The last name of each thread. Any process of the recording may have written the records, and a text may be lost."""
    threads = records["thread"].astype(np.int64)
    known = np.isin(threads, rows.keys) & np.isin(records["name"], np.array([*names], np.uint64))
    last = last_by_key(threads[known], records["name"][known])
    hashes, codes = np.unique(last.values, return_inverse=True)
    rows.fill_texts("python_name", last.keys, Coded(codes.astype(np.int32), [names[each] for each in hashes.tolist()]))


def _fill_seen_ends(rows: RowsByKey, seen: SeenEnds, threads: Ints, process: Ints, start_ns: int) -> None:
    """Adds the ends of processes that were seen from outside to their ``threads``; ``process``: that of each thread."""
    late = seen.late_ns.any(axis=1) & np.isin(seen.thread, rows.keys)
    rows.add("cpu_ns", seen.thread[late], seen.late_ns[late].sum(axis=1))
    ends = ByKey(seen.process, _since(start_ns, seen.t_ns))
    left = rows.unfilled("end_ns", threads) & np.isin(process, seen.process[~seen.told])
    rows.fill("end_ns", threads[left], ends.of(process[left]))


def _since(start_ns: int, times_ns: Ints) -> Ints:
    """Times of the trace. What was before its beginning (recorder/rotate/) counts at its beginning."""
    found: Ints = np.maximum(times_ns - start_ns, 0)
    return found


def _coded(numbers: npt.NDArray[Any], names: Mapping[int, str], default: str | None = None) -> Coded:
    """The name of each number; ``default`` (None = null) for a number without a name. ``names`` are in the order of their
    numbers."""
    codes = np.searchsorted(list(names), numbers)
    known = np.isin(numbers, list(names))
    texts = list(names.values())
    return Coded(np.where(known, codes, texts.index(default) if default else -1).astype(np.int32), texts)
