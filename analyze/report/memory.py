"""Allocations by line, function, type or allocator with their lifetimes, and the parts of the resident set."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..results.base import sorted_rows
from ..results.estimates import standard_error, unseen_bytes
from ..results.memory import MemoryPart, MemoryPeak, MemoryReport, MemoryRow, Reconciliation
from ..trace import queries
from ..trace.info import trace_info
from ..trace.selection import Selection
from ..trace.sources import Sources, source_line, sources_of
from ..trace.traces import REPORT_TABLES, open_traces

if TYPE_CHECKING:
    from ..trace.connection import Connection

Row = dict[str, Any]

#: The subjects that rows can be grouped by.
BY = ("line", "function", "type", "allocator")
#: Parts of a resident set: name, column of reconciliation.sql. The rest is called ``other``.
PARTS = (
    ("python_pools", "pool_bytes"),
    ("python_malloc", "python_bytes"),
    ("native_malloc", "native_bytes"),
    ("mappings", "mapped_bytes"),
    ("arenas_unused", "unused_bytes"),
    ("shared", "shared_bytes"),
)
_NAMES = ("file", "line", "function", "first_line", "type", "allocator", "family")


@dataclass(frozen=True)
class MemoryQuery:
    """How rows are grouped (``by``, one of :data:`BY`), and which allocations count as temporary.

    An allocation is temporary if its own line freed it, if it lived at most ``temporary_s`` seconds, or if it was freed before
    its process made more than ``temporary_allocations`` other allocations; None = no such limit.
    """

    by: str = "line"
    temporary_s: float | None = None
    temporary_allocations: int | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of memory_figures.sql."""
        limit_ns = None if self.temporary_s is None else round(self.temporary_s * 1e9)
        return {"by": self.by, "temporary_ns": limit_ns, "temporary_allocations": self.temporary_allocations}


def build_memory(
    paths: Sequence[Path],
    selection: Selection,
    asked: MemoryQuery,
    query: dict[str, Any],
    sort: str = "alloc_bytes",
    limit: int | None = None,
) -> MemoryReport:
    """The allocations of the traces at ``paths``, grouped as ``asked``.

    ``query`` is copied into the result. ``sort`` names a field of :class:`MemoryRow`; ``limit`` cuts the rows, not the totals.
    Raises the errors of :func:`open_traces`.
    """
    infos, rows, peaks, found, base_bytes = [], [], [], [], 0
    sources: dict[str, list[str]] = {}
    for trace, path in enumerate(paths, start=1):
        with open_traces([path], selection, REPORT_TABLES) as traces:
            infos.append(trace_info(traces))
            rows += queries.rows(traces.connection, "memory_figures", **asked.parameters)
            peaks += _peaks(traces.connection, trace)
            found += _reconciliations(traces.connection, trace)
            base_bytes = max(base_bytes, base_interval(traces.connection))
            sources = sources_of(traces.connection, {row["file"] for row in rows if row["file"]}) | sources
    make = _Maker(asked.by, sources, has_peak=bool(peaks), base_bytes=base_bytes)
    return MemoryReport(
        query=query,
        traces=infos,
        peaks=peaks,
        totals=make.sum_of(rows),
        memory=sorted_rows(make.rows(rows), sort)[:limit],
        unattributed=make.sum_of([row for row in rows if make.is_outside(row)]),
        imports=make.sum_of([row for row in rows if row["is_import"]]),
        reconciliation=found,
    )


