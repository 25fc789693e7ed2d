"""The text of ``fleet trend``: the points of all costs, and what changed when."""

from __future__ import annotations

from collections.abc import Iterator

from ....analyze.results.fleet_comparison import FleetTrend, TrendSeries, TrendStep
from ....formats.units import megabytes, seconds
from ..table import columns_text, wrap
from ..text import Screen, cells, clean, fit, fit_left
from .diff import TITLES
from .heading import fleet_heading

_BAR = 24


def fleet_trend_text(trend: FleetTrend, screen: Screen) -> Iterator[str]:
    """The lines of the text."""
    yield from fleet_heading(trend.fleet, screen)
    for note in trend.notes:
        yield from wrap(clean(note), screen.width)
    if trend.total is None:
        return
    yield ""
    if trend.total.spread is not None:
        yield from _summary(trend, trend.total, screen)
        yield ""
    yield from _points(trend, trend.total, screen)
    yield from _lines(trend, screen)


def _summary(trend: FleetTrend, total: TrendSeries, screen: Screen) -> Iterator[str]:
    what = f"{title(trend.metric)} per {clean(trend.unit)}"
    steps = [f"{_percent(step)} from {clean(step.name)}" for step in total.steps]
    text = f"{what}: {', '.join(steps)}." if steps else f"No significant change of {what}."
    changed = sum(bool(line.steps) for line in trend.lines)
    text += f" Lines that changed: {changed} of {len(trend.lines)}." if trend.lines else ""
    yield from (screen.paint(line, "bold") for line in wrap(text, screen.width))


def title(metric: str) -> str:
    """The name of a metric."""
    return TITLES.get(metric) or clean(metric)


def _percent(step: TrendStep) -> str:
    return f"{100 * (step.ratio - 1):+.1f} % ({100 * (step.low - 1):+.0f} to {100 * (step.high - 1):+.0f} %)"


def _points(trend: FleetTrend, series: TrendSeries, screen: Screen) -> Iterator[str]:
    """A row for each point: its level as a bar, and the changes."""
    most = max((point.level or point.value for point in series.points), default=0.0)
    steps = {step.name: step for step in series.steps}
    names = [trend.query["by"], "level", "range", "hosts", "traces", ""]
    rows = []
    for point in series.points:
        level = point.level or point.value
        mark = screen.glyph("█", "#") * round(_BAR * level / most) if most else ""
        step = steps.get(point.name)
        changed = f"  {_percent(step)}" if step else ""
        error = "" if point.low is None or point.high is None else f"±{50 * (point.high - point.low) / level:.1f} %"
        figure = figure_text(trend.metric, level)
        rows.append([clean(point.name), figure, error, str(point.hosts), str(point.traces), mark + changed])
    yield from columns_text([clean(names[0]), *names[1:]], rows, screen, {1, 2, 3, 4})
    text = f"level: per {clean(trend.unit)}, as if all hosts were in all rows; range: 95 %, of the differences between rows"
    yield from (screen.paint(line, "dim") for line in wrap(text.replace("±", screen.glyph("±", "+-")), screen.width))


def figure_text(metric: str, value: float) -> str:
    """A figure in the unit of the metric."""
    if metric.endswith("_s"):
        return seconds(value)
    return megabytes(value) if metric.endswith("_bytes") else f"{value:,.1f}"


def _lines(trend: FleetTrend, screen: Screen) -> Iterator[str]:
    changed = [line for line in trend.lines if line.steps]
    if not changed:
        return
    yield ""
    yield screen.paint("Lines that changed", "bold")
    for line in changed:
        place = fit_left(f"{clean(line.file or '')}:{line.line}", screen.width * 3 // 5, screen)
        source = fit(clean(line.source or ""), screen.width - cells(place) - 2, screen)
        yield f"{screen.paint(place, 'bold')}  {source}".rstrip()
        for step in line.steps:
            yield f"  {_percent(step)} from {clean(step.name)}"
