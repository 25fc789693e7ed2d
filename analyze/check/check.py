"""Checks recordings against a budget: every limit is compared with every row that it applies to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...formats.units import amount_text
from ..report.report import build_report
from ..results.base import Table
from ..results.report import Line, Report
from ..trace.selection import Selection
from ..user_sql.run import QueryRefused, run_sql
from .budget import FUNCTION_ONLY, Budget, BudgetError, Limit, Query, Rule
from .names import matches, names_in, problem

#: Relative tolerance: rounding errors of a sum must not exceed a limit that is just kept.
_ROUNDING = 1e-9

#: The field of the totals that is None if the figure of a limit of FUNCTION_ONLY was not recorded.
_TOTAL_FIELDS = {"total_cpu": "cpu_s", "total_wait": "wait_s", "total_alloc": "alloc_bytes", "total_peak": "peak_bytes"}

#: The figure of a place: name of the place, value (None = not recorded).
Found = tuple[str, float | None]


@dataclass(frozen=True)
class Check:
    """The result of one limit.

    ``kind``: total, file, function, line or sql. ``what``: the subject of the limit, for the reader. ``where``: the place with
    the highest figure; None = no samples. ``value`` and ``limit`` are in ``unit`` (percent, s, bytes, bytes/s or number);
    ``value`` None = the place is not in the traces. ``text``: a phrase for the reader. ``scope``: self (charged to the
    place itself) or total (with all that it calls; the whole program); None for sql.
    """

    kind: str
    what: str
    name: str
    where: str | None
    value: float | None
    limit: float
    unit: str
    passed: bool
    text: str
    scope: str | None = None


def build_check(paths: Sequence[Path], budget: Budget, selection: Selection, query: dict[str, Any]) -> Table:
    """Rows of :class:`Check`, failed ones first. Several traces are added up.

    Raises BudgetError if a limit needs a figure that was not recorded or a query fails, and the errors of ``open_traces``.
    """
    report = build_report(paths, selection)
    unknown = _unknown(budget, report, paths, selection)
    rows = [_checked(rule, limit, report, unknown.get(rule, "")) for rule in budget.rules for limit in rule.limits]
    rows += [row for each in budget.queries for row in _asked(each, paths, selection)]
    return Table("check", query, report.traces, sorted(rows, key=lambda row: row.passed), "checks")


def _unknown(budget: Budget, report: Report, paths: Sequence[Path], selection: Selection) -> dict[Rule, str]:
    """The rules whose names are not in the traces, with the reason. A misspelt name would keep every limit."""
    named = [
        rule for rule in budget.rules if not rule.optional and (rule.file or rule.function or rule.line is not None)
    ]
    missing = [rule for rule in named if not any(_matches(rule, row) for row in _rows(rule, report))]
    if not missing:
        return {}
    names = names_in(paths, selection)
    return {rule: problem(rule, names) for rule in missing}


def _checked(rule: Rule, limit: Limit, report: Report, reason: str) -> Check:
    if _is_missing(rule, limit, report):
        raise BudgetError(f"Cannot check the limit {limit.name} of [{rule.kind}]: the figure was not recorded.")
    found = [(where, value) for where, value in _figures(rule, limit, report) if value is not None]
    where, value = max(found, key=lambda each: each[1], default=(None, 0.0))
    passed = value <= limit.value * (1 + _ROUNDING)
    shown = f"{_shown(value, limit.unit)} of at most {limit.text}"
    about = f"{rule.kind} {where}" if where else _subject(rule)
    scope = "total" if rule.kind == "total" or limit.name in FUNCTION_ONLY else "self"
    name = f"{scope} {limit.name.removeprefix('total_')}"
    text = f"{about}: {name} {shown}" if found else f"{about}: {name} within {limit.text} (no sample there)"
    what, amount = _subject(rule), (limit.value, limit.unit)
    if reason:
        return Check(rule.kind, what, limit.name, None, None, *amount, False, f"{what}: {reason}", scope)
    return Check(rule.kind, what, limit.name, where, value, *amount, passed, text, scope)


def _subject(rule: Rule) -> str:
    """The subject of a rule, for the reader."""
    if rule.kind == "total":
        return "the program"
    place = f"{rule.file or 'any file'}{f':{rule.line}' if rule.line is not None else ''}"
    return f"{rule.kind} {rule.function} in {place}" if rule.function else f"{rule.kind} {place}"


def _is_missing(rule: Rule, limit: Limit, report: Report) -> bool:
    """Was the figure not recorded? The unattributed row is checked too, because there may be no other rows."""
    if rule.kind == "total":
        return _total(limit, report) is None
    whole = report.unattributed
    if limit.name in FUNCTION_ONLY:
        return getattr(report.totals, _TOTAL_FIELDS[limit.name]) is None
    if limit.name == "leak":
        return report.leaks is None
    if limit.name == "peak":
        return all(each.live_at_peak_bytes is None for each in (whole, *report.lines))
    return getattr(whole, limit.field) is None


def _figures(rule: Rule, limit: Limit, report: Report) -> Iterable[Found]:
    """The figure of each place that the rule applies to."""
    if rule.kind == "total":
        return [("", _total(limit, report))]
    matching = [row for row in _rows(rule, report) if _matches(rule, row)]
    if rule.kind == "file":
        return [(file, _sum(limit, [row for row in matching if row.file == file], report)) for file in _files(matching)]
    name: Callable[[Line], str] = _function_name if rule.kind == "function" else _line_name
    return [(name(row), _sum(limit, [row], report)) for row in matching]


def _rows(rule: Rule, report: Report) -> Sequence[Line]:
    return report.functions if rule.kind == "function" else report.lines


def _matches(rule: Rule, row: Line) -> bool:
    return matches(rule, row.file or "", row.function or "") and rule.line in (None, row.line)


def _files(rows: Iterable[Line]) -> list[str]:
    return list(dict.fromkeys(row.file for row in rows if row.file is not None))


def _line_name(row: Line) -> str:
    return f"{row.file}:{row.line}"


def _function_name(row: Line) -> str:
    return f"{row.function} in {row.file}"


def _sum(limit: Limit, rows: Sequence[Line], report: Report) -> float:
    value = float(sum(getattr(row, limit.field) or 0 for row in rows))
    return _share(value, report) if limit.unit == "percent" else value


def _share(value: float, report: Report) -> float:
    """A CPU time in percent of all CPU time."""
    return 100 * value / report.totals.cpu_s if report.totals.cpu_s else 0.0


def _total(limit: Limit, report: Report) -> float | None:
    totals = report.totals
    parts = (*report.lines, report.unattributed)
    special: dict[str, Callable[[], float | None]] = {
        "peak": lambda: totals.peak_bytes,
        "leak": lambda: None if report.leaks is None else sum(leak.bytes_per_s for leak in report.leaks),
        "wall": lambda: _sum_known([trace.wall_s for trace in report.traces]),
        "growth": lambda: _sum_known([row.growth_bytes for row in parts]),
    }
    if limit.name in special:
        return special[limit.name]()
    if limit.field == "copy_bytes_per_s":
        return _sum_known([row.copy_bytes_per_s for row in parts])
    value: float | None = getattr(totals, limit.field)
    return value if value is None or limit.unit != "percent" else _share(value, report)


def _sum_known(values: Iterable[float | None]) -> float | None:
    """The sum of the known values; None if there are none."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _shown(value: float, unit: str) -> str:
    if unit == "percent":
        return f"{value:.1f} %"
    return f"{amount_text(value, 's' if unit == 's' else 'bytes')}{'/s' if unit == 'bytes/s' else ''}"


