"""What a comparison says in a sentence, and what it advises."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import PurePath

from ...formats.units import size_text
from ..results.records import TraceInfo
from .results import BETTER, NOISE, WORSE, Change, Changes, LineChange, Statistics
from .shared_change import PRIOR_SIGMA_OF_MACHINE
from .significance import LEAST_EFFECT, PRIOR_SIGMA

#: Share of the whole change that makes it "almost all", and "mostly", from one place.
_ALMOST_ALL, _MOSTLY = 0.8, 0.5
_LONGEST_COMMAND = 80
#: What most lines share is worth a sentence from here on.
_LEAST_SHARED = 0.03
#: The busiest line that both versions have may have a tick or two: that only changes beyond this are seen says nothing.
_MOST_DETECTABLE = 5.0
_ASSUMED_SPREAD = (
    f"from run to run, a spread of {100 * PRIOR_SIGMA:.0f} % of a line and of {100 * PRIOR_SIGMA_OF_MACHINE:.0f} % of all"
    " lines together is assumed"
)
_RUNS = "1 2 3 4 5"


def summary_of(
    totals: Changes,
    lines: Sequence[LineChange],
    outside: Changes,
    statistics: Statistics,
    median_ratio: float | None = None,
    per_second: bool = False,
) -> str:
    """One sentence on CPU time, or on what else was recorded, one on what most lines share, one on memory where that changed.

    ``median_ratio``: after / before of the medians of CPU time.
    """
    cpu, sentences = totals.get("cpu_s"), []
    if cpu is None or not (cpu.before or cpu.after):
        sentences.append("CPU time was not recorded on both sides." if cpu is None else "No CPU time was sampled.")
    elif cpu.verdict in (BETTER, WORSE):
        several = max(statistics.runs_before, statistics.runs_after) > 1
        sentences.append(
            _speed(cpu, median_ratio if several else None, per_second) + _where(cpu, lines, outside, per_second)
        )
    else:
        sentences.append(_no_change(cpu, per_second, statistics.tests) + _but(lines, per_second))
    shared = statistics.shared_ratio.get("cpu_s", 1.0)
    if abs(shared - 1) >= _LEAST_SHARED:
        machine = "slower" if shared > 1 else "faster"
        said = f"Most lines have {100 * (shared - 1):+.0f} % in common, as on a {machine} machine"
        sentences.append(f"{said}: each is judged by what it has beside that.")
    peak = totals.get("peak_bytes")
    if peak is not None and peak.verdict in (BETTER, WORSE) and peak.difference is not None:
        sentences.append(f"Peak memory {_signed(peak.difference)}{_percent(peak.ratio)}.")
    return " ".join(sentences)


def _speed(cpu: Change, median_ratio: float | None, per_second: bool) -> str:
    """How much faster or slower; by the medians where they tell the same way."""
    if cpu.ratio is None:
        return "CPU time where there was none"
    if cpu.ratio == 0:
        return "No CPU time any more"
    is_slower = cpu.verdict == WORSE
    has_median = median_ratio is not None and (median_ratio > 1.005 if is_slower else 0 < median_ratio < 0.995)
    ratio = median_ratio if median_ratio is not None and has_median else cpu.ratio
    factor = max(ratio, 1 / ratio)
    number = f"{factor:.1f}×" if factor >= 1.5 else f"{factor:.2f}×"
    way = "slower" if is_slower else "faster"
    if per_second:
        way = "more CPU a second" if is_slower else "less CPU a second"
    return f"{'Median ' * has_median}{number} {way}"


def _where(cpu: Change, lines: Sequence[LineChange], outside: Changes, per_second: bool) -> str:
    """Where most of the change of CPU time comes from."""
    whole = cpu.moved(per_second)
    parts = sorted(
        _parts(lines, outside, per_second).items(), key=lambda part: part[1] / whole if whole else 0.0, reverse=True
    )
    if not whole or not parts:
        return "."
    share = parts[0][1] / whole
    if share >= _ALMOST_ALL:
        return f", almost all from {parts[0][0]}."
    if share >= _MOSTLY:
        return f", mostly from {parts[0][0]}."
    named = [name for name, part in parts[:3] if part / whole >= 0.1]
    return f", most of it from {', '.join(named)}." if named else ", spread over many lines."


def _parts(lines: Sequence[LineChange], outside: Changes, per_second: bool) -> dict[str, float]:
    """Seconds of CPU time more or less, by line; what is new or gone counts by function, as one rewritten piece."""
    parts: dict[str, float] = {}
    for line in lines:
        file, number = line.place
        name = PurePath(file).name
        place = f"{name}:{number}" if line.status in ("same", "edited") else f"{line.name} in {name} (rewritten)"
        parts[place] = parts.get(place, 0.0) + line.change("cpu_s").moved(per_second)
    other = outside.get("cpu_s")
    if other is not None:
        parts["code that is not the program's own"] = other.moved(per_second)
    return parts


def _no_change(cpu: Change, per_second: bool, tests: int) -> str:
    """That it is no change, and why not: too uncertain, or too small."""
    if cpu.ratio is None:
        _, after = cpu.compared(per_second)
        return f"No sure change of CPU time: none, then {after:.2g} s{' a second' * per_second}, which noise explains"
    low, high = ((f"{100 * (end - 1):+.0f} %" if end is not None else "?") for end in (cpu.low, cpu.high))
    said = f"{100 * (cpu.ratio - 1):+.1f} %"
    span = f"(95 %: {low} to {high})"
    if (cpu.low or 0.0) <= 1 <= (cpu.high or math.inf):
        return f"No sure change of CPU time: {said}, which noise explains {span}"
    if max(cpu.ratio, 1 / cpu.ratio if cpu.ratio else math.inf) < 1 + LEAST_EFFECT:
        return f"No change of CPU time to speak of: {said} {span}"
    beside = " beside all else that was tested" if tests > 1 else ""
    return f"No sure change of CPU time: {said} {span}, not sure enough{beside}"


def _but(lines: Sequence[LineChange], per_second: bool) -> str:
    """The lines that changed though the whole did not."""
    changed = [line for line in lines if line.change("cpu_s").verdict in (BETTER, WORSE)]
    if not changed:
        return "."
    most = max(changed, key=lambda line: abs(line.change("cpu_s").moved(per_second)))
    place = f"{PurePath(most.place[0]).name}:{most.place[1]}"
    more = f" and {len(changed) - 1} more lines" if len(changed) > 1 else ""
    return (
        f", but {place}{more} changed: {place} is {most.change('cpu_s').verdict}{_percent(most.change('cpu_s').ratio)}."
    )


def _percent(ratio: float | None) -> str:
    return f" ({100 * (ratio - 1):+.1f} %)" if ratio is not None else ""


def _signed(size_bytes: float) -> str:
    return f"{'+' * (size_bytes >= 0)}{size_text(size_bytes)}"


def advice_on(
    totals: Changes, lines: Sequence[LineChange], statistics: Statistics, infos: Sequence[TraceInfo]
) -> list[str]:
    """A sentence and the commands that would tell more, where a side has one run only and something is left open."""
    if min(statistics.runs_before, statistics.runs_after) > 1:
        return []
    changes = [*totals.values(), *(change for line in lines for change in line.changes.values())]
    if not any(change is not None and change.verdict == NOISE for change in changes):
        return []
    said = "One run on a side cannot tell small changes from noise"
    if statistics.detectable_ratio is not None and statistics.detectable_ratio < _MOST_DETECTABLE:
        said += f": of the busiest line, none below about {100 * (statistics.detectable_ratio - 1):.0f} %"
    spread = _ASSUMED_SPREAD if statistics.assumed else "the spread is that of one side"
    program = [_command(info) for info in infos]
    return [
        f"{said} ({spread}). Five runs on each side tell more:",
        f"for i in {_RUNS}; do scalene-record -o before-$i.parquet {program[0]}; done  # the old version",
        f"for i in {_RUNS}; do scalene-record -o after-$i.parquet {program[1]}; done  # the new version",
        "scalene-analyze diff 'before-*.parquet' 'after-*.parquet'",
    ]


def _command(info: TraceInfo) -> str:
    """The recorded command as a shell takes it; what is long or strange is left to the reader."""
    text = shlex.join(info.command or [])
    is_plain = text.isascii() and text.isprintable() and "`" not in text
    return text if is_plain and 0 < len(text) <= _LONGEST_COMMAND else "PROGRAM..."
