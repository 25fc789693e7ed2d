"""The text of ``fleet diff``: a summary, totals, the lines that changed, then lines that are unchanged, new or gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ....analyze.diff.measures import MEASURES
from ....analyze.diff.results import BETTER, NOT_TESTED, WORSE
from ....analyze.results.fleet import Coverage
from ....analyze.results.fleet_comparison import FleetChange, FleetDiff, FleetLineChange
from ....formats.units import counted, megabytes, seconds
from ..table import wrap
from ..text import Screen, cells, clean, fit, fit_left, not_shown
from .heading import fleet_heading

#: Most rows of each of the lists: neither better nor worse, new, gone.
_MOST_ROWS = 12
_LEAST_SHARE = 0.01
_STYLES = {BETTER: "memory", WORSE: "system"}
_WIDTH = 14
#: The names of metrics in tables.
TITLES = {name: each.title for name, each in MEASURES.items()} | {"live_at_end_bytes": "at end"}


def fleet_diff_text(diff: FleetDiff, screen: Screen) -> Iterator[str]:
    """The lines of the text."""
    yield from fleet_heading(diff.fleet, screen)
    for name, side in zip(("Before", "After"), diff.sides, strict=True):
        yield f"{screen.paint(f'{name:6}', 'dim')} {_side(side)}"
    yield ""
    yield from (screen.paint(line, "bold") for line in wrap(clean(diff.summary), screen.width))
    if diff.totals:
        yield ""
        yield from _totals(diff, screen)
        yield from _changed(diff, screen)
        yield from _others(diff, screen)


def _side(side: Coverage) -> str:
    exposure = side.exposure or 0.0
    unit = "hours" if side.per is None else f"marks {clean(side.per)}"
    what = f"{exposure:,.2f} {unit}" if side.per is None else f"{exposure:,.0f} {unit}"
    days = f", {side.first_day} to {side.last_day}" if side.first_day else ""
    return f"{counted(side.traces, 'trace', 'traces')}, {counted(side.hosts, 'host', 'hosts')}, {what}{days}"


def _totals(diff: FleetDiff, screen: Screen) -> Iterator[str]:
    names = f"{'all of it':{_WIDTH}} {'before':>10} {'after':>10} {'change':>9} {'range':>16} {'hosts':>11}  verdict"
    yield screen.paint(names, "dim")
    for metric, change in diff.totals.items():
        yield _row(metric, change, screen)
        outside = diff.unattributed.get(metric)
        if outside is not None and _matters(outside, change):
            yield _row(metric, outside, screen, "  on no line")
    left = diff.statistics.left_out
    unknown = f" {not_shown(left, 'trace', 'traces')}, of unknown host or length." if left else ""
    text = (
        f"Figures are per {clean(diff.unit)}, of memory that is held per trace. Hosts: before, after (on both). Range: 95 % interval of this change alone;"
        f" verdict: adjusted for {counted(diff.statistics.tests, 'tested figure', 'tested figures')}. Changes of lines are"
        f" apart from what all lines of a host share.{unknown}"
    )
    yield from (screen.paint(line, "dim") for line in wrap(text, screen.width))


def _row(metric: str, change: FleetChange, screen: Screen, name: str = "") -> str:
    before, after = (_figure(metric, value) for value in (change.before, change.after))
    title = name or TITLES.get(metric, metric)
    verdict = change.verdict or (NOT_TESTED if change.ratio is not None else "")
    text = f"{title:{_WIDTH}} {before:>10} {after:>10} {_change(change):>9} {_range(change):>16} {_hosts(change):>11}  "
    return (text + screen.paint(verdict, _STYLES.get(verdict, "dim"))).rstrip()


def _figure(metric: str, value: float | None) -> str:
    if metric.endswith("_s"):
        return seconds(value)
    return megabytes(value) if metric.endswith("_bytes") else f"{value or 0:,.1f}"


def _change(change: FleetChange) -> str:
    if change.ratio is None:
        return ""
    return f"{100 * (change.ratio - 1):+.1f} %" if change.ratio < 10 else f"x{change.ratio:,.1f}"


def _range(change: FleetChange) -> str:
    if change.low is None or change.high is None:
        return ""
    low, high = (100 * (end - 1) for end in (change.low, change.high))
    return (
        f"{low:+.1f} to {high:+.1f} %" if high < 100 else f"{low:+.0f} to {high:+.0f} %" if high < 1000 else "unknown"
    )


def _hosts(change: FleetChange) -> str:
    pairs = f" ({change.pairs})" if change.pairs else ""
    return f"{change.hosts_before}, {change.hosts_after}{pairs}"


def _matters(change: FleetChange, total: FleetChange | None) -> bool:
    """Has the row 1 % of the total on either side?"""
    if total is None:
        return False
    pairs = ((change.before, total.before), (change.after, total.after))
    return any(part and whole and part >= _LEAST_SHARE * whole for part, whole in pairs)


def _judged(line: FleetLineChange) -> list[str]:
    return [metric for metric, change in line.changes.items() if change.verdict in (BETTER, WORSE)]


def _changed(diff: FleetDiff, screen: Screen) -> Iterator[str]:
    lines = [line for line in diff.lines if _judged(line)]
    if not lines:
        return
    yield ""
    yield screen.paint("Lines that changed", "bold")
    for line in lines:
        yield _place(line, screen)
        if line.status == "edited":
            was = f"  {'was':{_WIDTH}} {clean(line.before_source or '')}"
            yield screen.paint(fit(was, screen.width, screen), "dim")
        for metric in _judged(line):
            yield f"  {_row(metric, line.changes[metric], screen)}"


def _place(line: FleetLineChange, screen: Screen) -> str:
    place = f"{clean(line.file or line.before_file or '')}:{line.line or line.before_line}"
    if line.before_line is not None and line.line is not None and line.before_line != line.line:
        place += f" (was {line.before_line})"
    if line.status == "edited":
        place += " edited"
    place = fit_left(place, screen.width * 3 // 5, screen)
    text = fit(clean(line.source or line.before_source or ""), screen.width - cells(place) - 2, screen)
    return f"{screen.paint(place, 'bold')}  {text}".rstrip()


def _others(diff: FleetDiff, screen: Screen) -> Iterator[str]:
    """The largest of the lines that are neither better nor worse, new, or gone."""
    same = [line for line in diff.lines if line.status in ("same", "edited") and not _judged(line)]
    yield from _list("Neither better nor worse", same, diff, screen)
    for status, title in (("added", "New lines"), ("removed", "Removed lines")):
        yield from _list(title, [line for line in diff.lines if line.status == status], diff, screen)
    small = max(diff.statistics.other_lines.values(), default=0)
    if small:
        yield ""
        yield f"{not_shown(small, 'line', 'lines')}: less than a thousandth of the cost each."


def _list(title: str, lines: Iterable[FleetLineChange], diff: FleetDiff, screen: Screen) -> Iterator[str]:
    rows = [(line, metric) for line in lines if (metric := _main_metric(line, diff)) is not None]
    if not rows:
        return
    yield ""
    yield screen.paint(title, "bold") + (f"  the first {_MOST_ROWS} of {len(rows)}" if len(rows) > _MOST_ROWS else "")
    yield from _rows(rows[:_MOST_ROWS], screen)


def _rows(rows: Sequence[tuple[FleetLineChange, str]], screen: Screen) -> Iterator[str]:
    for line, metric in rows:
        text = "  " + _row(metric, line.changes[metric], screen) + "  "
        room = max(screen.width - cells(text), 12)
        place = fit_left(
            f"{clean(line.file or line.before_file or '')}:{line.line or line.before_line}", room * 3 // 5, screen
        )
        source = fit(clean(line.source or line.before_source or ""), room - cells(place) - 2, screen)
        yield f"{text}{place}  {screen.paint(source, 'dim')}".rstrip()


def _main_metric(line: FleetLineChange, diff: FleetDiff) -> str | None:
    """The first metric of which the line has 1 % of the total; None = there is none."""
    return next((m for m, change in line.changes.items() if _matters(change, diff.totals.get(m))), None)
