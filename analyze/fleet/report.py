"""Lines and functions of a fleet: sums over the selected traces, with their errors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from ..leaks.rule import laplace
from ..results.base import sorted_rows
from ..results.estimates import standard_error
from ..results.fleet import (
    Coverage,
    FleetFigures,
    FleetFunction,
    FleetLeak,
    FleetLine,
    FleetReport,
    FleetStack,
    FleetTotals,
)
from ..trace import queries
from .figures import HIGHEST
from .opening import Fleet

#: Fields that are no figures of their own, by the metric that they come from.
_ERRORS = {
    "cpu_error_s": "cpu_s",
    "growth_error_bytes": "growth_bytes",
    "alloc_error_bytes": "alloc_bytes",
    "live_at_peak_error_bytes": "live_at_peak_bytes",
    "live_at_end_error_bytes": "live_at_end_bytes",
    "cumulative_cpu_error_s": "cumulative_cpu_s",
    "cumulative_alloc_error_bytes": "cumulative_alloc_bytes",
}
_OTHER = {"cpu_percent", "cpu_s_per", "samples", "file", "line", "function", "first_line", "source", "traces", "hosts"}
#: The figures that rows can have.
METRICS = tuple(each.name for each in fields(FleetFunction) if each.name not in _ERRORS and each.name not in _OTHER)
#: Figures of rows that totals do not have, and the figure of totals that is there if they were recorded.
_TOTAL_OF = {
    "growth_bytes": "peak_bytes",
    "parallel_native_s": "cpu_s",
    "live_at_peak_bytes": "alloc_bytes",
    "device_live_at_peak_bytes": "device_alloc_bytes",
    **{name: name.removeprefix("cumulative_") for name in METRICS if name.startswith("cumulative_")},
    "cumulative_live_at_peak_bytes": "alloc_bytes",
    "cumulative_live_at_end_bytes": "alloc_bytes",
    "live_at_end_bytes": "alloc_bytes",
}
#: More rows than any fleet has.
_ALL = 2**31

Made = TypeVar("Made", bound=FleetFigures)


def build_report(
    fleet: Fleet,
    coverage: Coverage,
    name: str,
    query: dict[str, Any],
    sort: str | None = None,
    limit: int | None = None,
    by: str = "cpu_s",
) -> FleetReport:
    """The report over the selected traces: ``name`` is report or memory (rows of FleetLine), or functions (FleetFunction).

    ``sort``: the field that rows are sorted by; ``by``: the figure that decides without it. ``limit``: of rows.
    """
    scope, row = ("function", FleetFunction) if name == "functions" else ("line", FleetLine)
    if sort in METRICS:
        by, sort = sort, None
    connection = fleet.connection
    connection.raw.execute(
        f"CREATE OR REPLACE TEMP TABLE figure_parts AS {queries.body('figure_parts')}", {"scope": scope}
    )
    most = _ALL if sort is not None or limit is None else limit
    sums = _rows(queries.rows(connection, "figure_sums", by=by, most=most))
    having = queries.run(connection, "figure_hosts", scope=scope, by=by)
    counts = {tuple(key): (traces, hosts) for *key, traces, hosts in having}
    maker = _Maker({row["metric"]: row for row in queries.rows(connection, "total_sums")}, coverage)
    made = [
        maker.row(
            row,
            each.figures,
            **each.place,
            **dict(zip(("traces", "hosts"), counts.get(each.key, (0, 0)), strict=True)),
        )
        for each in sums
        if each.place["file"] is not None
    ]
    made = (sorted_rows(made, sort) if sort is not None else made)[:limit]
    no_line = next((each.figures for each in sums if each.place["file"] is None), {})
    rest = None if scope == "function" else maker.row(FleetLine, no_line)
    return FleetReport(name, query, coverage, by, maker.totals, made, rest)


class _Sum:
    """The sums of a line or function: figures by metric, as rows of figure_sums.sql."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        self.place = {
            "file": row["file"],
            "line": row["line"] if row["line"] is not None else row["first_line"],
            "function": row["function"],
            "first_line": row["first_line"],
            "source": row["text"],
        }
        self.key = tuple(row[name] for name in ("file", "function", "text", "distance"))
        self.figures: dict[str, Mapping[str, Any]] = {}


def _rows(rows: list[dict[str, Any]]) -> list[_Sum]:
    found: dict[int, _Sum] = {}
    for row in rows:
        found.setdefault(row["place"], _Sum(row)).figures[row["metric"]] = row
    return list(found.values())


