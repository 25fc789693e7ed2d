"""Reads the events of a trace in time, for formats with a time axis: waits, memory, GPUs, garbage collections, marks.

Times of each trace count from its own start, so several traces in one file overlap.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..trace import queries
from ..trace.info import settings
from .shared.text import plain

if TYPE_CHECKING:
    from ..trace.connection import Connection

Row = dict[str, Any]


@dataclass(frozen=True)
class ExportedProcess:
    """A process image. ``key``: its pid as text, with a suffix or prefix if several images or traces have the same pid."""

    id: int
    pid: int
    key: str
    name: str
    start_ns: int
    end_ns: int | None
    series: dict[str, list[tuple[int, int]]]


@dataclass(frozen=True)
class ExportedThread:
    """A thread of a process; the first thread of a process is its main thread."""

    id: int
    tid: int
    name: str
    process: ExportedProcess
    is_main: bool
    start_ns: int
    end_ns: int | None


@dataclass(frozen=True)
class GpuTrack:
    """The use of one device by one process; by the first process if the driver does not report processes.

    ``busy``: intervals (from ns, to ns, ns in which kernels ran) that do not overlap. ``memory``: (ns, bytes until the next).
    """

    process: ExportedProcess
    name: str
    about: str
    busy: list[tuple[int, int, int]] = field(default_factory=list)
    memory: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class TimedEvents:
    """The events of one trace. Rows are those of wait_list, collection_list, mark_list and, for ``calls``, device_list."""

    processes: dict[int, ExportedProcess]
    threads: dict[int, ExportedThread]
    waits: list[Row]
    collections: list[Row]
    marks: list[Row]
    gpus: list[GpuTrack]
    calls: list[Row]


def read_timed_events(connection: Connection, trace: int, several: bool) -> TimedEvents:
    """The events of the one opened trace, which gets the number ``trace``; ``several``: the file holds other traces too."""
    rows = queries.rows(connection, "process_list")
    processes = _processes(rows, _series(connection), f"trace {trace}: " if several else "")
    threads = _threads(queries.rows(connection, "thread_list"), processes)
    processes = {thread.process.id: thread.process for thread in threads.values()}
    return TimedEvents(
        processes,
        threads,
        waits=queries.rows(connection, "wait_list"),
        collections=queries.rows(connection, "collection_list"),
        marks=queries.rows(connection, "mark_list"),
        gpus=_gpus(connection, processes) if processes else [],
        calls=queries.rows(connection, "device_list"),
    )


def _gpus(connection: Connection, processes: dict[int, ExportedProcess]) -> list[GpuTrack]:
    """A track for each process and device with any nonzero sample."""
    rows, names = queries.rows(connection, "gpu_tracks"), _device_names(settings(connection).get("gpu_devices"))
    is_alone = len({row["device"] for row in rows}) < 2
    first = next(iter(processes.values()))
    found: dict[tuple[int | None, int], GpuTrack] = {}
    for row in rows:
        key = row["process"], row["device"]
        if key not in found:
            about = ", ".join(
                filter(None, [names.get(row["device"], ""), "" if row["process"] else "the whole device"])
            )
            name = "GPU" if is_alone else f"GPU {row['device']}"
            found[key] = GpuTrack(processes.get(row["process"], first), name, about)
        if row["busy_ns"] is None:
            found[key].memory.append((row["t_ns"], row["memory_bytes"]))
        else:
            _add_busy(found[key].busy, row)
    return [each for each in found.values() if any(busy for *_, busy in each.busy) or any(b for _, b in each.memory)]


def _add_busy(busy: list[tuple[int, int, int]], row: Row) -> None:
    """Adds an interval. One that overlaps the last begins at its end; one inside of the last is merged into it."""
    last_ns = busy[-1][1] if busy else row["t_ns"]
    if row["end_ns"] > last_ns:
        busy.append((max(row["t_ns"], last_ns), row["end_ns"], row["busy_ns"]))
    else:
        busy[-1] = (*busy[-1][:2], busy[-1][2] + row["busy_ns"])


def _device_names(setting: str | None) -> dict[int, str]:
    """Names of the devices by index."""
    try:
        devices = json.loads(setting or "[]")
        return {place: plain(str(each["name"])) for place, each in enumerate(devices)}
    except (ValueError, RecursionError, TypeError, KeyError):
        return {}


def _series(connection: Connection) -> dict[int, dict[str, list[tuple[int, int]]]]:
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
        if row["process"] is None:
            continue
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
    """The name of the program and its first argument without folders, such as ``python3 app.py``."""
    words = row["command"] or [row["executable"] or "process"]
    return plain(" ".join(str(word).rpartition("/")[2] or str(word) for word in words[:2]))


def _threads(rows: Sequence[Row], processes: dict[int, ExportedProcess]) -> dict[int, ExportedThread]:
    found: dict[int, ExportedThread] = {}
    known: set[int] = set()
    described = [row for row in rows if row["process"] in processes and row["thread"] is not None]
    for row in sorted(
        described, key=lambda row: (row["process"], row["tid"] != processes[row["process"]].pid, row["thread"])
    ):
        process = processes[row["process"]]
        given = row["python_name"] or row["name"]
        name = plain(given) if given else f"thread {row['thread']}"
        end_ns = None if row["end_s"] is None else _ns(row["end_s"])
        is_main, tid = process.id not in known, row["tid"] or row["thread"]
        known.add(process.id)
        found[row["thread"]] = ExportedThread(row["thread"], tid, name, process, is_main, _ns(row["start_s"]), end_ns)
    return found
