"""What code with each label cost, as text."""

from __future__ import annotations

from collections.abc import Iterator

from ...analyze.results.base import Table
from ...analyze.results.labels import LabelRow
from ...formats.units import megabytes, seconds
from .recording import trace_lines
from .table import columns_text
from .text import Screen, clean, fit

_TITLES = ["CPU", "share", "wait", "suspended", "allocated", "kept", "copied", "GPU", "label"]
_FIELDS = (
    *("cpu_s", "cpu_percent", "wait_s", "suspended_s", "alloc_bytes", "live_at_end_bytes", "copy_bytes", "gpu_s"),
)
_LABEL_WIDTH = 60


def labels_text(table: Table, screen: Screen) -> Iterator[str]:
    """A row for each set of labels, or for each value of those that were asked for."""
    for trace in table.traces:
        yield from trace_lines(trace, screen)
        yield ""
    if not any(row.labels for row in table.rows):
        yield "No sample has a label. A program sets labels by `with scalene_trace.recorder.label(endpoint=...):`."
        yield ""
    shown = [place for place, name in enumerate(_FIELDS) if any(getattr(row, name) for row in table.rows)]
    names = table.query.get("by") or []
    rows = [[*(_cell(row, _FIELDS[place]) for place in shown), _label(row, names, screen)] for row in table.rows]
    titles = [*(_TITLES[place] for place in shown), _TITLES[-1]]
    yield from columns_text(titles, rows, screen, set(range(len(shown))))


def _cell(row: LabelRow, name: str) -> str:
    value = getattr(row, name)
    if name == "cpu_percent":
        return "" if value is None else f"{value:.1f} %"
    return seconds(value) if name.endswith("_s") else megabytes(value)


def _label(row: LabelRow, names: list[str], screen: Screen) -> str:
    if row.labels:
        return fit(clean(row.label), _LABEL_WIDTH, screen)
    return f"(no {' or '.join(map(clean, names))})" if names else "(no label)"
