"""asyncio tasks: where they were suspended, by name, coroutine and line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..results.base import Table, sorted_rows
from ..results.threads import TaskRow
from ..results.trace import TraceInfo
from ..trace import queries
from ..trace.info import trace_info
from ..trace.selection import Selection
from ..trace.sources import source_line, sources_of
from ..trace.traces import REPORT_TABLES, open_traces

Row = dict[str, Any]


def build_tasks(
    paths: Sequence[Path], selection: Selection, query: Row, sort: str | None = None, limit: int | None = None
) -> Table:
    """Rows of :class:`TaskRow`: the suspended tasks of the traces at ``paths``.

    ``sort`` names a field of TaskRow, by default the suspended time. ``query`` is copied into the result. Raises the errors
    of :func:`open_traces`.
    """
    infos: list[TraceInfo] = []
    found: list[TaskRow] = []
    for index, path in enumerate(paths, start=1):
        with open_traces([path], selection, REPORT_TABLES) as traces:
            infos.append(trace_info(traces))
            rows = queries.rows(traces.connection, "task_figures")
            sources = sources_of(traces.connection, {row["file"] for row in rows if row["file"] is not None})
            found += [_task(row, index, sources) for row in rows]
    return Table("tasks", query, infos, sorted_rows(found, sort or "suspended_s")[:limit])


def _task(row: Row, trace: int, sources: dict[str, list[str]]) -> TaskRow:
    source = None if row["file"] is None else source_line(sources, row["file"], row["line"])
    return TaskRow(**row, trace=trace, source=source)
