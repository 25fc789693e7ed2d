"""What happened when: processes, threads, waits, memory, garbage collections and marks, for formats with a time axis.

Every trace counts time from its own start; in a file of several they lie on top of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalene_trace.analyze import queries

from .text import plain

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Row = dict[str, Any]
#: Trace and thread id; None for the thread of samples that name none.
ThreadKey = tuple[int, int]


@dataclass(frozen=True)
class ExportedProcess:
    """A process. ``key``: its pid as text, with more behind it where several images or traces have it."""

    id: int
    pid: int
    key: str
    name: str
    start_ns: int
    end_ns: int | None
    series: dict[str, list[tuple[int, int]]]


@dataclass(frozen=True)
class ExportedThread:
    """A thread of a process; the first of a process is its main thread."""

    id: int
    tid: int
    name: str
    process: ExportedProcess
    is_main: bool
    start_ns: int
    end_ns: int | None


@dataclass(frozen=True)
class Moments:
    """What happened in one trace. Rows are those of the queries of the same names."""

    processes: dict[int, ExportedProcess]
    threads: dict[int, ExportedThread]
    waits: list[Row]
    collections: list[Row]
    marks: list[Row]


def read_moments(connection: DuckDBPyConnection, trace: int, several: bool) -> Moments:
    """The moments of the one opened trace, which is given the number ``trace``; ``several``: it is not the only one."""
    rows = queries.rows(connection, "process_list")
    processes = _processes(rows, _series(connection), f"trace {trace}: " if several else "")
    threads = _threads(queries.rows(connection, "thread_list"), processes)
    processes = {thread.process.id: thread.process for thread in threads.values()}
    waits = queries.rows(connection, "wait_list")
    return Moments(
        processes, threads, waits, queries.rows(connection, "collection_list"), queries.rows(connection, "mark_list")
    )


def _series(connection: DuckDBPyConnection) -> dict[int, dict[str, list[tuple[int, int]]]]:
    found: dict[int, dict[str, list[tuple[int, int]]]] = {}
    for process, t_ns, series, size_bytes in queries.run(connection, "process_memory"):
        found.setdefault(process, {}).setdefault(series, []).append((t_ns, size_bytes))
    return found


def _processes(
    rows: Sequence[Row], series: dict[int, dict[str, list[tuple[int, int]]]], prefix: str
) -> dict[int, ExportedProcess]:
    found: dict[int, ExportedProcess] = {}
    keys: set[str] = set()
    for row in rows:
        pid = row["pid"] or 0
        key = f"{prefix}{pid}" if f"{prefix}{pid}" not in keys else f"{prefix}{pid}.{row['process']}"
        keys.add(key)
        end_ns = None if row["end_s"] is None else _ns(row["end_s"])
        name = prefix + _name(row)
        found[row["process"]] = ExportedProcess(
            row["process"], pid, key, name, _ns(row["start_s"]), end_ns, series.get(row["process"], {})
        )
    return found


def _ns(time_s: float | None) -> int:
    return round((time_s or 0.0) * 1e9)


def _name(row: Row) -> str:
    """The last part of the program's path, and its first argument: python3 app.py."""
    words = row["command"] or [row["executable"] or "process"]
    return plain(" ".join(str(word).rpartition("/")[2] or str(word) for word in words[:2]))


def _threads(rows: Sequence[Row], processes: dict[int, ExportedProcess]) -> dict[int, ExportedThread]:
    found: dict[int, ExportedThread] = {}
    known: set[int] = set()
    for row in sorted(rows, key=lambda row: (row["process"], row["tid"] != _pid(processes, row), row["thread"])):
        if row["process"] in processes and row["thread"] is not None:
            process = processes[row["process"]]
            name = plain(row["name"]) if row["name"] else f"thread {row['thread']}"
            end_ns = None if row["end_s"] is None else _ns(row["end_s"])
            is_main, tid = process.id not in known, row["tid"] or row["thread"]
            known.add(process.id)
            found[row["thread"]] = ExportedThread(
                row["thread"], tid, name, process, is_main, _ns(row["start_s"]), end_ns
            )
    return found


def _pid(processes: dict[int, ExportedProcess], row: Row) -> int | None:
    return processes[row["process"]].pid if row["process"] in processes else None
