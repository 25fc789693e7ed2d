"""A comparison as Markdown, for a pull request. Text of a trace is never markup: see :func:`inert`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from ...analyze.diff.measures import LINE_MEASURES, MEASURES, Measure
from ...analyze.diff.results import BETTER, WORSE, Change, Diff, LineChange
from ...formats.units import counted
from .diff import judged_lines, nothing_changed, shown_change, shown_figures, shown_range, worth_showing
from .text import Screen, clean, cut

_SCREEN = Screen()
_SIGNS = {BETTER: "🟢 better", WORSE: "🔴 worse"}
_MOST_ROWS = 30
_WIDTH = 80  #: of a place, and of a line's text
#: Characters that mean nothing in Markdown and HTML, like letters, digits and all beyond ASCII (but see _ADDRESS).
_HARMLESS = frozenset(" .:,;=+-/(){}'\"?%^")
_ADDRESS = re.compile(r"(?i)(www)\.|:(?=//)")


def inert(text: str, width: int = _WIDTH) -> str:
    """``text`` on one line of at most ``width`` columns, with entities for what Markdown or HTML would interpret."""
    text = cut(clean(text), width)
    text = "".join(c if c.isalnum() or c in _HARMLESS or not c.isascii() else f"&#{ord(c)};" for c in text)
    return _ADDRESS.sub(lambda found: f"{found[1]}&#46;" if found[1] else "&#58;", text)


def diff_markdown(diff: Diff) -> Iterator[str]:
    """The lines of the Markdown."""
    yield f"**{inert(diff.summary, 400)}**"
    yield ""
    for gate in diff.gates:
        yield f"- {'❌' if gate.failed else '✅'} {inert(gate.text, 200)}"
    if diff.gates:
        yield ""
    yield from _totals(diff)
    yield from _lines(diff)
    yield from _unmatched(diff)
    yield from _advice(diff)


def _totals(diff: Diff) -> Iterator[str]:
    yield "| | before | after | change | 95 % range | |"
    yield "|---|---:|---:|---:|---:|---|"
    per_second = diff.query["per_second"]
    for name, change in diff.totals.items():
        if change is not None and (change.before or change.after):
            measure = MEASURES[name]
            words = _shown(measure, change, per_second)
            yield f"| {words} | {_SIGNS.get(change.shown_verdict, change.shown_verdict)} |"
    yield ""


def _shown(measure: Measure, change: Change, per_second: bool) -> str:
    """The columns from the measure's name to the range."""
    figures = shown_figures(measure, change, per_second)
    more = shown_change(change, per_second), shown_range(change, _SCREEN, per_second)
    return " | ".join((measure.title, *figures, *more))


def _lines(diff: Diff) -> Iterator[str]:
    lines = judged_lines(diff)
    if not lines:
        yield nothing_changed(diff)
        yield ""
        return
    yield "| line | | before | after | change | 95 % range | |"
    yield "|---|---|---:|---:|---:|---:|---|"
    per_second = diff.query["per_second"]
    for line in lines[:_MOST_ROWS]:
        for measure in LINE_MEASURES:
            change = line.change(measure.name)
            if change.verdict in (BETTER, WORSE):
                words = _shown(measure, change, per_second)
                yield f"| {_place(line)} | {words} | {_SIGNS[change.verdict or '']} |"
    if len(lines) > _MOST_ROWS:
        yield ""
        yield f"{counted(len(lines) - _MOST_ROWS, 'more line', 'more lines')} changed."
    yield ""


def _place(line: LineChange) -> str:
    file, number = line.place
    source = line.source if line.source is not None else line.before_source
    code = f" <code>{inert(source.strip())}</code>" if source and source.strip() else ""
    return f"{inert(PurePath(file).name)}:{number}{code}"


def _unmatched(diff: Diff) -> Iterator[str]:
    """New and removed lines that cost something."""
    for status, title in (("added", "New"), ("removed", "Gone")):
        lines = worth_showing([line for line in diff.lines if line.status == status], diff.totals)
        if lines:
            yield f"{title}: {', '.join(map(_place, lines[:5]))}{f', and {len(lines) - 5} more' * (len(lines) > 5)}"
            yield ""


def _advice(diff: Diff) -> Iterator[str]:
    if diff.advice:
        yield inert(diff.advice[0], 400)
        yield ""
        yield "```sh"
        yield from map(clean, diff.advice[1:])
        yield "```"