class _Maker:
    """Builds results from rows of memory_figures.sql of one trace or several."""

    def __init__(self, by: str, sources: Sources, has_peak: bool, base_bytes: int) -> None:
        self._by = by
        self._base_bytes = base_bytes
        self._sources = sources
        self._has_peak = has_peak

    def is_outside(self, row: Row) -> bool:
        """Does the row count as unattributed because it has no line of the user's?"""
        return self._by in ("line", "function") and row["file"] is None

    def rows(self, rows: Iterable[Row]) -> list[MemoryRow]:
        """One result for each group, the largest first."""
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            if not self.is_outside(row):
                function = (
                    row["function"] if self._by == "function" else None
                )  # by line, the function is only a description
                names = (row[name] for name in ("file", "line", "type", "allocator", "family"))
                groups.setdefault((function, *names), []).append(row)
        made = [self._row(group) for group in groups.values()]
        return sorted(made, key=lambda row: (-row.alloc_bytes, row.file or "", row.line or 0, row.type or ""))

    def _row(self, group: list[Row]) -> MemoryRow:
        most = max(group, key=lambda row: row["alloc_bytes"] or 0)
        names = {name: most[name] for name in _NAMES}
        source = source_line(self._sources, most["file"], most["line"]) if most["file"] is not None else None
        return MemoryRow(**names, source=source, **self._figures(group))

    def sum_of(self, rows: list[Row]) -> MemoryRow:
        """The sum of ``rows``, without names."""
        return MemoryRow(**self._figures(rows))

    def _figures(self, rows: list[Row]) -> Row:
        sums = {name: sum(row[name] or 0 for row in rows) for name in _SUMMED}
        figures: Row = {name: round(sums[name]) for name in _ESTIMATES}
        unseen = {name: unseen_bytes(self._coarsest(rows, name)) for name in ("alloc", "live")}
        figures["allocations_error"] = round(math.sqrt(sums["allocations_variance"]))
        figures |= {
            error: round(standard_error(sums[variance], unseen[of])) for error, (variance, of) in _ERRORS.items()
        }
        figures |= {f"{name}_unseen_bytes": value for name, value in unseen.items()}
        if not self._has_peak:
            figures |= {"live_at_peak_bytes": None, "live_at_peak_error_bytes": None}
        for name in ("died_young", "survived"):
            known = [row[name] for row in rows if row[name] is not None]
            figures[name] = round(sum(known)) if known else None
        lifetime_s = sums["lifetimes_s"] / sums["freed"] if sums["freed"] else None
        return figures | {"samples": sums["samples"], "mean_lifetime_s": lifetime_s}

    def _coarsest(self, rows: list[Row], of: str) -> int:
        """The coarsest interval at which allocations of these rows were sampled."""
        intervals: list[int] = [row[f"{of}_interval_bytes"] for row in rows]
        return max([self._base_bytes, *intervals])


_ESTIMATES = (
    "alloc_bytes",
    "allocations",
    "live_at_peak_bytes",
    "live_at_end_bytes",
    "temporary_bytes",
    "temporary_allocations",
)
#: Field with the standard error of an estimate -> column with the variance, and whose intervals say what it lacks.
_ERRORS = {
    "alloc_error_bytes": ("alloc_variance", "alloc"),
    "live_at_peak_error_bytes": ("live_at_peak_variance", "live"),
    "live_at_end_error_bytes": ("live_at_end_variance", "live"),
    "temporary_error_bytes": ("temporary_variance", "live"),
}
_VARIANCES = ("allocations_variance", *(variance for variance, _ in _ERRORS.values()))
_SUMMED = (*_ESTIMATES, *_VARIANCES, "samples", "freed", "lifetimes_s")


def _peaks(connection: Connection, trace: int) -> list[MemoryPeak]:
    rows = connection.execute("SELECT t_ns / 1e9, footprint_bytes FROM memory_peaks").fetchall()
    return [MemoryPeak(trace, t_s, footprint_bytes) for t_s, footprint_bytes in rows]


def base_interval(connection: Connection) -> int:
    """The interval that holds for what has no sample."""
    rows = connection.execute("SELECT base_bytes FROM sampled_intervals").fetchall()
    return max((base_bytes for (base_bytes,) in rows), default=0)


def _reconciliations(connection: Connection, trace: int) -> list[Reconciliation]:
    return [_reconciliation(row, trace) for row in queries.rows(connection, "reconciliation")]


def _reconciliation(row: Row, trace: int) -> Reconciliation:
    whole = row["rss_bytes"]
    sizes = {name: row[column] for name, column in PARTS}
    sizes["other"] = whole - sum(size or 0 for size in sizes.values())
    parts = [
        MemoryPart(name, size, size / whole if size is not None and whole else None) for name, size in sizes.items()
    ]
    return Reconciliation(
        trace,
        row["moment"],
        row["t_s"],
        row["processes"],
        whole,
        parts,
        row["reserved_bytes"],
        row["shared_mapped_bytes"],
    )
