"""The text of ``fleet outliers``: how many hosts were compared, and those that differ."""

from __future__ import annotations

from collections.abc import Iterator

from ....analyze.diff.results import NOISE
from ....analyze.results.fleet_comparison import FleetOutliers, HostCompared
from ....formats.units import counted
from ..table import columns_text, place, wrap
from ..text import Screen, clean
from .heading import fleet_heading
from .trend import figure_text, title


def fleet_outliers_text(found: FleetOutliers, screen: Screen) -> Iterator[str]:
    """The lines of the text."""
    yield from fleet_heading(found.fleet, screen)
    for note in found.notes:
        yield from wrap(clean(note), screen.width)
    if not any(group.spread is not None for group in found.peers):
        return
    yield ""
    yield from (screen.paint(line, "bold") for line in wrap(_summary(found), screen.width))
    for group in found.peers:
        if group.spread is not None:
            yield f"  {clean(group.name) or 'all hosts'}: {counted(group.hosts, 'host', 'hosts')}, which differ by {100 * group.spread:.1f} %"
    odd = [row for row in found.rows if row.verdict != NOISE]
    if odd:
        yield ""
        yield from _table(found, odd, screen)


def _summary(found: FleetOutliers) -> str:
    odd = [row for row in found.rows if row.verdict != NOISE]
    hosts = len({row.host for row in odd if row.file is None})
    lines = sum(row.file is not None for row in odd)
    what = f"{title(found.metric)} per {clean(found.unit)}"
    if not odd:
        return f"No host differs from its peers in {what} by more than noise explains."
    parts = [counted(hosts, "host", "hosts") + " as a whole"] * bool(hosts) + [
        counted(lines, "line on a host", "lines on hosts")
    ] * bool(lines)
    return f"{' and '.join(parts)} differ from peers in {what}."


def _table(found: FleetOutliers, rows: list[HostCompared], screen: Screen) -> Iterator[str]:
    names = ["host", found.metric, "to peers", "range", "where"]
    cells = [
        [
            clean(row.host),
            figure_text(found.metric, row.value),
            f"{100 * (row.ratio - 1):+.1f} %" if row.ratio < 10 else f"x{row.ratio:,.1f}",
            f"{100 * (row.low - 1):+.0f} to {100 * (row.high - 1):+.0f} %",
            "all lines" if row.file is None else place(row.file, row.line, row.source or "", 60, screen),
        ]
        for row in rows
    ]
    yield from columns_text(names, cells, screen, {1, 2, 3})
    text = (
        f"{found.metric}: per {clean(found.unit)}; to peers: apart from what all lines of the host share, where it is a line; range:"
        f" 95 % interval; adjusted for {counted(found.tests, 'test', 'tests')}"
    )
    yield from (screen.paint(line, "dim") for line in wrap(text, screen.width))
