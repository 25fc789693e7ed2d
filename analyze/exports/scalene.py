"""Scalene's own JSON, for ``scalene view``: the report's lines and functions under Scalene's names.

Percentages are of all CPU time, so lines add up to less than 100 if library code used CPU time by itself. Memory is in MiB.
Figures that a trace does not hold (such as the number of tasks that waited at one time) are 0, because the format has no
null.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..report.report import build_report
from ..results.report import Line, Report
from ..trace.selection import Selection
from .scalene_figures import ExtraFigures, extra_figures
from .shared.profile import NO_STACK, Frame, Profile, Rounder, read_profile
from .shared.text import json_bytes, plain

_MIB = 1_048_576
_STACK_METRICS = ("cpu", "live-at-peak", "allocated")
Row = dict[str, Any]


def scalene(paths: Sequence[Path], selection: Selection) -> bytes:
    """The contents of the file. Raises the errors of :func:`open_traces`."""
    report = build_report(paths, selection)
    extra = extra_figures(paths, selection, report)
    return json_bytes(_document(report, read_profile(paths, selection, _STACK_METRICS), extra))


def _document(report: Report, profile: Profile, extra: ExtraFigures) -> Row:
    first, totals = report.traces[0], report.totals
    words = [plain(word) for word in first.command or []]
    program = words[0] if words else plain(first.path)
    highest = max(report.lines, key=lambda line: line.live_at_peak_bytes or 0, default=None)
    peak_bytes = totals.peak_bytes or 0
    has_gpu = bool(totals.gpu_s or totals.gpu_peak_bytes)
    return {
        "alloc_samples": sum(trace.events["alloc"] or 0 for trace in report.traces),
        "args": words,
        "async_profile": extra.has_tasks,
        "combined_stacks": _combined_stacks(profile),
        "combined_stacks_timeline": [],
        "elapsed_time_sec": sum(trace.recorded_s or 0.0 for trace in report.traces),
        "start_time_absolute": _started_s(first.started_at),
        "start_time_perf": 0.0,
        "entrypoint_dir": program.rpartition("/")[0],
        "filename": program,
        "program": program,
        "files": {plain(file): _file(file, lines, report, extra) for file, lines in _by_file(report.lines).items()},
        "gpu": has_gpu,
        "gpu_device": "GPU" if has_gpu else "",
        "growth_rate": _growth_percent(report),
        "max_footprint_fname": plain(highest.file) if highest and highest.file and peak_bytes else None,
        "max_footprint_lineno": max(highest.line or 1, 1) if highest and peak_bytes else None,
        "max_footprint_mb": peak_bytes / _MIB,
        "max_footprint_python_fraction": (totals.python_peak_bytes or 0) / peak_bytes if peak_bytes > 0 else 0.0,
        "memory": totals.peak_bytes is not None or totals.alloc_bytes is not None,
        "memory_stacks": _memory_stacks(profile),
        "native_allocations_mb": _without_python(profile) / _MIB,
        "samples": [[t_s * 1e9, size / _MIB] for t_s, size in report.timeline or [] if t_s >= 0 and size >= 0],
        "stacks": _stacks(profile),
    }


def _by_file(lines: Iterable[Line]) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = {}
    for line in lines:
        if line.file is not None and line.line is not None and line.line > 0:
            found.setdefault(line.file, []).append(line)
    return found


def _file(file: str, lines: list[Line], report: Report, extra: ExtraFigures) -> Row:
    """The entry of a file: every line whose text is in the trace, or that has figures."""
    figures = {line.line: line for line in lines if line.line is not None}
    source = report.sources.get(file, [])
    source = source[:-1] if source and not source[-1] else source
    numbers = sorted({*range(1, len(source) + 1), *figures})
    texts = {number: plain(text) for number, text in enumerate(source, start=1)}
    functions = [each for each in report.functions if each.file == file and (each.first_line or 0) > 0]
    leaks = [leak for leak in report.leaks or [] if leak.file == file]
    return {
        "functions": [_row(f, f.first_line or 1, plain(f.function or "?"), report, extra) for f in functions],
        "imports": [],
        "leaks": {str(leak.line): _leak(leak.probability, leak.bytes_per_s) for leak in leaks},
        "lines": [_line(figures.get(number), number, texts.get(number, ""), report, extra) for number in numbers],
        "percent_cpu_time": min(sum(line.cpu_percent or 0.0 for line in lines), 100.0),
    }


def _leak(probability: float, bytes_per_s: float) -> Row:
    return {"likelihood": probability, "velocity_mb_s": max(bytes_per_s, 0.0) / _MIB}


def _line(figures: Line | None, number: int, text: str, report: Report, extra: ExtraFigures) -> Row:
    regions = ("start_region_line", "end_region_line", "start_outermost_loop", "end_outermost_loop")
    first = max(figures.first_line or 0, 0) if figures is not None else 0
    row = _row(figures, number, f"{text}\n", report, extra) | dict.fromkeys(regions, number)
    return row | {"start_function_line": first, "end_function_line": number if first else 0}


def _row(figures: Line | None, number: int, text: str, report: Report, extra: ExtraFigures) -> Row:
    """The fields that lines and functions share; a line without samples has zeros."""
    known = figures or Line(None, None, None, None)
    peak_mb = max([known.live_at_peak_bytes or 0, *(size for _, size in known.trend or [])]) / _MIB
    return {
        "line": text,
        "lineno": number,
        **_cpu(known, report),
        "n_peak_mb": peak_mb,
        "n_avg_mb": min(_mean_bytes(known) / _MIB, peak_mb),
        "n_growth_mb": max(known.growth_bytes or 0, 0) / _MIB,
        "n_malloc_mb": (known.alloc_bytes or 0) / _MIB,
        "n_usage_fraction": _share(known.alloc_bytes, report.totals.alloc_bytes),
        "n_python_fraction": min(max(known.python_alloc_fraction or 0.0, 0.0), 1.0),
        "n_copy_mb_s": (known.copy_bytes_per_s or 0.0) / _MIB,
        "memory_samples": [[t_s * 1e9, size / _MIB] for t_s, size in known.trend or []],
        "n_gpu_percent": min(known.gpu_percent or 0.0, 100.0),
        "n_gpu_peak_memory_mb": (known.gpu_peak_bytes or 0) / _MIB,
        **extra.row(known, report),
    }


def _cpu(known: Line, report: Report) -> Row:
    whole = report.totals.cpu_s
    # The format has no third class of user time. What is not known to be Python's is C's, as in its stacks.
    parts = {"python": known.python_s, "c": (known.native_s or 0.0) + (known.unclassified_s or 0.0)}
    percents = {f"n_cpu_percent_{name}": 100 * _share(part, whole) for name, part in parts.items()}
    return {
        **percents,
        "n_sys_percent": 100 * _share(known.system_s, whole),
        "n_async_concurrency_mean": 0.0,
        "n_async_concurrency_peak": 0.0,
        "cpu_samples_list": [],
    }


def _share(part: float | None, whole: float | None) -> float:
    """``part`` / ``whole``, 0 to 1; 0 if either is unknown."""
    return min(max(part / whole, 0.0), 1.0) if part and whole and whole > 0 else 0.0


def _mean_bytes(line: Line) -> float:
    """The mean of the line's trend over time, with straight lines between its points."""
    points = line.trend or []
    span_s = points[-1][0] - points[0][0] if points else 0.0
    area = sum((later[0] - point[0]) * (later[1] + point[1]) / 2 for point, later in pairwise(points))
    return max(area / span_s, 0.0) if span_s > 0 else 0.0


