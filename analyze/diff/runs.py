"""Reads one run for a comparison: the cost of its lines with variances. A trace is reduced to this, then closed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..report.cuda import DIRECTIONS, add_devices, have_calls
from ..report.gpu import add_gpu
from ..report.marked import placed
from ..report.reduction import recorded_s, window_s
from ..report.threads import CLASSES
from ..report.timeline import memory_over_time
from ..results.trace import TraceInfo
from ..trace import queries
from ..trace.info import NEVER, pauses_by_trace, settings, trace_info, whole_number
from ..trace.selection import Selection
from ..trace.sources import sources_of
from ..trace.traces import REPORT_TABLES, Traces, open_traces
from .match import Place, match_files, match_lines
from .measures import LINE_MEASURES
from .significance import LEAST_EFFECT, Figure, sum_of

if TYPE_CHECKING:
    from ..trace.connection import Connection

Row = dict[str, Any]
Key = tuple[str | None, int | None]

#: The settings of recordings that are on for a part of the time that the program does not choose.
CYCLES = frozenset({"sample", "cpu_budget"})

_TABLES = REPORT_TABLES | {"selected_waits"}


@dataclass(frozen=True)
class RunRow:
    """A line of one run, or a whole run; measures that were not recorded are absent from ``figures``."""

    function: str | None = None
    first_line: int | None = None
    figures: Mapping[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """A reduced trace. ``rows`` by place; ``outside``: samples without a line of the user's; ``window_s``: recorded time in the selection;
    ``recorded_share``: its share of the selection; ``has_cycle``: --sample or --cpu-budget has chosen that time."""

    info: TraceInfo
    window_s: float
    rows: dict[Place, RunRow]
    outside: RunRow
    totals: RunRow
    sources: dict[str, list[str]]
    recorded_share: float = 1.0
    has_cycle: bool = False

    @property
    def holds_anything(self) -> bool:
        """Is any total of the run other than 0?"""
        return any(figure.value for figure in self.totals.figures.values())


def have_other_shares(runs: Sequence[Sequence[Run]]) -> bool:
    """Were runs recorded for shares of their time that differ by more than 5 %?"""
    shares = [run.recorded_share for side in runs for run in side]
    return max(shares) > (1 + LEAST_EFFECT) * min(shares)


def read_run(path: Path, selection: Selection) -> Run:
    """Reads and reduces the trace at ``path``. Raises the errors of :func:`open_traces`, and MarkError."""
    selection = placed(selection, [path])
    with open_traces([path], selection, _TABLES) as traces:
        return _reduced(traces, selection)


def _reduced(traces: Traces, selection: Selection) -> Run:
    connection, info = traces.connection, trace_info(traces)
    variances = {(row["file"], row["line"]): row for row in queries.rows(connection, "line_variances")}
    gross = sum(row["growth_gross"] for row in variances.values())
    line_rows = queries.rows(connection, "lines")
    outside = queries.rows(connection, "unattributed")[0] | {"function": None, "first_line": None}
    add_gpu(connection, info.events["gpu"] is not None, line_rows, [], outside)
    add_devices(connection, have_calls([info.events]), line_rows, [], outside)
    rows = {(row["file"], row["line"]): row for row in line_rows}
    made = {key: _run_row(row, variances.get(key), gross, info) for key, row in rows.items()}
    rest = _run_row(outside, variances.get((None, None)), gross, info)
    length_s = window_s(info, selection)
    totals = _totals(connection, [*made.values(), rest], length_s, info, selection)
    files = {file for (file,) in connection.execute("SELECT file FROM user_files").fetchall()}
    sources = sources_of(connection, files)
    recorded = recorded_s(info, selection, pauses_by_trace(connection).get(1, NEVER))
    share = recorded / length_s if length_s > 0 else 1.0
    has_cycle = share < 1 and not CYCLES.isdisjoint(settings(connection))
    return Run(info, recorded, made, rest, totals, sources, share, has_cycle)


def _run_row(row: Row, variances: Row | None, gross: int, info: TraceInfo) -> RunRow:
    v = variances or dict.fromkeys(_VARIANCES, 0)
    wait_s = math.fsum(row[name] for name in CLASSES)
    share = v["growth_gross"] / gross if gross else 0.0
    # The footprint is exact. Chance decides which line a sample is charged to, and by how much it crosses the threshold.
    growth_variance = (1 - share) * v["growth_squares"] + v["growth_largest"] ** 2 / 12
    figures = {
        "cpu_s": Figure(row["cpu_s"], v["cpu_variance"]),
        **{name: Figure(row[name]) for name in ("python_s", "native_s", "unclassified_s", "system_s")},
        # Other programs cause the time spent runnable but off the CPU, so its standard deviation is as large as the time.
        "wait_s": Figure(wait_s, v["wait_variance"], row["runnable_s"] ** 2),
        "growth_bytes": Figure(row["growth_bytes"], growth_variance),
        "live_at_peak_bytes": Figure(v["live_at_peak_bytes"], v["live_at_peak_variance"]),
        "alloc_bytes": Figure(row["alloc_bytes"], v["alloc_variance"]),
        "copy_bytes": Figure(row["copy_bytes"], v["copy_variance"]),
        "gpu_s": Figure(row["gpu_s"], row["gpu_variance"]),
        "device_copy_bytes": Figure(sum(row[name] for name in DIRECTIONS)),
        "device_sync_s": Figure(row["device_sync_s"]),
    }
    known = {each.name for each in LINE_MEASURES if each.is_recorded(info)}
    return RunRow(row["function"], row["first_line"], {name: f for name, f in figures.items() if name in known})


_VARIANCES = (
    "cpu_variance",
    "wait_variance",
    "growth_squares",
    "growth_gross",
    "growth_largest",
    "alloc_variance",
    "live_at_peak_bytes",
    "live_at_peak_variance",
    "copy_variance",
)


def _totals(
    connection: Connection, rows: Sequence[RunRow], length_s: float, info: TraceInfo, selection: Selection
) -> RunRow:
    """Sums over all rows, the peak of the process tree, and the duration of the run."""
    figures = {"wall_s": Figure(length_s)} if info.wall_s is not None else {}
    for measure in LINE_MEASURES:
        parts = [row.figures[measure.name] for row in rows if measure.name in row.figures]
        if parts:
            figures[measure.name] = sum_of(parts)
    if info.events["memory"] is not None:
        grain = whole_number(settings(connection).get("memory_threshold_bytes")) or 0
        if connection.execute("SELECT count(*) FROM exact_traces").fetchall() != [(0,)]:
            grain = 0
        peak = memory_over_time(connection, selection)[0].peak_bytes
        figures["peak_bytes"] = Figure(peak, min(grain, peak) ** 2 / 12)
        figures["growth_bytes"] = Figure(figures["growth_bytes"].value, grain**2 / 12)
    return RunRow(figures=figures)


@dataclass(frozen=True)
class Version:
    """A version of the program: its lines with samples, and its source text."""

    rows: Mapping[Place, RunRow]
    sources: Mapping[str, list[str]]

    @property
    def files(self) -> set[str]:
        """The files with samples or source text."""
        return {file for file, _ in self.rows} | set(self.sources)


def version_of(runs: Sequence[Run]) -> Version:
    """The version that the runs of a side have in common. If the text of a file differs between runs, the first run's is used."""
    rows: dict[Place, RunRow] = {}
    sources: dict[str, list[str]] = {}
    for run in runs:
        rows, sources = run.rows | rows, run.sources | sources
    return Version(rows, sources)


