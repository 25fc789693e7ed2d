"""The process tree of traces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..results.base import Table, sorted_rows
from ..results.trace import ProcessInfo, TraceInfo
from ..trace import queries
from ..trace.info import process_infos, trace_info
from ..trace.traces import REPORT_TABLES, open_traces


def build_processes(
    paths: Sequence[Path], processes: Sequence[int], query: dict[str, Any], sort: str | None, limit: int | None
) -> Table:
    """Rows of :class:`ProcessInfo`: the process trees of the traces at ``paths``, each process after its parent.

    ``processes`` (ids) restricts the rows; empty means all. ``sort`` names a field of ProcessInfo and replaces the tree's
    order. ``query`` is copied into the result. Raises the errors of :func:`open_traces`.
    """
    infos: list[TraceInfo] = []
    rows: list[ProcessInfo] = []
    for index, path in enumerate(paths, start=1):
        with open_traces([path], None, REPORT_TABLES) as traces:
            queries.ahead(traces.connection, "process_list", "loss_list")
            infos.append(trace_info(traces))
            rows += process_infos(traces, index)
    wanted = [row for row in rows if not processes or row.process in processes]
    return Table("processes", query, infos, (sorted_rows(wanted, sort) if sort else wanted)[:limit])