def _growth_percent(report: Report) -> float:
    """The growth of the footprint from first to last, in percent of its peak."""
    sizes = [size for _, size in report.timeline or []]
    return 100 * (sizes[-1] - sizes[0]) / max(sizes) if sizes and max(sizes) > 0 else 0.0


def _started_s(started_at: str | None) -> float:
    try:
        return max(datetime.fromisoformat(started_at or "").timestamp(), 0.0)
    except (ValueError, OverflowError):
        return 0.0


def _stacks(profile: Profile) -> list[Any]:
    """CPU time in seconds by the Python frames of each stack."""
    found: dict[tuple[Frame, ...], Row] = {}
    for each in profile.values["cpu"]:
        frames = tuple(frame for frame in profile.stacks.of(each.stack) if frame.kind == "python")
        sums = found.setdefault(frames, {"count": 0, "c_time": 0.0, "cpu_samples": 0.0, "python_time": 0.0})
        sums["count"] += 1
        sums["cpu_samples"] += each.value / 1e9
        sums["python_time" if each.part == "python" else "c_time"] += each.value / 1e9
    return [[[f"{f.file} {f.function}:{f.line};" for f in frames], sums] for frames, sums in found.items() if frames]


def _combined_stacks(profile: Profile) -> list[Any]:
    """CPU time in milliseconds by full stack."""
    rounder = Rounder(1e-6)
    sums = _sums(profile, "cpu")
    weighed = [(stack, rounder.round(value)) for stack, value in sums.items()]
    return [[_frames(profile, stack), count] for stack, count in weighed if count]


def _memory_stacks(profile: Profile) -> list[Any]:
    """Memory in MiB that was alive at the peak, by full stack."""
    return [[_frames(profile, stack), size / _MIB] for stack, size in _sums(profile, "live-at-peak").items() if size]


def _without_python(profile: Profile) -> int:
    """Bytes that were allocated without a Python stack."""
    stacks = profile.stacks
    return sum(v.value for v in profile.values["allocated"] if stacks.of(v.stack)[0].function == NO_STACK)


def _sums(profile: Profile, metric: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for each in profile.values[metric]:
        found[each.stack] = found.get(each.stack, 0) + each.value
    return found


def _frames(profile: Profile, stack: int) -> list[Row]:
    return [_frame(frame) for frame in profile.stacks.of(stack)]


def _frame(frame: Frame) -> Row:
    is_python = frame.kind == "python"
    return {
        "kind": "py" if is_python else "native",
        "display_name": frame.function,
        "filename_or_module": frame.file,
        "line": frame.line if is_python else None,
        "ip": None if is_python else 0,
        "offset": None if is_python else 0,
    }
