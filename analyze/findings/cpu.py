"""Findings about CPU time: the line, function or package that takes most of it, the kernel, garbage collections."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ..results.findings import Finding
from ..results.report import Function, Line, Package, Report
from .words import Places, fraction, located, share

#: With fewer samples, nothing is said about lines: a share of a half has a standard error of more than ten points.
LEAST_TICKS = 20
#: The least share of the CPU time, in percent, that is worth a sentence.
_LEAST_PERCENT = 10.0
#: A share is certain if its standard error is at most this part of it. Tables mark those that are not with ~.
_CERTAIN = 0.25
#: The least share of all CPU time, in percent, of the kernel and of garbage collections that no line explains.
_LEAST_SYSTEM, _LEAST_COLLECTED = 30.0, 10.0
#: The least share of native and kernel time of a line that is said to be in a native function.
_LEAST_CALLED = 0.25
_PARTS = {
    "system_s": ("system", "in the kernel"),
    "gc_s": ("gc", "in garbage collections"),
    "native_s": ("native", "in native code"),
    "python_s": ("python", "in Python code"),
    "unclassified_s": ("unclassified", "unclassified (Python or native)"),
}


def cpu_findings(report: Report, places: Places) -> list[Finding]:
    """The largest cost first; at most two, and one about kernel or garbage collections if these do not explain it."""
    total_s, ticks = report.totals.cpu_s, ticks_of(report)
    if total_s is None or not total_s or ticks < LEAST_TICKS:
        return []
    places_said = _places_said(report, places, ticks)
    return places_said + list(_rest(report, places, ticks, places_said))


def ticks_of(report: Report) -> int:
    """The number of CPU samples in the selection."""
    return sum(each.ticks or 0 for each in (*report.lines, report.unattributed))


def _places_said(report: Report, places: Places, ticks: int) -> list[Finding]:
    """Up to two lines; without such a line, the function; and the package outside the program's own code, if it is more."""
    lines = sorted(report.lines, key=lambda line: -(line.cpu_percent or 0.0))[:2]
    found = [line for line in lines if _is_certain(line)]
    rows: list[Line | Package] = [*found] or [*_function(report)]
    rows += _package(report, ticks)
    rows = sorted(rows, key=lambda row: -(row.cpu_percent or 0.0))[:2]
    said: list[Finding] = []
    for row in rows:
        is_next = bool(said)
        if isinstance(row, Package):
            said.append(_of_package(row, ticks, is_next, report.lacks_stacks))
        else:
            said.append(_of_line(row, places, is_next))
    return said


def _is_certain(row: Line) -> bool:
    value = row.cpu_percent or 0.0
    return value >= _LEAST_PERCENT and (row.cpu_percent_error or 0.0) <= _CERTAIN * value


def _function(report: Report) -> list[Function]:
    """The function with most CPU time in its own lines, if that is certain."""
    rows = sorted(report.functions, key=lambda row: -(row.cpu_percent or 0.0))[:1]
    return [row for row in rows if _is_certain(row)]


def _package(report: Report, ticks: int) -> list[Package]:
    rows = [row for row in (report.outside or [])[:1] if row.cpu_percent >= _LEAST_PERCENT]
    return [row for row in rows if _binomial(row.cpu_percent / 100, ticks) * 100 <= _CERTAIN * row.cpu_percent]


def _binomial(part: float, ticks: int) -> float:
    """The standard error of a share that was sampled by so many ticks."""
    return math.sqrt(max(part * (1 - part), 0.0) / ticks) if ticks else 1.0


def _of_line(row: Line, places: Places, is_next: bool) -> Finding:
    percent, error = row.cpu_percent or 0.0, row.cpu_percent_error
    is_function = isinstance(row, Function)
    where = f"the function {row.function} ({places.place(row.file, row.line)})" if is_function else places.said(row)
    name, part, text = _most_of(row)
    start = f"{share(percent, error)} of the CPU time is in" if not is_next else f"{share(percent, error)} is in"
    flat = ", which no single line explains" if is_function and not is_next else ""
    found = Finding(
        kind="function" if is_function else "line",
        text=f"{start} {where}{flat}{text}.",
        value=percent,
        unit="percent",
        error=error,
        name=name,
        part=part,
    )
    return located(found, row)


