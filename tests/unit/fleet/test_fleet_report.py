"""Rows of a fleet: which traces are in a figure, and what is one row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scalene_trace.analyze.fleet.opening import open_fleet
from scalene_trace.analyze.fleet.report import build_leaks, build_report
from scalene_trace.analyze.fleet.selection import coverage, select_traces, selection_of
from scalene_trace.analyze.fleet.traces import build_traces
from scalene_trace.analyze.results.fleet import FleetReport
from scalene_trace.cli.fleet.shared import notices
from scalene_trace.formats.fleet.schema import FIGURE_COLUMNS
from scalene_trace.formats.fleet.writer import Batch

HOUR_NS = 3_600_000_000_000
DAYS_NS = [1_795_867_200_000_000_000 + day * 24 * HOUR_NS for day in range(9)]


def figure(value: float, scope: str = "line", metric: str = "cpu_s", **place: Any) -> dict[str, Any]:
    named = {"scope": scope, "metric": metric, "value": value}
    where = {} if scope == "total" else {"file": "a.py", "line": 3, "function": "f", "first_line": 2, "text": "x()"}
    return named | where | place


def fleet_of(folder: Path, *traces: tuple[dict[str, Any], list[dict[str, Any]]]) -> Path:
    """A fleet of traces, each with columns of its own and its figures."""
    batch = Batch()
    for number, (columns, rows) in enumerate(traces):
        row = {"trace_id": f"{number:032x}", "path": f"{number}", "size_bytes": 1, "mtime_ns": 1, "host": f"h{number}"}
        row |= {"start_ns": DAYS_NS[number], "wall_ns": HOUR_NS, "labels": {}}
        figures = {column.name: [each.get(column.name) for each in rows] for column in FIGURE_COLUMNS}
        batch.add(row | columns, figures, 0o600)
    batch.publish(folder, "2026-11-28")
    return folder


def report_of(folder: Path, name: str = "report", per: str | None = None) -> FleetReport:
    with open_fleet(folder) as fleet:
        selection = selection_of(per=per)
        select_traces(fleet, selection)
        return build_report(fleet, coverage(fleet, selection), name, {})


def test_figures_per_exposure_are_of_the_traces_that_have_one(tmp_path: Path) -> None:
    both = [figure(10.0, "total"), figure(4.0)]
    fleet_of(tmp_path, ({"marks": {"request": 5}}, both), ({}, both), ({"wall_ns": None}, both))
    by_mark, by_hour = report_of(tmp_path, per="request"), report_of(tmp_path)
    assert (by_mark.totals.cpu_s, by_mark.totals.cpu_s_per, by_mark.rows[0].cpu_s_per) == (30.0, 2.0, 0.8)
    assert (by_hour.totals.cpu_s_per, by_hour.rows[0].cpu_s_per) == (10.0, 4.0)
    assert list(notices(by_mark.fleet)) == [
        "2 of 3 selected traces have no mark 'request': what is divided by it is of the others only."
    ]
    assert "1 of 3 selected traces has no known duration" in "".join(notices(by_hour.fleet))


def test_the_traces_of_a_line_are_as_many_as_its_row_says(tmp_path: Path) -> None:
    """In one trace, a lambda is the function of the line."""
    others = [({}, [figure(5.0), figure(1.0, metric="wait_s")])] * 2
    fleet_of(tmp_path, *others, ({}, [figure(9.0, function="f.<locals>.<lambda>", first_line=3)]))
    (row,) = report_of(tmp_path).rows
    with open_fleet(tmp_path) as fleet:
        select_traces(fleet, selection_of())
        behind = build_traces(fleet, file="a.py", line=3)
    assert (row.function, row.traces, row.cpu_s) == ("f", 3, 19.0)
    assert len(behind) == 3 and sum(each.value or 0.0 for each in behind) == 19.0


def test_functions_of_one_name_in_one_trace_are_in_one_trace(tmp_path: Path) -> None:
    getter = figure(1.0, "function", line=None, function="C.x", text="def x(self):", first_line=4)
    fleet_of(tmp_path, ({}, [getter, getter | {"first_line": 8}]), ({}, [getter]))
    (row,) = report_of(tmp_path, "functions").rows
    assert (row.traces, row.hosts, row.cpu_s) == (2, 2, 3.0)


def test_a_leak_that_moved_is_one_row(tmp_path: Path) -> None:
    def leak(rate: float, **place: Any) -> list[dict[str, Any]]:
        return [figure(rate, "leak", "bytes_per_s", **place), figure(8.0, "leak", "mallocs", **place)]

    fleet_of(tmp_path, ({}, leak(1.0)), ({}, leak(3.0, line=33, first_line=32)))
    with open_fleet(tmp_path) as fleet:
        select_traces(fleet, selection_of())
        (row,) = build_leaks(fleet)
    assert (row.line, row.first_line, row.traces, row.hosts, row.mallocs) == (33, 32, 2, 2, 16)
    assert (row.bytes_per_s, row.most_bytes_per_s) == (2.0, 3.0)
