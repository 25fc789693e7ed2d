"""Findings about time that passes without CPU time: waits that hold threads up, the GIL, CPUs, GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...formats.units import percent, seconds
from ..results.findings import Finding, WaitingLine
from ..results.report import Line, Report
from .cpu import LEAST_TICKS, ticks_of
from .words import Places, fraction, located, quoted

#: The least wait that is worth a sentence: a share of the recorded time, and seconds.
_LEAST_SHARE, _LEAST_S = 0.1, 0.1
#: The same for turns (the GIL, the CPU), which are summed over all threads.
_LEAST_TURNS = 0.25
#: A program with less CPU time than this share of the recorded time mostly waits.
_IDLE, _LEAST_WINDOW_S = 0.3, 1.0
#: The least share of the recorded time that GPUs worked, and that was spent in waiting for them.
_LEAST_GPU = 0.05
_CAUSES = {
    "lock": "waiting for a lock",
    "sleep": "sleeping",
    "events": "waiting for events (poll, select)",
    "child": "waiting for a child process",
    "input": "waiting for data to read",
    "output": "waiting to write",
    "connection": "waiting for a connection",
    "disk": "waiting for the disk",
    "other": "waiting in a system call",
}


def wait_findings(report: Report, waiting: Iterable[WaitingLine], window_s: float, places: Places) -> list[Finding]:
    """The waits that matter, the longest first. ``window_s``: the recorded time."""
    if report.totals.wait_s is None or not window_s:
        return []
    least_s = max(_LEAST_SHARE * window_s, _LEAST_S)
    found = [_at_line(row, report, places) for row in waiting if row.wait_s >= least_s]
    found += _for_turns(report, max(_LEAST_TURNS * window_s, _LEAST_S))
    return [*_idle(report, window_s), *sorted(found, key=lambda each: -(each.value or 0.0))]


def _at_line(row: WaitingLine, report: Report, places: Places) -> Finding:
    sources = report.sources.get(row.file, [])
    source = sources[row.line - 1] if 0 < row.line <= len(sources) else None
    threads = f" ({row.threads} threads together)" if row.threads > 1 else ""
    library = f"{', probably' * row.is_guess} in {row.library}{',' * row.is_guess}" if row.library else ""
    where = places.place(row.file, row.line) + quoted(source)
    return Finding(
        kind="wait",
        text=f"{seconds(row.wait_s)} {_CAUSES[row.cause]}{library} at {where}{threads}.",
        value=row.wait_s,
        unit="s",
        name=row.cause,
        file=row.file,
        line=row.line,
        function=row.function,
        source=source,
    )


def _for_turns(report: Report, least_s: float) -> Iterator[Finding]:
    """The GIL and the CPU: who waits for these is chance, so that only the sum says something."""
    waits = report.totals.waits
    gil_s, cpu_s = waits.gil_s or 0.0, waits.runnable_s or 0.0
    if gil_s >= least_s:
        text = (
            f"{seconds(gil_s)} waiting for the GIL (all threads together): threads that compute in Python take turns."
        )
        yield Finding(kind="wait", text=text, value=gil_s, unit="s", name="gil")
    if cpu_s >= least_s:
        text = f"{seconds(cpu_s)} runnable without a CPU (all threads together): more threads were ready to run than CPUs were free."
        yield Finding(kind="wait", text=text, value=cpu_s, unit="s", name="cpu")


def _idle(report: Report, window_s: float) -> Iterator[Finding]:
    """Is there little CPU time, although no thread waited for a CPU? With few samples, the finding on these says so."""
    cpu_s, ready_s = report.totals.cpu_s, report.totals.waits.runnable_s or 0.0
    if cpu_s is None or window_s < _LEAST_WINDOW_S or cpu_s + ready_s >= _IDLE * window_s:
        return
    if ticks_of(report) < LEAST_TICKS or report.query.get("label"):  # code without the label may have run
        return
    text = f"The program mostly waited: it used {seconds(cpu_s)} of CPU time in {seconds(window_s)}."
    yield Finding(kind="idle", text=text, value=cpu_s, unit="s", part=cpu_s / window_s)


def gpu_findings(report: Report, window_s: float, places: Places) -> list[Finding]:
    """How long GPUs worked and for which line; how long a line waited for a device."""
    return [*_gpu_time(report, window_s, places), *_device_waits(report, window_s, places)] if window_s else []


def _gpu_time(report: Report, window_s: float, places: Places) -> Iterator[Finding]:
    gpu_s = report.totals.gpu_s or 0.0
    if gpu_s < _LEAST_GPU * window_s:
        return
    top = max(report.lines, key=lambda line: line.gpu_s or 0.0, default=None)
    part = percent(top.gpu_s, gpu_s) / 100 if top is not None else 0.0
    most = f", {fraction(part)} of it for {places.said(top)}" if top is not None and part >= 0.29 else ""
    text = f"GPUs worked for {seconds(gpu_s)} in {seconds(window_s)}{most}."
    yield _gpu(text, gpu_s, "gpu", part if most else None, top if most else None)


def _device_waits(report: Report, window_s: float, places: Places) -> Iterator[Finding]:
    top = max(report.lines, key=lambda line: line.device_sync_s or 0.0, default=None)
    waited_s = (top.device_sync_s or 0.0) if top is not None else 0.0
    if top is not None and waited_s >= max(_LEAST_SHARE * window_s, _LEAST_S):
        yield _gpu(f"{seconds(waited_s)} waiting for a GPU at {places.said(top)}.", waited_s, "sync", None, top)


def _gpu(text: str, value: float, name: str, part: float | None, line: Line | None) -> Finding:
    return located(Finding("gpu", text, value, "s", name=name, part=part), line)
