"""A comparison as text: a summary, totals, the lines that changed, then lines that are unchanged, new or gone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from ...analyze.diff.measures import LINE_MEASURES, MEASURES, Measure
from ...analyze.diff.results import BETTER, NOT_TESTED, WORSE, Change, Changes, Diff, LineChange
from ...analyze.results.trace import TraceInfo
from ...formats.units import megabytes, seconds
from .recording import trace_lines
from .table import wrap
from .text import Screen, cells, clean, fit, fit_left

#: Most rows of each of the lists: neither better nor worse, new, gone.
_MOST_ROWS = 12
#: Least share of a total that a row of these lists has.
_LEAST_SHARE = 0.01
#: A range from here, in percent, to more than a factor of ten leaves open what changed.
_NO_LOWER = -90.0
_STYLES = {BETTER: "memory", WORSE: "system"}


def diff_text(diff: Diff, screen: Screen) -> Iterator[str]:
    """The lines of the text."""
    for name, traces in zip(("Before", "After"), diff.sides, strict=True):
        yield from _side(name, traces, screen)
    yield ""
    yield from (screen.paint(line, "bold") for line in wrap(plain(diff.summary, screen), screen.width))
    if diff.advice:
        yield from wrap(clean(diff.advice[0]), screen.width)
        yield from (f"  {clean(command)}" for command in diff.advice[1:])
    yield ""
    yield from _totals(diff, screen)
    yield from _changed(diff, screen)
    yield from _others(diff, screen)
    if diff.gates:
        yield ""
    for gate in diff.gates:
        yield screen.paint(fit(clean(gate.text), screen.width, screen), "error" if gate.failed else "bold")


def plain(text: str, screen: Screen) -> str:
    """A generated sentence, with the text of a trace in it made harmless."""
    return clean(text).replace("×", screen.glyph("×", "x"))


def _side(name: str, traces: Sequence[TraceInfo], screen: Screen) -> Iterator[str]:
    runs = f": {len(traces)} runs; the first" if len(traces) > 1 else ""
    yield screen.paint(name, "dim") + runs
    yield from trace_lines(traces[0], screen)
    others = sum(bool(trace.losses) for trace in traces[1:])
    if others:
        have = "has" if others == 1 else "have"
        yield f"  {others} of the other runs {have} losses too. `scalene-analyze info` lists them."


def _totals(diff: Diff, screen: Screen) -> Iterator[str]:
    titles = f"{'all of it':{_name_width(diff)}} {'before':>10} {'after':>10} {'change':>9} {'range':>18}  verdict"
    yield screen.paint(titles, "dim")
    for name, change in diff.totals.items():
        if change is not None and (change.before or change.after):
            yield _row(MEASURES[name], change, diff, screen)
    counts = diff.statistics.runs_before, diff.statistics.runs_after
    means = "means of the runs; " if max(counts) > 1 else ""
    rates = "figures are per second of the run; " if diff.query["per_second"] else ""
    tests = diff.statistics.tests
    count = "the tested figure" if tests == 1 else f"all {tests} tested figures"
    text = f"{means}{rates}range: 95 % interval of this figure alone; verdict: adjusted for {count}"
    yield from (screen.paint(line, "dim") for line in wrap(text, screen.width))


def _name_width(diff: Diff) -> int:
    """The width of the measures' names: the one long name is rare."""
    change = diff.totals.get("unclassified_s")
    return 14 if change is not None and (change.before or change.after) else 9


def _row(measure: Measure, change: Change, diff: Diff, screen: Screen) -> str:
    per_second = diff.query["per_second"]
    before, after = shown_figures(measure, change, per_second)
    name = f"  {measure.title}" if measure.part_of else measure.title
    moved, interval = shown_change(change, per_second), shown_range(change, screen, per_second)
    text = f"{name:{_name_width(diff)}} {before:>10} {after:>10} {moved:>9} {interval:>18}  "
    verdict = change.shown_verdict
    return (text + screen.paint(verdict, _STYLES.get(verdict, "dim"))).rstrip()


def shown_figures(measure: Measure, change: Change, per_second: bool) -> tuple[str, str]:
    """Both figures as text, "" where a side has none."""
    values = change.compared(per_second)
    ending = "/s" if per_second and not measure.is_level else ""
    texts = [(seconds(value) if measure.is_time else megabytes(value)) for value in values]
    return tuple(f"{text}{ending}" if text else "" for text in texts)  # type: ignore[return-value]


def shown_change(change: Change, per_second: bool = False) -> str:
    """The change in percent, from a factor of ten on as a factor; if there is no ratio, in bytes (per second)."""
    if change.difference is None:
        return ""
    if change.ratio is None:
        moved, unit = change.moved(per_second), "MB/s" if per_second else "MB"
        return f"{moved / 1e6:+,.1f} {unit}" if change.before and abs(moved) >= 1e4 else ""
    return f"{100 * (change.ratio - 1):+.1f} %" if change.ratio < 10 else f"x{change.ratio:,.1f}"


def shown_range(change: Change, screen: Screen, per_second: bool = False) -> str:
    """The interval in percent; of figures that may be negative, in bytes (per second)."""
    if change.low is None or change.high is None:
        return ""
    if change.ratio is None:
        is_bytes = change.low < 0 or change.high > 1e4
        unit = "MB/s" if per_second else "MB"
        digits = int(per_second and max(abs(change.low), abs(change.high)) < 1e7)
        ends = f"{change.low / 1e6:+,.{digits}f} to {change.high / 1e6:+,.{digits}f}"
        return f"{ends} {unit}" if is_bytes and change.before else ""
    low, high = (100 * (end - 1) for end in (change.low, change.high))
    if high >= 1000 and low <= _NO_LOWER:
        return "unknown"
    shown = round(100 * (change.ratio - 1), 1)  # rounded, the range must still hold the estimate
    low = low if round(low) <= shown else math.floor(shown)
    high = high if round(high) >= shown else math.ceil(shown)
    return f"{low:+.0f} to {high:+.0f} %" if high < 1000 else f"from {low:+.0f} %"


