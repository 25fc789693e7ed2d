"""What the tables of the report do not show, and how to see it: sentences below them."""

from __future__ import annotations

from collections.abc import Iterator

from ....analyze.report.line_filter import LEAST_SHARE, ShownFile
from ....analyze.results.estimates import at_most
from ....analyze.results.report import Package, Report
from ....formats.units import counted, megabytes, percent, seconds
from ..table import wrap
from ..text import Screen, clean, not_shown

#: Of the packages outside the program's own code: the least share that is named, and how many.
_LEAST_PERCENT, _MOST_PACKAGES = 0.5, 6
#: The least share of all waiting time of a package outside that is worth a sentence.
_LEAST_WAIT = 0.1
#: The least memory that is worth a sentence if no line has it: a share of all, and bytes.
_LEAST_MEMORY, _LEAST_BYTES = 0.1, 10_000_000


def outside_cpu(report: Report) -> str:
    """The CPU time that no line of the program's own code has, in a sentence; "" if it is not worth one."""
    outside_s, whole_s = report.unattributed.cpu_s or 0.0, report.totals.cpu_s
    if not whole_s or outside_s < LEAST_SHARE * whole_s:
        return ""
    share = percent(outside_s, whole_s)
    return f"{share:.1f} % of the CPU time was spent outside the program's own code{_packages(report)}."


def _packages(report: Report) -> str:
    """Which packages that was, with their shares of all CPU time."""
    found = [each for each in report.outside or [] if each.cpu_percent >= _LEAST_PERCENT]
    named = [f"{_package_name(each, report.lacks_stacks)} {each.cpu_percent:.1f} %" for each in found[:_MOST_PACKAGES]]
    if rest := sum(each.cpu_percent for each in found[_MOST_PACKAGES:]):
        more = counted(len(found) - _MOST_PACKAGES, "more package", "more packages")
        named.append(f"{more} {rest:.1f} %")
    return f": {', '.join(named)}" if named else ""


def _package_name(package: Package, lacks_stacks: bool = False) -> str:
    if package.name is None:
        return "no Python stack" if lacks_stacks else "no Python code"
    return clean(package.name) + (" (standard library)" if package.is_standard else "")


def _waits_outside(report: Report) -> Iterator[str]:
    """Waiting in packages that no line has. Threads without Python, such as idle workers of libraries, are not named."""
    whole_s = report.totals.wait_s or 0.0
    found = [each for each in report.outside or [] if each.name is not None and (each.wait_s or 0.0) > 0]
    found = [each for each in found if (each.wait_s or 0.0) >= _LEAST_WAIT * whole_s]
    found.sort(key=lambda each: (-(each.wait_s or 0.0), each.name))
    if not found:
        return
    waits = [f"{_package_name(each)} {seconds(each.wait_s)}" for each in found[:_MOST_PACKAGES]]
    share = percent(sum(each.wait_s or 0.0 for each in found), whole_s)
    yield f"{share:.0f} % of the waiting time is on no line of the program's own code: {', '.join(waits)}."
    if any(each.name == "gevent" for each in found):
        where = "How long each of them was suspended, and on which line, is in scalene-analyze tasks."
        none = "How long each of them was suspended is not in the trace."
        yield f"gevent's hub waits for all greenlets at once. {where if report.totals.suspended_s else none}"


def _memory_outside(report: Report) -> str:
    """Memory that no line has: that of threads without Python, for example."""
    totals, outside, facts = report.totals, report.unattributed, []
    held_bytes = at_most(outside.live_at_end_bytes or 0, totals.live_at_end_bytes)
    if (outside.alloc_bytes or 0) >= max(_LEAST_MEMORY * (totals.alloc_bytes or 0), _LEAST_BYTES):
        facts.append(f"{megabytes(outside.alloc_bytes)} were allocated")
    if held_bytes >= max(_LEAST_MEMORY * (totals.peak_bytes or 0), _LEAST_BYTES):
        facts.append(f"{megabytes(held_bytes)} were alive at the end")
    return " and ".join(facts)


def remarks(report: Report, files: list[ShownFile], all_lines: bool, screen: Screen) -> Iterator[str]:
    """What the report does not show, and how to see it."""
    notes = []
    has_samples = any(
        trace.events[name] for trace in report.traces for name in ("cpu", "wait", "memory", "alloc", "copy")
    )
    if not has_samples:
        notes.append("The trace has no samples: the program was too short, or the samplers were off or paused.")
    if outside := outside_cpu(report):
        notes.append(outside + ("" if report.query["all"] else " --all shows library code too."))
    notes += _waits_outside(report)
    if memory := _memory_outside(report):
        notes.append(f"Outside the program's own code, {memory}.")
    hidden = len(report.lines) - sum(line.figures is not None for file in files for line in file.lines)
    if has_samples and hidden > 0 and not all_lines:
        them = "it" if hidden == 1 else "them"
        notes.append(f"{not_shown(hidden, 'line under 1 %', 'lines under 1 %')}. --all-lines shows {them}.")
    yield from ([""] if notes else [])
    for note in notes:
        yield from wrap(note, screen.width)
