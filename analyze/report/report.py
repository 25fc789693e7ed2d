"""Builds the report: the cost of every line and function over one trace or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..findings.find import find_findings
from ..findings.memory import Peaks
from ..leaks.leaks import merged_leaks
from ..results.base import sorted_rows
from ..results.estimates import at_most, most_at_end, standard_error, unseen_bytes
from ..results.findings import WaitingLine
from ..results.report import Function, Leak, Line, Package, Report, Totals
from ..results.trend import Point, classify
from ..trace.selection import Selection
from ..trace.sources import source_line
from ..trace.traces import Traces
from .cuda import device_fields, have_calls
from .libraries import callee_times, library_times
from .reduction import Key, Sums, function_key, line_key, reduce_traces, sums_of
from .row_index import Row
from .threads import wait_fields

#: A line whose growth changes by less than this share of the peak is called flat.
TREND_SHARE = 0.01

_CPU = ("ticks", "cpu_s", "python_s", "native_s", "system_s", "gc_s", "parallel_native_s", "unclassified_s")


def build_report(
    paths: Sequence[Path], selection: Selection, sort: str | None = None, limit: int | None = None
) -> Report:
    """The report over the traces at ``paths``; figures of several traces are added up, peaks are the highest.

    ``sort`` names a field of :class:`Line` or :class:`Function`; by default rows are sorted by CPU time, then growth.
    ``limit`` cuts lines and functions, not the totals. Raises the errors of :func:`open_traces`.
    """
    return _report(sums_of(paths, selection), query_of(selection, sort, limit), sort, limit)


def report_of(traces: Traces, selection: Selection) -> Report:
    """The same report over opened traces, which have the tables of REPORT_TABLES."""
    return _report(reduce_traces(traces, selection), query_of(selection), None, None)


def query_of(selection: Selection, sort: str | None = None, limit: int | None = None) -> dict[str, Any]:
    """The ``query`` part of the JSON: the options of the request."""
    return {
        "include": list(selection.include),
        "exclude": list(selection.exclude),
        "all": selection.all_files,
        "from_s": selection.from_s,
        "to_s": selection.to_s,
        "process": list(selection.processes),
        "thread": list(selection.threads),
        "mark": selection.mark,
        "label": list(selection.labels),
        "sort": sort,
        "limit": limit,
    }


def _report(sums: Sums, query: dict[str, Any], sort: str | None, limit: int | None) -> Report:
    report = figures_of(sums, query, sort)
    names = ("file", "line", "function", "cause", "library", "threads", "wait_s", "is_guess")
    waiting = [WaitingLine(*(row[name] for name in names)) for row in sums.waiting.values()]
    waiting.sort(key=lambda each: (-each.wait_s, each.file, each.line, each.cause))
    peaks = Peaks(sums.memory.all_peaks_bytes, sums.memory.low_rss_bytes) if sums.memory else Peaks()
    findings = find_findings(report, waiting, sums.window_s, peaks)
    return replace(report, lines=report.lines[:limit], functions=report.functions[:limit], findings=findings)


def figures_of(sums: Sums, query: dict[str, Any], sort: str | None = None) -> Report:
    """The report without findings, with all lines and functions. ``query``: of :func:`query_of`."""
    maker = _Maker(sums, query["from_s"] or 0.0)
    lines = [maker.line(key, row) for key, row in sums.lines.items()]
    functions = [maker.function(key, row) for key, row in sums.functions.items()]
    return Report(
        query=query,
        traces=sums.infos,
        totals=maker.totals,
        timeline=maker.timeline(),
        lines=_in_order(lines, sort),
        unattributed=maker.unattributed(sums.unattributed),
        leaks=maker.leaks if maker.has_allocations else None,
        functions=_in_order(functions, sort),
        outside=maker.outside() if maker.has_cpu else None,
        sources=sums.sources,
    )


class _Maker:
    """Builds results from sums of rows; holds the totals and which samplers were on."""

    def __init__(self, sums: Sums, start_s: float = 0.0) -> None:
        self._sums = sums
        self.has_cpu = sums.has("cpu")
        self.has_waits = sums.has("wait")
        self.has_tasks = sums.has("task")
        self.has_memory = sums.memory is not None
        self.has_allocations = sums.has("alloc")
        self.has_peak = sums.memory is not None and sums.memory.peak_bytes > 0
        peaks_bytes = sums.memory.all_peaks_bytes if sums.memory and self.has_peak else None
        self._most_at_end = most_at_end(peaks_bytes, (info.processes for info in sums.infos))
        self.has_copies = sums.has("copy")
        self.has_gpu = sums.has("gpu")
        self._has_calls = have_calls(info.events for info in sums.infos)
        self._window = start_s, start_s + sums.longest_s
        self.leaks = merged_leaks(sums.leaks, sums.sources)
        self.totals = self._totals()
        self._cpu_variance = sum(row["cpu_variance"] for row in (*sums.lines.values(), sums.unattributed))
        # Three ticks of mean weight: with 95 %, a line without a tick has taken less time (results/estimates.py).
        self._unseen_s = 3 * self._cpu_variance / self.totals.cpu_s if self.totals.cpu_s else 0.0
        keys = (lambda row: line_key(row) if row["file"] else (), function_key)
        self._libraries = library_times(list(sums.libraries.values()), keys)
        self._callees = callee_times(list(sums.callees.values()), keys)

    def _totals(self) -> Totals:
        """Sums over all samples, attributed or not; the highest of each peak."""
        rows = [*self._sums.lines.values(), self._sums.unattributed]
        names = ("cpu_s", "python_s", "native_s", "system_s", "gc_s", "unclassified_s")
        cpu: Row = {name: sum(row[name] for row in rows) if self.has_cpu else None for name in names}
        memory = self._sums.memory
        return Totals(
            **cpu,
            **wait_fields(rows, self.has_waits),
            suspended_s=sum(row["suspended_s"] for row in rows) if self.has_tasks else None,
            peak_bytes=memory.peak_bytes if memory else None,
            python_peak_bytes=memory.python_peak_bytes if memory else None,
            peak_rss_bytes=memory.peak_rss_bytes if memory else None,
            alloc_bytes=round(sum(row["alloc_bytes"] for row in rows)) if self.has_allocations else None,
            live_at_end_bytes=at_most(sum(row["live_at_end_bytes"] for row in rows), self._most_at_end)
            if self.has_allocations
            else None,
            copy_bytes=sum(row["copy_bytes"] for row in rows) if self.has_copies else None,
            gpu_s=sum(row["gpu_s"] for row in rows) if self.has_gpu else None,
            gpu_peak_bytes=self._sums.gpu_peak_bytes,
            **device_fields(rows, self._has_calls),
            device_peak_bytes=self._sums.device_peak_bytes,
        )

    def timeline(self) -> list[Point] | None:
        """The timeline of the trace with the highest peak."""
        return self._sums.memory.timeline() if self._sums.memory else None

    def line(self, key: Key, row: Row) -> Line:
        """The result of a row by line."""
        source = source_line(self._sums.sources, row["file"], row["line"])
        leaks = [leak for leak in self.leaks if (leak.file, leak.line) == key]
        names = (row["file"], row["line"], row["function"], row["first_line"], source)
        return Line(*names, **self._figures(row, key, leaks))

    def function(self, key: Key, row: Row) -> Function:
        """The result of a row by function."""
        source = source_line(self._sums.sources, row["file"], row["first_line"])
        leaks = [leak for leak in self.leaks if (leak.file, leak.function, leak.first_line) == key]
        names = (row["file"], row["first_line"], row["function"], row["first_line"], source)
        return Function(*names, **(self._figures(row, key, leaks) | self._cumulative(row)))

    def unattributed(self, row: Row) -> Line:
        """The result of the row of unattributed.sql."""
        return Line(None, None, None, None, **self._figures(row, (), []))

    def outside(self) -> list[Package]:
        """The packages that the unattributed CPU time and waiting time went to, those with the most CPU time first."""
        whole_s = self.totals.cpu_s or 1.0
        rows = sorted(
            self._sums.packages.values(), key=lambda row: (-row["cpu_s"], -(row["wait_s"] or 0.0), row["package"] or "")
        )
        return [
            Package(
                row["package"],
                row["is_standard"],
                row["cpu_s"],
                100 * row["cpu_s"] / whole_s,
                row["wait_s"] if self.has_waits else None,
            )
            for row in rows
            if row["cpu_s"] or (row["wait_s"] and self.has_waits)
        ]

    def _figures(self, row: Row, key: Key, leaks: list[Leak]) -> Row:
        figures: Row = wait_fields([row], self.has_waits)
        figures["suspended_s"] = row["suspended_s"] if self.has_tasks else None
        if self.has_cpu:
            figures |= {name: row[name] for name in _CPU}
            figures["native_libraries"] = self._libraries.get(key, [])
            figures["callees"] = self._callees.get(key, [])
            figures["cpu_percent"] = 100 * row["cpu_s"] / self.totals.cpu_s if self.totals.cpu_s else 0.0
            figures["cpu_error_s"] = standard_error(row["cpu_variance"], self._unseen_s)
            figures["cpu_percent_error"] = self._share_error(row)
        if self.has_memory:
            figures["growth_bytes"] = row["growth_bytes"]
            unseen = unseen_bytes(row["live_interval_bytes"])
            estimated = row["live_at_end_variance"] + self._sums.growth_variance
            figures["growth_error_bytes"] = round(standard_error(estimated, unseen))
            figures["trend"] = self._sums.trend(key)
            figures["trend_class"] = self._trend_class(figures["trend"])
        figures |= self._on_gpu(row) | self._on_devices(row)
        return figures | self._allocated(row) | self._leaking(leaks) | self._copied(row)

    def _share_error(self, row: Row) -> float:
        """Standard error of a share of the CPU time, in percent. Ticks fall on the row or on the others: with v and V, the
        sums of the squares of the row's ticks and of all, a share p of the time T has the variance
        ((1 - 2p) v + p² V) / T², which is p (1 - p) / n if all n ticks are alike. What no tick fell on is added."""
        whole_s = self.totals.cpu_s
        if not whole_s:
            return 0.0
        share = row["cpu_s"] / whole_s
        variance = (1 - 2 * share) * row["cpu_variance"] + share**2 * self._cpu_variance
        return 100 * standard_error(max(variance, 0.0), self._unseen_s) / whole_s

    def _allocated(self, row: Row) -> Row:
        if not self.has_allocations:
            return {}
        allocated = row["alloc_bytes"]
        return {
            "alloc_bytes": round(allocated),
            # The last digits of the sums depend on the order in which DuckDB's threads add them up.
            "python_alloc_fraction": round(row["alloc_python_bytes"] / allocated, 9) if allocated else None,
            "alloc_error_bytes": round(
                standard_error(row["alloc_variance"], unseen_bytes(row["alloc_interval_bytes"]))
            ),
            "alloc_unseen_bytes": unseen_bytes(row["alloc_interval_bytes"]),
            "live_unseen_bytes": (unseen := unseen_bytes(row["live_interval_bytes"])),
            "live_at_peak_bytes": round(row["live_at_peak_bytes"]) if self.has_peak else None,
            "live_at_peak_error_bytes": round(standard_error(row["live_at_peak_variance"], unseen))
            if self.has_peak
            else None,
            "live_at_end_bytes": round(row["live_at_end_bytes"]),
            "live_at_end_error_bytes": round(standard_error(row["live_at_end_variance"], unseen)),
        }

    def _cumulative(self, row: Row) -> Row:
        """What a function costs with all that it calls. Sums of floats, so that they may be a rounding below its own."""
        figures: Row = {"cumulative_wait_s": row["cumulative_wait_s"]} if self.has_waits else {}
        if self.has_cpu:
            figures["cumulative_cpu_s"] = row["cumulative_cpu_s"]
            figures["cumulative_cpu_error_s"] = standard_error(row["cumulative_cpu_variance"], self._unseen_s)
        if self.has_allocations:
            unseen = unseen_bytes(row["alloc_interval_bytes"]), unseen_bytes(row["live_interval_bytes"])
            for name, may_lack in (("alloc", unseen[0]), ("live_at_peak", unseen[1]), ("live_at_end", unseen[1])):
                if name == "live_at_peak" and not self.has_peak:
                    continue
                whole = max(row[f"cumulative_{name}_bytes"], row[f"{name}_bytes"])
                error = standard_error(row[f"cumulative_{name}_variance"], may_lack)
                figures |= {f"cumulative_{name}_bytes": round(whole), f"cumulative_{name}_error_bytes": round(error)}
        return figures

    def _copied(self, row: Row) -> Row:
        if not self.has_copies:
            return {}
        rate = row["copy_bytes"] / self._sums.window_s if self._sums.window_s else None
        return {"copy_bytes": row["copy_bytes"], "copy_bytes_per_s": rate}

    def _on_gpu(self, row: Row) -> Row:
        if not self.has_gpu:
            return {}
        share = 100 * row["gpu_s"] / self.totals.gpu_s if self.totals.gpu_s else 0.0
        names = ("gpu_s", "gpu_peak_bytes", "gpu_short")
        return {"gpu_percent": share} | {name: row[name] for name in names}

    def _on_devices(self, row: Row) -> Row:
        fields = device_fields([row], self._has_calls)
        return fields | {"device_live_at_peak_bytes": row["device_live_at_peak_bytes"]} if fields else {}

    def _leaking(self, leaks: list[Leak]) -> Row:
        """Highest probability and total rate of these leaks; 0 without leaks."""
        if not self.has_allocations:
            return {}
        rate = sum(leak.bytes_per_s for leak in leaks)
        return {"leak_probability": max((leak.probability for leak in leaks), default=0.0), "leak_bytes_per_s": rate}

    def _trend_class(self, trend: list[Point]) -> str | None:
        """The shape of a trend over the longest of the recordings; changes below 1 % of the peak count as flat."""
        if not trend:
            return None
        start_s, end_s = self._window
        return classify(trend, start_s, end_s, TREND_SHARE * (self.totals.peak_bytes or 0))


def _in_order(rows: list[Any], sort: str | None) -> list[Any]:
    is_field = sort is not None and all(hasattr(row, sort) for row in rows)  # lines have no cumulative_cpu_s
    return sorted_rows(rows, sort) if sort and is_field else sorted(rows, key=_default_order)


def _default_order(row: Line) -> tuple[Any, ...]:
    cumulative = row.cumulative_cpu_s if isinstance(row, Function) else 0
    names = (row.file or "", row.line or 0, row.function or "")
    costs = (row.cpu_s, cumulative, row.growth_bytes, row.alloc_bytes, row.wait_s, row.gpu_s)
    return *(-(cost or 0) for cost in costs), *names