def judged_lines(diff: Diff) -> list[LineChange]:
    """The lines with a figure that is better or worse."""
    return [line for line in diff.lines if _judged(line)]


def _judged(line: LineChange) -> list[Measure]:
    return [each for each in LINE_MEASURES if line.change(each.name).verdict in (BETTER, WORSE)]


def nothing_changed(diff: Diff) -> str:
    """The sentence if no line was judged: lines of one version have no other one to be judged against."""
    has_rewritten = any(line.status in ("added", "removed") for line in diff.lines)
    which = "No line that is in both versions" if has_rewritten else "No line"
    return f"{which} changed by more than noise explains."


def _changed(diff: Diff, screen: Screen) -> Iterator[str]:
    lines = judged_lines(diff)
    yield ""
    if not lines:
        yield nothing_changed(diff)
        return
    yield screen.paint("Lines that changed", "bold")
    for line in lines:
        yield _place(line, screen)
        if line.status == "edited":
            was = clean((line.before_source or "").strip())
            yield screen.paint(fit(f"  {'was':{_name_width(diff)}} {was}", screen.width, screen), "dim")
        for measure in _judged(line):
            yield f"  {_row(measure, line.change(measure.name), diff, screen)}"
            if measure.name == "cpu_s":
                yield from _split(line, diff, screen)


def _split(line: LineChange, diff: Diff, screen: Screen) -> Iterator[str]:
    """Where the CPU time went, before and after."""
    parts = []
    for measure in LINE_MEASURES:
        change = line.change(measure.name)
        if measure.part_of == "cpu_s" and (change.before or change.after):
            before, after = shown_figures(measure, change, diff.query["per_second"])
            parts.append(f"{measure.title} {before} {screen.glyph('→', '->')} {after}")
    if len(parts) > 1:
        yield screen.paint(fit(f"  {'':{_name_width(diff)}} {', '.join(parts)}", screen.width, screen), "dim")


def _place(line: LineChange, screen: Screen) -> str:
    """Where the line is, where it was before if that is another place, and its text."""
    file, number = line.place
    place = f"{clean(file)}:{number}"
    is_moved = line.before_line is not None and line.file is not None
    if is_moved and (line.before_line != line.line or line.before_file != line.file):
        was = "" if line.before_file == line.file else f"{clean(line.before_file or '')}:"
        place += f" (was {was}{line.before_line})"
    if line.status == "edited":
        place += " edited"
    place = fit_left(place, screen.width * 3 // 5, screen)
    source = line.source if line.source is not None else line.before_source
    text = fit(clean((source or "").strip()), screen.width - cells(place) - 2, screen)
    return f"{screen.paint(place, 'bold')}  {text}".rstrip()


def _others(diff: Diff, screen: Screen) -> Iterator[str]:
    """The largest of the lines that are neither better nor worse, new, or gone."""
    same = [line for line in diff.lines if line.status in ("same", "edited") and not _judged(line)]
    yield from _list("Neither better nor worse", worth_showing(same, diff.totals), diff, screen)
    for status, title in (("added", "New lines"), ("removed", "Removed lines")):
        lines = [line for line in diff.lines if line.status == status]
        yield from _list(title, worth_showing(lines, diff.totals), diff, screen)


def worth_showing(lines: Iterable[LineChange], totals: Changes) -> list[LineChange]:
    """The lines with 1 % of a total on either side, the largest differences first (as they are)."""
    return [line for line in lines if main_measure(line, totals) is not None]


def main_measure(line: LineChange, totals: Changes) -> Measure | None:
    """The first measure of which the line has 1 % of the total; None = there is none."""
    for measure in LINE_MEASURES:
        change = line.change(measure.name)
        total = totals.get(measure.name) or (totals.get("peak_bytes") if measure.name == "live_at_peak_bytes" else None)
        if total is None or measure.part_of:
            continue
        if any(
            part and whole and abs(part) >= _LEAST_SHARE * abs(whole)
            for part, whole in ((change.before, total.before), (change.after, total.after))
        ):
            return measure
    return None


def _list(title: str, lines: list[LineChange], diff: Diff, screen: Screen) -> Iterator[str]:
    if not lines:
        return
    per_second = diff.query["per_second"]
    yield ""
    yield screen.paint(title, "bold") + (f"  the first {_MOST_ROWS} of {len(lines)}" if len(lines) > _MOST_ROWS else "")
    for line in lines[:_MOST_ROWS]:
        measure = main_measure(line, diff.totals) or LINE_MEASURES[0]
        change = line.change(measure.name)
        before, after = shown_figures(measure, change, per_second)
        columns = f"  {measure.title:9} {before:>10} {after:>10} "
        if change.difference is not None:
            tested = "" if change.shown_verdict != NOT_TESTED else f"{NOT_TESTED}  "
            columns += f"{shown_change(change, per_second):>9} {shown_range(change, screen, per_second):>18}  {tested}"
        file, number = line.place
        place = fit_left(f"{clean(file)}:{number}", max((screen.width - cells(columns)) * 3 // 5, 12), screen)
        source = line.source if line.source is not None else line.before_source
        text = fit(clean((source or "").strip()), screen.width - cells(columns) - cells(place) - 2, screen)
        yield f"{columns}{place}  {screen.paint(text, 'dim')}".rstrip()
