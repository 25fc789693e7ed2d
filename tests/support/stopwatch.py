"""Native shares of the functions of a program: by the program's own stopwatch, and in its trace."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.recording import native_percent


@dataclass(frozen=True)
class Case:
    """A case on one interpreter: native percentages of user CPU time, in truth and in the trace. A stopwatch counts kernel
    time too, and it is unknown how much of it was inside the calls: the truth is between ``least`` and ``most``."""

    python: str
    case: str
    least: float
    most: float
    answer: float
    ticks: int

    @property
    def error(self) -> float:
        return self.answer - min(max(self.answer, self.least), self.most)


def cases_of(version: str, truth: Mapping[str, float], rows: Mapping[str, Mapping[str, Any]]) -> list[Case]:
    """``truth``: the calls' share of all CPU time, in percent, for each case; ``rows``: the same cases in the trace. Their
    usual share of kernel time is the ticks' own, which fall inside and outside of the calls alike; what is above it is the
    program's, such as page faults."""
    found = {name: rows[name] for name in truth if name in rows}
    usual = statistics.median(kernel_percent(row) for row in found.values()) if found else 0.0
    return [_case_of(version, name, truth[name], row, usual) for name, row in found.items()]


def listed(cases: Iterable[Case]) -> list[str]:
    """A line for each case, those with the largest errors first."""
    return [
        f"    {case.case:44} truth {case.least:5.1f} to {case.most:5.1f}  answer {case.answer:5.1f}  error {case.error:+5.1f}"
        for case in sorted(cases, key=lambda case: -abs(case.error))
    ]


def kernel_percent(row: Mapping[str, Any]) -> float:
    """Kernel time in percent of CPU time."""
    return float(100 * row["system_s"] / row["cpu_s"])


def _case_of(version: str, name: str, stopwatch: float, row: Mapping[str, Any], usual: float) -> Case:
    kernel = max(kernel_percent(row) - usual, 0.0)
    least, most = (100 * max(share, 0.0) / (100 - kernel) for share in (stopwatch - kernel, stopwatch))
    return Case(version, name, least, min(most, 100.0), native_percent(dict(row)), row["ticks"])
