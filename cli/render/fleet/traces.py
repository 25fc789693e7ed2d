"""Text of what an indexer did, and of the list of traces."""

from __future__ import annotations

from collections.abc import Iterator

from ....analyze.results.fleet import FleetTable, FleetTrace, Indexed
from ....formats.units import counted, seconds
from ..table import columns_text, wrap
from ..text import Screen, clean
from .heading import fleet_heading


def traces_text(table: FleetTable, screen: Screen) -> Iterator[str]:
    """The text of ``fleet traces``."""
    yield from fleet_heading(table.fleet, screen)
    rows: list[FleetTrace] = table.rows
    if not rows:
        return
    yield ""
    if table.query["unreadable"]:
        for row in rows:
            yield from wrap(f"{clean(row.path)}: {clean(row.reason or '')}", screen.width, "    ")
        return
    metric = table.query["metric"]
    names = ["start (UTC)", "s", "recorded s", "host", "labels", "trace"]
    cells = [
        [
            (row.started_at or "")[:19].replace("T", " "),
            "" if row.wall_s is None else f"{row.wall_s:,.1f}",
            "" if row.recorded_s is None else f"{row.recorded_s:,.1f}",
            clean(row.host or ""),
            clean(" ".join(f"{name}={value}" for name, value in row.labels.items())),
            clean(row.path),
        ]
        for row in rows
    ]
    right = {1, 2}
    if metric is not None:
        names, right = [clean(metric), *names], {0, 2, 3}
        cells = [[f"{row.value or 0:,.3f}", *each] for row, each in zip(rows, cells, strict=True)]
    yield from columns_text(names, cells, screen, right)


def indexed_text(done: Indexed) -> Iterator[str]:
    """What an indexer did, in a few sentences."""
    text = f"{clean(done.folder)}: {counted(done.files, 'file', 'files')}, {done.known:,} known before."
    text += f" {counted(done.traces, 'trace', 'traces')} summarized in {seconds(done.seconds)}."
    if done.unreadable:
        text += f" {counted(done.unreadable, 'file', 'files')} could not be read: `scalene-analyze fleet traces --unreadable` says why, and --retry reads them again."
    if done.left:
        left = counted(done.left, "file is", "files are")
        text += f" {left} left for the next run: the system failed (no space, memory or permission), or they changed."
    yield text
