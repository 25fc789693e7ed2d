"""The sentences above a comparison: its summary, and advice for a clearer result."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import PurePath

from ...formats.units import counted, size_text
from ..results.trace import TraceInfo
from .results import BETTER, NOISE, WORSE, Change, Changes, LineChange, Statistics
from .shared_change import PRIOR_SIGMA_OF_MACHINE
from .significance import ALPHA, LEAST_EFFECT, PRIOR_SIGMA

#: From these shares of the whole change on, one place is said to explain "almost all" and "most" of it.
_ALMOST_ALL, _MOSTLY = 0.8, 0.5
_LONGEST_COMMAND = 80
#: The change that most lines share is mentioned from this ratio (minus 1) on.
_LEAST_SHARED = 0.03
#: The busiest line that both versions have may have only a few ticks. A detectable ratio above this one tells the reader
#: nothing, so the advice leaves it out.
_MOST_DETECTABLE = 5.0
_ASSUMED_SPREAD = (
    f"assuming that runs differ by {100 * PRIOR_SIGMA:.0f} % on each line and by {100 * PRIOR_SIGMA_OF_MACHINE:.0f} % on all"
    " lines together"
)
_RUNS = "1 2 3 4 5"
_NOTHING_COMMON = "No line with samples is in both versions: they seem to be different programs, of which only the totals can be compared."


def summary_of(
    totals: Changes,
    lines: Sequence[LineChange],
    outside: Changes,
    statistics: Statistics,
    median_ratio: float | None = None,
    per_second: bool = False,
) -> str:
    """One to three sentences: CPU time, the change that most lines share, and peak memory if it changed.

    ``outside``: changes of samples without a line of the user's. ``median_ratio``: after / before of the medians of CPU
    time. ``per_second``: figures were compared per second of the runs.
    """
    cpu, sentences = totals.get("cpu_s"), []
    has_common = have_common(lines)
    if not has_common:
        sentences.append(_NOTHING_COMMON)
    if cpu is None or not (cpu.before or cpu.after):
        sentences.append("CPU time was not recorded on both sides." if cpu is None else "No CPU time was sampled.")
    elif cpu.verdict in (BETTER, WORSE):
        several = max(statistics.runs_before, statistics.runs_after) > 1
        sentences.append(
            _speed(cpu, median_ratio if several else None, per_second)
            + (_where(cpu, lines if several else _changed(lines), outside, per_second) if has_common else ".")
        )
    else:
        sentences.append(_no_change(cpu, per_second, statistics.tests) + _but(lines, per_second))
    shared = statistics.shared_ratio.get("cpu_s", 1.0)
    if abs(shared - 1) >= _LEAST_SHARED:
        machine = "slower" if shared > 1 else "faster"
        text = f"Most lines changed by about {100 * (shared - 1):+.0f} %, as on a {machine} machine"
        sentences.append(f"{text}: each line is judged relative to that.")
    peak = totals.get("peak_bytes")
    if peak is not None and peak.verdict in (BETTER, WORSE) and peak.difference is not None:
        sentences.append(f"Peak memory {_signed(peak.difference)}{_percent(peak.ratio)}.")
    return " ".join(sentences)


def shares_text(has_cycle: bool, have_other_shares: bool, per_second: bool) -> str:
    """The sentences about pauses at the end of a summary, if there are any. ``has_cycle``: --sample or --cpu-budget has
    paused a run; ``have_other_shares``: runs were recorded for different shares of their time."""
    sentences = []
    if has_cycle:
        sentences.append("Recordings were on for a part of the time: they are compared per second of it.")
    elif have_other_shares and not per_second:
        sentences.append("Recordings were paused: totals are of the rest, and --per-second compares them per second.")
    if have_other_shares:
        sentences.append("What was alive at the peak is not judged: different shares of the time were recorded.")
    return "".join(f" {sentence}" for sentence in sentences)


def have_common(lines: Sequence[LineChange]) -> bool:
    """Is a line with samples on both sides the same, or is there nothing on one side to compare with?"""
    statuses = {line.status for line in lines}
    return not {"added", "removed"} <= statuses or bool(statuses & {"same", "edited"})


def _changed(lines: Sequence[LineChange]) -> list[LineChange]:
    """The lines that a comparison of two single runs may name: those whose text or figures changed for certain."""
    return [line for line in lines if line.status != "same" or line.is_judged]


def _speed(cpu: Change, median_ratio: float | None, per_second: bool) -> str:
    """How much faster or slower: the ratio of the medians if it has the direction of the verdict, else that of the means."""
    if cpu.ratio is None:
        return "CPU time rose from zero"
    if cpu.ratio == 0:
        return "CPU time fell to zero"
    is_slower = cpu.verdict == WORSE
    has_median = median_ratio is not None and (median_ratio > 1.005 if is_slower else 0 < median_ratio < 0.995)
    ratio = median_ratio if median_ratio is not None and has_median else cpu.ratio
    factor = max(ratio, 1 / ratio)
    number = f"{factor:.1f}×" if factor >= 1.5 else f"{factor:.2f}×"
    way = "slower" if is_slower else "faster"
    if per_second:
        way = "more CPU time per second" if is_slower else "less CPU time per second"
    return f"{'Median ' * has_median}{number} {way}"


def _where(cpu: Change, lines: Sequence[LineChange], outside: Changes, per_second: bool) -> str:
    """The end of the sentence: the places where most of the change of CPU time comes from."""
    whole = cpu.moved(per_second)
    parts = sorted(
        _parts(lines, outside, per_second).items(), key=lambda part: part[1] / whole if whole else 0.0, reverse=True
    )
    if not whole or not parts:
        return "."
    share = parts[0][1] / whole
    if share <= 0:
        return "."
    if share >= _ALMOST_ALL:
        return f", almost all from {parts[0][0]}."
    if share >= _MOSTLY:
        return f", mostly from {parts[0][0]}."
    named = [name for name, part in parts[:3] if part / whole >= 0.1]
    return f", most of it from {', '.join(named)}." if named else ", spread over many lines."


def _parts(lines: Sequence[LineChange], outside: Changes, per_second: bool) -> dict[str, float]:
    """Change of CPU time in seconds by line; added and removed lines count by function, which was rewritten."""
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
    """The beginning of the sentence if CPU time did not change for certain: too uncertain, or too small a difference."""
    if cpu.ratio is None:
        _, after = cpu.compared(per_second)
        used = f"{after:.2g} s{' per second' * per_second}"
        return f"No significant change of CPU time: none before, {used} after, which noise explains"
    low, high = ((f"{100 * (end - 1):+.0f} %" if end is not None else "?") for end in (cpu.low, cpu.high))
    text = f"{100 * (cpu.ratio - 1):+.1f} %"
    span = f"(95 %: {low} to {high})"
    if (cpu.low or 0.0) <= 1 <= (cpu.high or math.inf):
        return f"No significant change of CPU time: {text} {span}, which noise explains"
    if max(cpu.ratio, 1 / cpu.ratio if cpu.ratio else math.inf) < 1 + LEAST_EFFECT:
        return f"No relevant change of CPU time: {text} {span}"
    adjusted = f" after adjusting for {tests} tests" if tests > 1 else ""
    return (
        f"No significant change of CPU time: {text} {span}, not significant at the {100 * ALPHA:.0f} % level{adjusted}"
    )


def _but(lines: Sequence[LineChange], per_second: bool) -> str:
    """The end of the sentence: lines that changed although the total did not."""
    changed = [line for line in lines if line.change("cpu_s").verdict in (BETTER, WORSE)]
    if not changed:
        return "."
    most = max(changed, key=lambda line: abs(line.change("cpu_s").moved(per_second)))
    place = f"{PurePath(most.place[0]).name}:{most.place[1]}"
    more = f" and {counted(len(changed) - 1, 'more line', 'more lines')}" if len(changed) > 1 else ""
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
    """One sentence and the commands that would give a clearer result; empty unless a side has a single run and some change
    was judged to be noise. ``infos``: the first trace of each side."""
    if min(statistics.runs_before, statistics.runs_after) > 1:
        return []
    changes = [*totals.values(), *(change for line in lines for change in line.changes.values())]
    if not any(change is not None and change.verdict == NOISE for change in changes):
        return []
    text = "A single run per side cannot distinguish small changes from noise"
    if statistics.detectable_ratio is not None and statistics.detectable_ratio < _MOST_DETECTABLE:
        percent = 100 * (statistics.detectable_ratio - 1)
        text += f": on the busiest line, only changes above about {percent:.0f} % are detected"
    spread = _ASSUMED_SPREAD if statistics.assumed else "the spread between runs is known for one side only"
    program = [_command(info) for info in infos]
    return [
        f"{text} ({spread}). Record five runs per side for a clearer result:",
        f"for i in {_RUNS}; do scalene-record -o before-$i.parquet {program[0]}; done  # the old version",
        f"for i in {_RUNS}; do scalene-record -o after-$i.parquet {program[1]}; done  # the new version",
        "scalene-analyze diff 'before-*.parquet' 'after-*.parquet'",
    ]


def _command(info: TraceInfo) -> str:
    """The recorded command, quoted for a shell; a placeholder if it is long or has unusual characters."""
    text = shlex.join(info.command or [])
    is_plain = text.isascii() and text.isprintable() and "`" not in text
    return text if is_plain and 0 < len(text) <= _LONGEST_COMMAND else "PROGRAM..."