class _Maker:
    """Makes rows of sums; holds what they are shares of."""

    def __init__(self, totals: Mapping[str, Mapping[str, Any]], coverage: Coverage) -> None:
        self._totals, self._coverage = totals, coverage
        self.cpu_s: float = totals["cpu_s"]["value"] if "cpu_s" in totals else 0.0
        variance = totals["cpu_s"]["variance"] if "cpu_s" in totals else 0.0
        # As in a report of all traces: three ticks of mean weight fall on what has none with 5 %.
        self._unseen_s = 3 * (variance or 0.0) / self.cpu_s if self.cpu_s else 0.0
        self.totals = self.row(FleetTotals, totals)

    def row(self, kind: type[Made], figures: Mapping[str, Mapping[str, Any]], **place: Any) -> Made:
        """A row of ``kind``. Figures that no trace has are None."""
        values: dict[str, Any] = dict(place)
        for each in fields(kind):
            name = each.name
            if kind is FleetTotals and (name in _ERRORS or (name in _TOTAL_OF and name not in figures)):
                values[name] = None
            elif name in _ERRORS:
                values[name] = self._error(name, figures)
            elif name not in _OTHER:
                values[name] = self._value(name, figures)
        values["samples"] = self._samples(figures)
        if values.get("cpu_s") is not None:
            values["cpu_percent"] = 100 * values["cpu_s"] / self.cpu_s if self.cpu_s else 0.0
            exposure = self._coverage.exposure
            exposed = figures["cpu_s"]["exposed"] if "cpu_s" in figures else 0.0
            values["cpu_s_per"] = exposed / exposure if exposure else None
        return kind(**values)

    def _value(self, name: str, figures: Mapping[str, Mapping[str, Any]]) -> float | int | None:
        if name not in figures:
            known = _TOTAL_OF.get(name, name) in self._totals and name not in HIGHEST
            return (0 if name.endswith("_bytes") else 0.0) if known else None
        value: float = figures[name]["highest" if name in HIGHEST else "value"]
        return round(value) if name.endswith("_bytes") else value

    def _samples(self, figures: Mapping[str, Mapping[str, Any]]) -> int | None:
        count = figures["cpu_s"].get("samples") if "cpu_s" in figures else None
        return None if count is None else int(count)

    def _error(self, name: str, figures: Mapping[str, Mapping[str, Any]]) -> float | int | None:
        metric = _ERRORS[name]
        if _TOTAL_OF.get(metric, metric) not in self._totals and metric not in figures:
            return None
        variance = _variance(figures, metric)
        if metric == "growth_bytes":
            variance = _variance(figures, "live_at_end_bytes") + _variance(self._totals, metric)
        if name.endswith("_s"):
            return standard_error(variance, self._unseen_s)
        which = "alloc_unseen_bytes" if "alloc" in metric else "live_unseen_bytes"
        own = (each[which]["highest"] for each in (figures, self._totals) if which in each)
        return round(standard_error(variance, max(own, default=0)))


def _variance(figures: Mapping[str, Mapping[str, Any]], metric: str) -> float:
    return (figures[metric]["variance"] or 0.0) if metric in figures else 0.0


def build_leaks(fleet: Fleet, sort: str | None = None, limit: int | None = None) -> list[FleetLeak]:
    """The lines that leak, those first that lose most in all traces together."""
    rows = [_leak(row) for row in queries.rows(fleet.connection, "leak_sums")]
    return (sorted_rows(rows, sort) if sort else rows)[:limit]


def _leak(row: Mapping[str, Any]) -> FleetLeak:
    mallocs, frees = int(row["mallocs"]), int(row["frees"])
    return FleetLeak(
        file=row["file"],
        line=row["line"],
        function=row["function"],
        first_line=row["first_line"],
        source=row["text"],
        traces=row["traces"],
        hosts=row["hosts"],
        probability=laplace(mallocs, frees),
        bytes_per_s=row["mean_bytes_per_s"],
        error_bytes_per_s=math.sqrt(row["rate_variance"] or 0.0),
        most_bytes_per_s=row["most_bytes_per_s"],
        live_at_end_bytes=round(row["live_at_end_bytes"]),
        live_at_end_error_bytes=round(math.sqrt(row["live_variance"])),
        mallocs=mallocs,
        frees=frees,
    )


def build_stacks(fleet: Fleet, limit: int | None = None) -> list[FleetStack]:
    """The stacks by CPU time."""
    return [FleetStack(**row) for row in queries.rows(fleet.connection, "stack_sums")[:limit]]


def user_files(fleet: Fleet) -> list[str]:
    """The files of the user's code in the selected traces: those that lines are of."""
    return [file for (file,) in queries.run(fleet.connection, "files_of_lines")]


def collapsed_lines(stacks: list[FleetStack]) -> Iterator[str]:
    """Lines of collapsed stacks, in microseconds; a stack that rounds to 0 is left out."""
    for each in stacks:
        if count := round(each.cpu_s * 1e6):
            yield f"{each.stack} {count}\n"
