"""The table of threads, and the fields of results for waiting time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..results.base import Table, sorted_rows
from ..results.report import WAIT_WORDS, Waits
from ..results.threads import ThreadInfo
from ..results.trace import TraceInfo
from ..trace import queries
from ..trace.info import trace_info
from ..trace.selection import Selection
from ..trace.traces import REPORT_TABLES, Traces, open_traces

CLASSES = tuple(f"{name}_s" for name in WAIT_WORDS)
_CPU = ("python_s", "native_s", "unclassified_s", "system_s")
_KEPT = (
    "trace",
    "process",
    "thread",
    "tid",
    "name",
    "start_s",
    "end_s",
    "started_file",
    "started_line",
    "waits_in",
    "waits_in_guess",
    "python_name",
)

Row = dict[str, Any]


def wait_fields(rows: Iterable[Row], is_recorded: bool) -> Row:
    """The fields ``wait_s`` and ``waits`` for the sum of ``rows``; None if waits were not recorded."""
    if not is_recorded:
        return {"wait_s": None, "waits": Waits()}
    sums = dict.fromkeys(CLASSES, 0.0)
    for row in rows:
        for name in CLASSES:
            sums[name] += row[name]
    return {"wait_s": sum(sums.values()), "waits": Waits(**sums)}


def build_threads(
    paths: Sequence[Path], selection: Selection, query: Row, sort: str | None = None, limit: int | None = None
) -> Table:
    """Rows of :class:`ThreadInfo`: the threads of the traces at ``paths``.

    ``sort`` names a field of ThreadInfo. ``query`` is copied into the result. Raises the errors of :func:`open_traces`.
    """
    infos: list[TraceInfo] = []
    found: list[ThreadInfo] = []
    for index, path in enumerate(paths, start=1):
        with open_traces([path], selection, REPORT_TABLES) as traces:
            queries.ahead(traces.connection, "thread_list", "loss_list")
            infos.append(trace_info(traces))
            found += thread_infos(traces, infos[-1], index)
    found = sorted_rows(found, sort) if sort else found
    return Table("threads", query, infos, found[:limit])


def thread_infos(traces: Traces, info: TraceInfo, trace: int) -> list[ThreadInfo]:
    """The threads of the one opened trace; ``trace`` becomes the trace number of the rows."""
    return [_thread(row | {"trace": trace}, info.events) for row in queries.rows(traces.connection, "thread_list")]


def _thread(row: Row, events: dict[str, int | None]) -> ThreadInfo:
    has_cpu = events["cpu"] is not None
    cpu: Row = {name: row[name] if has_cpu else None for name in _CPU}
    cpu["cpu_s"] = sum(row[name] for name in _CPU) if has_cpu else None
    kept = {name: row[name] for name in _KEPT}
    return ThreadInfo(**kept, **cpu, **wait_fields([row], events["wait"] is not None))