def _asked(query: Query, paths: Sequence[Path], selection: Selection) -> list[Check]:
    value = _answer(query, paths, selection)
    rows = []
    for name, limit, passed in (
        ("min", query.least, query.least is None or value >= query.least),
        ("max", query.most, query.most is None or value <= query.most),
    ):
        if limit is not None:
            text = f"{query.name}: {value:g}, {'at least' if name == 'min' else 'at most'} {limit:g}"
            rows.append(Check("sql", query.name, name, None, value, limit, "number", passed, text))
    return rows


def _answer(query: Query, paths: Sequence[Path], selection: Selection) -> float:
    try:
        _, rows = run_sql(paths, query.query, selection, limit=2)
    except QueryRefused as error:
        raise BudgetError(f"Cannot run the query {query.name!r} of [[sql]]: {str(error).splitlines()[0]}") from error
    if len(rows) != 1 or len(rows[0]) != 1:
        raise BudgetError(
            f"The query {query.name!r} of [[sql]] must return one row with one column, which is a number."
        )
    try:
        value = float(rows[0][0])
    except (TypeError, ValueError):
        value = float("nan")
    if not abs(value) < float("inf"):
        raise BudgetError(f"The query {query.name!r} of [[sql]] must return a number, not {rows[0][0]!r}.")
    return value
