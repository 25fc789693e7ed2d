"""What requests and jobs cost, by the labels that their code had."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..results.base import Table, sorted_rows
from ..results.labels import LabelRow
from ..results.trace import TraceInfo
from ..trace import queries
from ..trace.info import trace_info
from ..trace.selection import Selection
from ..trace.traces import REPORT_TABLES, open_traces

Row = dict[str, Any]
#: Labels that a mistyped one is compared with: comparing takes a third of a millisecond each.
_MOST_NAMES = 2000
#: The fields that a sampler fills, by the events that it records.
_FIELDS = {
    "cpu": ("cpu_s",),
    "wait": ("wait_s",),
    "task": ("suspended_s",),
    "alloc": ("alloc_bytes", "live_at_end_bytes"),
    "copy": ("copy_bytes",),
    "gpu": ("gpu_s",),
}


def build_labels(
    paths: Sequence[Path],
    selection: Selection,
    names: Sequence[str],
    query: Row,
    sort: str | None = None,
    limit: int | None = None,
) -> Table:
    """Rows of :class:`LabelRow`, over all traces at ``paths``; those without a label are one row. The sums over the rows are
    those of the report.

    ``names``: labels that rows differ in, empty = all; ``sort``: a field of LabelRow, by default the CPU time, then the
    waiting time. ``query`` is copied into the result. Raises the errors of :func:`open_traces`.
    """
    infos: list[TraceInfo] = []
    sums: dict[tuple[str, ...], Row] = {}
    for path in paths:
        with open_traces([path], selection, REPORT_TABLES) as traces:
            infos.append(trace_info(traces))
            for row in queries.rows(traces.connection, "label_list", names=list(names) or None):
                whole = sums.setdefault(tuple(row.pop("labels")), {})
                for name, value in row.items():
                    whole[name] = whole.get(name, 0) + value
    have = {event for info in infos for event, count in info.events.items() if count is not None}
    known = {name for event, fields in _FIELDS.items() if event in have for name in fields}
    all_s = sum(row["cpu_s"] for row in sums.values())
    rows = [_row(labels, row, known, all_s) for labels, row in sums.items() if any(row.values())]
    rows.sort(key=lambda row: (-(row.cpu_s or 0), -(row.wait_s or 0), row.labels))
    return Table("labels", query, infos, (sorted_rows(rows, sort) if sort else rows)[:limit])


class LabelError(Exception):
    """No trace has a label that is asked for; ``str()`` is a sentence or two."""


def check_labels(selection: Selection, paths: Sequence[Path]) -> None:
    """Raises LabelError for the first label of the selection that no stack in the traces has, and the errors of
    :func:`open_traces`."""
    if not selection.labels:
        return
    with open_traces(paths) as traces:
        rows = traces.connection.execute("SELECT DISTINCT name || '=' || value AS label FROM stack_labels").fetchall()
    known = {label for (label,) in rows}
    for label in selection.labels:
        if label not in known:
            where = "the trace" if len(paths) == 1 else "the traces"
            raise LabelError(f"There is no label {label!r} in {where}. {_advice(label, known)}")


def _advice(label: str, known: set[str]) -> str:
    if not known:
        return "No sample has a label: the program sets them with scalene_trace.recorder.label."
    close = difflib.get_close_matches(label, sorted(known)[:_MOST_NAMES], 1)
    return f"Did you mean {close[0]!r}?" if close else "`scalene-analyze labels` lists the labels."


def _row(labels: tuple[str, ...], row: Row, known: set[str], all_s: float) -> LabelRow:
    figures = {name: (row[name] if name in known else None) for fields in _FIELDS.values() for name in fields}
    for name, value in figures.items():
        if name.endswith("_bytes") and value is not None:
            figures[name] = round(value)
    percent = 100 * row["cpu_s"] / all_s if all_s and "cpu_s" in known else None
    return LabelRow(list(labels), cpu_percent=percent, **figures)