def aligned(runs: Sequence[Run]) -> list[Run]:
    """The runs of a side, with the lines of later runs mapped to the source text of the first run that has the file.

    Lines that this text lacks are counted with the samples outside of all lines.
    """
    found: list[Run] = []
    sources: dict[str, list[str]] = {}
    for run in runs:
        if any(sources.get(file, text) != text for file, text in run.sources.items()):
            run = _as_in(run, version_of(found))
        sources = run.sources | sources
        found.append(run)
    return found


def _as_in(run: Run, version: Version) -> Run:
    """The run with its lines mapped to ``version``. Lines missing there move to ``outside``: their number is another line's."""
    pairs = same_places(Version(run.rows, run.sources), version)
    texts = run.sources.keys() & version.sources.keys()
    taken = set(pairs.values())
    lacking = {place for place in run.rows if place not in pairs and (place[0] in texts or place in taken)}
    rows = {pairs.get(place, place): row for place, row in run.rows.items() if place not in lacking}
    return replace(run, rows=rows, outside=_together([run.outside, *(run.rows[place] for place in sorted(lacking))]))


def _together(rows: Sequence[RunRow]) -> RunRow:
    """The sum of rows, without a function."""
    names = dict.fromkeys(name for row in rows for name in row.figures)
    return RunRow(figures={name: sum_of([row.figures[name] for row in rows if name in row.figures]) for name in names})


def same_places(before: Version, after: Version) -> dict[Place, Place]:
    """Place in ``before`` -> the same line in ``after``: by text if both traces hold it, else by function and line offset."""
    pairs = match_lines(before.sources, after.sources)
    files = match_files(before.files, after.files, (before.sources, after.sources))
    taken = set(pairs.values())
    starts = {(place[0], row.function): row.first_line for place, row in after.rows.items()}
    for (file, line), row in before.rows.items():
        other = files.get(file)
        if (file, line) in pairs or other is None or (file in before.sources and other in after.sources):
            continue
        start = starts.get((other, row.function))
        moved = start - row.first_line if start is not None and row.first_line is not None else 0
        if (other, line + moved) not in taken:
            pairs[file, line] = other, line + moved
            taken.add((other, line + moved))
    return pairs
