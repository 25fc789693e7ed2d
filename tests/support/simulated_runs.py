"""Simulated runs for comparisons: reduced counts as traces would have them, without recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scalene_trace.analyze.diff.compare import Asked, compare
from scalene_trace.analyze.diff.results import Diff
from scalene_trace.analyze.diff.runs import Run, RunRow
from scalene_trace.analyze.diff.significance import Figure
from scalene_trace.analyze.results.trace import TraceInfo

APP = "/home/me/app.py"
TICK_S = 0.01
#: Expected ticks by line: a busy one, some of middling size, many small ones.
JUDGED = ("better", "worse")
PROGRAM = {10: 1_800, 11: 900, 12: 600, 13: 300} | dict.fromkeys(range(20, 40), 60)


def simulated_run(
    random: np.random.Generator,
    ticks: Mapping[int, float] = PROGRAM,
    spread: float = 0.0,
    common: float = 0.0,
) -> Run:
    """A run of a program with so many ticks a line. ``spread``: relative, from run to run, of each line by itself;
    ``common``: of all lines together."""
    speed = np.exp(random.normal(0, common))
    counts = {line: random.poisson(count * speed * np.exp(random.normal(0, spread))) for line, count in ticks.items()}
    rows = {(APP, line): RunRow("main", 1, {"cpu_s": cpu_figure(count)}) for line, count in counts.items()}
    nothing = RunRow(figures={"cpu_s": Figure(0.0)})
    return Run(trace_info(), 30.0, rows, nothing, RunRow(figures={"cpu_s": cpu_figure(sum(counts.values()))}), {})


def cpu_figure(ticks: int) -> Figure:
    """CPU time of so many ticks, and the sum of their squares."""
    return Figure(ticks * TICK_S, ticks * TICK_S**2)


def trace_info(path: str = "t.parquet") -> TraceInfo:
    """What a trace says of itself."""
    names: dict[str, Any] = dict.fromkeys(("wait", "memory", "alloc", "copy", "gpu", "rss"))
    return TraceInfo(path, "0" * 32, "1.2", None, 30.0, ["app.py"], "3.12.4", 1, 1, names | {"cpu": 1}, [])


def compared(before: Sequence[Run], after: Sequence[Run]) -> Diff:
    """The comparison of two sides."""
    return compare(before, after, Asked())


def flagged(diff: Diff) -> list[int]:
    """Lines that were judged better or worse; 0 = a total."""
    found = [line.line or 0 for line in diff.lines for change in [line.change("cpu_s")] if change.verdict in JUDGED]
    return found + [0 for change in diff.totals.values() if change is not None and change.verdict in JUDGED]