def _most_of(row: Line) -> tuple[str | None, float | None, str]:
    """Where half of the row's time or more went, the share, and the words; nothing if the ticks are too few to say."""
    if not row.cpu_s or (row.ticks or 0) < LEAST_TICKS:
        return None, None, ""
    for field, (name, where) in _PARTS.items():
        part = min((getattr(row, field) or 0.0) / row.cpu_s, 1.0)
        if part >= 0.5:
            called = _inside(row)
            if called and name in ("native", "python"):
                return name, part, f", {called}"
            return name, part, f", {fraction(part)} of it {where}"
    return None, None, ""


def _inside(row: Line) -> str:
    """The native function that the row called, or else the library, that took half of the row's time or more: "half of it in
    calls of …". The library in which the instructions were is another one if that function called it."""
    called = next(iter(row.callees or []), None)
    cpu_s = row.cpu_s or 0.0
    # A line of Python code only is in a function of the interpreter's own, which it does not call.
    is_native = (row.native_s or 0.0) + (row.system_s or 0.0) >= _LEAST_CALLED * cpu_s
    if called is not None and called.name is not None and called.cpu_s >= 0.5 * cpu_s and is_native:
        where = "the interpreter" if called.image == "interpreter" else called.library
        text = f"{fraction(min(called.cpu_s / cpu_s, 1.0))} of it in calls of {called.name}()" + (
            f" of {where}" if where else ""
        )
        library, part = _library(row)
        return text if library in (None, called.library) else f"{text}, and {part} in the library {library}"
    library, part = _library(row)
    return f"{part} of it in the library {library}" if library else ""


def _library(row: Line) -> tuple[str | None, str]:
    """The library, other than the interpreter, in which half of the row's time or more was spent, and its share in words."""
    first, cpu_s = next(iter(row.native_libraries or []), None), row.cpu_s or 0.0
    if first is None or first.image != "extension" or first.native_s < 0.5 * cpu_s:
        return None, ""
    return first.library, fraction(min(first.native_s / cpu_s, 1.0))


def _of_package(row: Package, ticks: int, is_next: bool, lacks_stacks: bool) -> Finding:
    error = 100 * _binomial(row.cpu_percent / 100, ticks)
    of_what = "" if is_next else " of the CPU time"
    if row.name is None and lacks_stacks:
        where = "without a Python stack: an interpreter's stacks could not be read"
    elif row.name is None:
        where = "outside Python code: threads of libraries, start and end of processes"
    else:
        where = (
            f"in {row.name}{' (standard library)' if row.is_standard else ''}, not called by a line of the program's"
        )
        if row.name == "importlib" and row.is_standard:
            where += ": it imports modules, and what compiled ones do then has no lines of its own"
    return Finding(
        kind="package",
        text=f"{share(row.cpu_percent, error)}{of_what} is {where}.",
        value=row.cpu_percent,
        unit="percent",
        error=error,
        name=row.name,
    )


def _rest(report: Report, places: Places, ticks: int, said: Sequence[Finding]) -> Iterator[Finding]:
    """Kernel and garbage collections, if the places that are said do not explain them."""
    total_s = report.totals.cpu_s or 0.0
    for field, least in (("system_s", _LEAST_SYSTEM), ("gc_s", _LEAST_COLLECTED)):
        whole_s = getattr(report.totals, field) or 0.0
        percent, (name, where) = 100 * whole_s / total_s, _PARTS[field]
        explained = any(each.name == name for each in said)
        error = 100 * _binomial(min(percent / 100, 1.0), ticks)
        if percent < least or explained or error > _CERTAIN * percent:
            continue
        top = max(report.lines, key=lambda line: getattr(line, field) or 0.0, default=None)
        part = (getattr(top, field) or 0.0) / whole_s if top else 0.0
        most = f", {fraction(part)} of that at {places.said(top)}" if top is not None and part >= 0.29 else ""
        of_what = "" if said else " of the CPU time"
        found = Finding(
            kind="part",
            text=f"{share(percent, error)}{of_what} is spent {where}{most}.",
            value=percent,
            unit="percent",
            error=error,
            name=name,
            part=part if most else None,
        )
        yield located(found, top if most else None)
        return
