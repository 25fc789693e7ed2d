"""Chooses the findings of a report (:class:`scalene_trace.analyze.results.findings.Finding`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...formats.units import counted, seconds
from ..results.findings import Finding, WaitingLine
from ..results.report import Report
from ..results.trace import Loss, TraceInfo
from .cpu import LEAST_TICKS, cpu_findings, ticks_of
from .memory import Peaks, copy_findings, memory_findings
from .waits import gpu_findings, wait_findings
from .words import Places, chosen

#: The most findings, besides one on losses.
MOST = 5
_MOST_NAMES = 3
#: Losses of single samples, and the samplers whose samples they are. They are said if they are this share of the samples.
_OF_SAMPLES = {
    "torn_stack": ("cpu", "alloc", "memory", "copy"),
    "scratch_busy": ("cpu", "alloc", "memory", "copy"),
    "spool_full": ("cpu", "alloc", "memory", "copy"),
    "unmapped_chunk": ("cpu", "alloc", "memory", "copy"),
    "alloc_table_full": ("alloc",),
    "waits_torn": ("wait",),
    "tasks_torn": ("task",),
}
_LEAST_LOST = 0.01
#: Losses of whole programs that others started, and what these are. The figures of the others are right.
_OF_PROGRAMS = {
    "unrecorded_static": "a static binary, which cannot be recorded",
    "unrecorded_setuid": "a program that gains privileges, which cannot be recorded",
    "unrecorded_image": "a sanitizer's program, or one of another libc, which cannot be recorded",
}


def find_findings(report: Report, waiting: Iterable[WaitingLine], window_s: float, peaks: Peaks) -> list[Finding]:
    """The findings, in the order in which they are said.

    ``report`` has all lines and functions; ``waiting``: the longest waits first; ``window_s``: the recorded time of all
    traces; ``peaks``: of their memory. A finding is left out if its figure is uncertain: where no sample fell,
    or where the standard error is more than a quarter of the figure.
    """
    places = Places(report)
    groups = (
        [*_few_samples(report, window_s), *cpu_findings(report, places)],
        wait_findings(report, waiting, window_s, places),
        memory_findings(report, peaks, places),
        gpu_findings(report, window_s, places),
        copy_findings(report, places),
    )
    lost, left_out = list(_losses(report.traces)), list(_programs_left_out(report.traces))
    return [*lost, *chosen(groups, MOST - bool(lost and left_out)), *left_out]


def _losses(traces: Iterable[TraceInfo]) -> Iterator[Finding]:
    """One finding on all losses that spoil a figure."""
    counts: dict[str, int] = {}
    for trace in traces:
        for loss in trace.losses:
            if _spoils(loss, trace):
                counts[loss.name] = counts.get(loss.name, 0) + loss.count
    if not counts:
        return
    named = [f"{name} ×{count:,}" for name, count in list(counts.items())[:_MOST_NAMES]]
    named += [f"{len(counts) - _MOST_NAMES} more"] * (len(counts) > _MOST_NAMES)
    text = f"Not everything was recorded, so that figures may be too low or at wrong lines: {', '.join(named)}."
    yield Finding(kind="loss", text=text, value=sum(counts.values()), unit="number", name=next(iter(counts)))


def _programs_left_out(traces: Sequence[TraceInfo]) -> Iterator[Finding]:
    """One finding on programs that were started and are not in the traces."""
    counts: dict[str, int] = {}
    for trace in traces:
        for loss in trace.losses:
            if loss.name in _OF_PROGRAMS:
                counts[loss.name] = counts.get(loss.name, 0) + loss.count
    if not counts:
        return
    whole = sum(counts.values())
    named = "; ".join(f"{_OF_PROGRAMS[name]} (×{count:,})" for name, count in counts.items())
    programs = counted(
        whole,
        "program that was started is not in the trace, nor are its time and memory",
        "programs that were started are not in the trace, nor are their time and memory",
    )
    yield Finding(kind="loss", text=f"{programs}: {named}.", value=whole, unit="number", name=next(iter(counts)))


def _spoils(loss: Loss, trace: TraceInfo) -> bool:
    """Is so much missing that figures are wrong? Single samples among a hundred are not."""
    if loss.severity == "info" or loss.name in _OF_PROGRAMS:
        return False
    samplers = _OF_SAMPLES.get(loss.name)
    if samplers is None:
        return True
    return loss.count >= _LEAST_LOST * sum(trace.events.get(name) or 0 for name in samplers)


def _few_samples(report: Report, window_s: float) -> Iterator[Finding]:
    """What a recording is too short for."""
    cpu_s, ticks = report.totals.cpu_s, ticks_of(report)
    if cpu_s is None or ticks >= LEAST_TICKS:
        return
    if not ticks:
        text = "No CPU sample was taken, so that nothing can be said about CPU time."
    else:
        samples = f"{ticks} CPU {'sample was' if ticks == 1 else 'samples were'} taken"
        used = f"{seconds(cpu_s)} of CPU time in {seconds(window_s)}" if window_s else f"{seconds(cpu_s)} of CPU time"
        finer = "A shorter `scalene-record --cpu-interval` takes more."
        text = f"Only {samples} ({used}): too few to say which line is slow. {finer}"
    yield Finding(kind="samples", text=text, value=ticks, unit="number")
