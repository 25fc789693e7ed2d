"""The report as text: totals, the lines that matter with their source, files and functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from ....analyze.report.line_filter import ShownFile, ShownLine, matters, reaches, shown_files
from ....analyze.results.report import WAIT_WORDS, Function, Line, Report
from ....formats.units import megabytes, percent, seconds
from ..gpu import device_facts, device_table, gpu_columns, gpu_summary, gpu_titles, gpu_widths
from ..memory import leak_table
from ..native import line_note
from ..recording import trace_lines
from ..table import estimated, joined
from ..text import CLASS_WORDS, Screen, bar, cells, clean, cpu_parts, fit, fit_left, sparkline
from .columns import LINE, Column, allocated, at_peak, columns_for, held, time_range, uncertain, used
from .findings import findings_text
from .legend import legend, marks_in
from .remarks import remarks

_MOST_ROWS = 20  #: of the tables by file and by function
_INDENT = 20  #: what stands before the facts of the totals
#: From this part of the waiting time, and these seconds, on, waits without a Python stack are named.
_LEAST_IDLE, _LEAST_IDLE_S = 0.05, 0.1
#: The least share, in percent, from which on unclassified time is named.
_LEAST_OPEN = 0.05
_NO_SOURCE = "(source not in the trace)"
#: Estimated sizes by the title of their column.
_SIZES: dict[str, Callable[[Line, Report], str]] = {"at end": held, "at peak": at_peak, "allocated": allocated}


def report_text(report: Report, screen: Screen, all_lines: bool = False, has_legend: bool = True) -> Iterator[str]:
    """The lines of the report. ``has_legend``: explain the columns at its end."""
    files = shown_files(report, all_lines)
    shown = [line.figures for file in files for line in file.lines if line.figures]
    columns = columns_for(report, shown, _longest_source(files), screen)
    functions = shown_functions(report)
    yield from header(report, screen)
    yield from _line_tables(report, files, columns, screen)
    if report.leaks:
        yield ""
        yield from leak_table(report.leaks[:_MOST_ROWS], screen)
    yield from device_table(report, screen)
    yield from _file_table(report, files, columns, screen)
    yield from function_table(functions, report, screen)
    yield from remarks(report, files, all_lines, screen)
    if has_legend:
        yield from _legend(report, files, functions, columns, screen)


def _longest_source(files: list[ShownFile]) -> int:
    texts = [text for file in files for block in _blocks(file) for text in _dedented(block)]
    return max(map(cells, texts), default=0)


def _legend(
    report: Report, files: list[ShownFile], functions: list[Function], columns: list[Column], screen: Screen
) -> Iterator[str]:
    """The explanation of what is shown; the table of functions has columns and marks of the same names."""
    names = {column.name for column in columns} if files else set()
    notes: list[str] = []
    marks: set[str] = set()
    for file in files:
        for block in _blocks(file):
            for line, text in zip(block, _dedented(block), strict=True):
                notes.append(_note(line.figures, text, screen.width - used(columns), report, screen))
                if line.figures:
                    marks |= _marks(line.figures, names, report)
    marks |= {"share"} if any(each.cpu_s and uncertain(each) for each in functions) else set()
    sizes = _function_sizes(report, screen)
    marks |= marks_in((size(each, report) for each in functions for size in sizes.values()), "size")
    yield from legend(names | (set(sizes) if functions else set()), notes, marks, report, screen)


def _marks(line: Line, names: set[str], report: Report) -> set[str]:
    """What is marked as uncertain in the row of a line."""
    sizes = (size(line, report) for name, size in _SIZES.items() if name in names)
    is_marked = "CPU %" in names and "error" not in names and bool(line.cpu_s and uncertain(line))
    return marks_in(sizes, "size") | ({"share"} if is_marked else set())


def functions_text(report: Report, screen: Screen) -> Iterator[str]:
    """The functions of the report, all of them."""
    for trace in report.traces:
        yield from trace_lines(trace, screen)
    if not report.functions:
        yield "No function of the program's own code has a sample. --all shows libraries too."
    yield from function_table(report.functions, report, screen)


def header(report: Report, screen: Screen) -> Iterator[str]:
    """Traces, losses, findings, totals and the footprint over time."""
    for trace in report.traces:
        yield from trace_lines(trace, screen)
    yield ""
    yield from findings_text(report.findings, screen)
    yield from _totals(report, screen)
    yield from _waiting(report, screen)
    yield from gpu_summary(report, screen)
    yield from _memory(report, screen)
    yield from device_facts(report, screen)


def _totals(report: Report, screen: Screen) -> Iterator[str]:
    totals = report.totals
    if totals.cpu_s is None:
        yield "CPU      not recorded"
        return
    parts = cpu_parts(totals)
    found = [(name, percent(part, totals.cpu_s)) for name, part in zip(CLASS_WORDS, parts, strict=True)]
    found = [(name, share) for name, share in found if name != "unclassified" or share >= _LEAST_OPEN]
    shares = [f"{screen.paint(name, name.lower())} {_whole(name, share)} %" for name, share in found]
    width = _headline(screen)
    below = []
    if screen.width >= 110:
        shares += [f"(garbage collection {percent(totals.gc_s, totals.cpu_s):.0f} %)"] if totals.gc_s else []
    elif len(found) == len(CLASS_WORDS):
        below = [" " * _INDENT + shares.pop(2)]
    shown = bar(screen, parts, totals.cpu_s, width) + "  " if width else ""
    yield f"CPU      {seconds(totals.cpu_s):>9}  {shown}{'  '.join(shares)}"
    yield from below


def _whole(name: str, share: float) -> str:
    """A share in whole percent. Of what is unclassified, which makes the other shares uncertain, less than 1 is not 0."""
    return "<1" if name == "unclassified" and share < 0.5 else f"{share:.0f}"


def _waiting(report: Report, screen: Screen) -> Iterator[str]:
    """The sum over all threads, and what they waited for."""
    totals, waits = report.totals, report.totals.waits
    if totals.wait_s is None:
        return
    named = {word: getattr(waits, f"{name}_s") for name, word in WAIT_WORDS.items()}
    parts = [f"{word} {percent(part, totals.wait_s):.0f} %" for word, part in named.items() if part]
    facts = joined([f"all threads: {parts[0]}", *parts[1:]], ", ", screen.width - _INDENT) if parts else []
    idle_s = math.fsum(each.wait_s or 0.0 for each in report.outside or [] if each.name is None)
    what = "unknown: Python stacks could not be read" if report.lacks_stacks else "without Python code"
    if idle_s >= max(_LEAST_IDLE * totals.wait_s, _LEAST_IDLE_S):  # idle threads of libraries, above all
        idle = f"{seconds(idle_s)} of it {what}"
        last = "; ".join([*facts[-1:], idle])
        facts[-1:] = [last] if _INDENT + cells(last) <= screen.width else [*facts[-1:], idle]
    yield from _below(f"Waiting  {seconds(totals.wait_s):>9}  ", facts or [""], screen)


def _below(head: str, facts: Sequence[str], screen: Screen) -> Iterator[str]:
    """``facts``, a line each: the first one after ``head``, the others under the figures of the totals."""
    for index, fact in enumerate(facts):
        line = (" " * _INDENT if index else head) + fact
        yield fit(line.rstrip(), screen.width, screen)


def _headline(screen: Screen) -> int:
    """Width of the bar and the sparkline beside the totals."""
    return 30 if screen.width >= 110 else 16 if screen.width >= 80 else 0


def _memory(report: Report, screen: Screen) -> Iterator[str]:
    totals = report.totals
    resident = [f"RSS {megabytes(totals.peak_rss_bytes)}"] if totals.peak_rss_bytes else []
    if totals.peak_bytes is None:
        yield "; ".join(["Memory   not recorded", *resident])
        return
    width = _headline(screen)
    shown = screen.paint(sparkline(screen, report.timeline or [], *time_range(report), width), "memory")
    left = _INDENT + (width + 2 if width else 0)
    facts = ["peak", f"Python's peak {megabytes(totals.python_peak_bytes)}", *resident]
    first, *others = joined(facts, "; ", screen.width - left)
    shown += "  " * (width > 0)
    yield f"Memory   {megabytes(totals.peak_bytes):>9}  {shown}{fit(first, screen.width - left, screen)}"
    yield from _below(" " * _INDENT, others, screen)
    yield from _volumes(report, screen)


def _volumes(report: Report, screen: Screen) -> Iterator[str]:
    """All bytes that were allocated and copied."""
    totals, facts = report.totals, []
    if totals.alloc_bytes is not None:
        facts.append(f"{megabytes(totals.alloc_bytes)} allocated")
        several = any(trace.processes > 1 for trace in report.traces)
        end = "the ends of processes" if several else "the end"
        facts.append(f"{megabytes(totals.live_at_end_bytes)} alive at {end}")
    if totals.copy_bytes:
        facts.append(f"{megabytes(totals.copy_bytes)} copied")
    if facts:
        yield from _below(" " * _INDENT, joined(facts, ", ", screen.width - _INDENT), screen)


def _line_tables(report: Report, files: list[ShownFile], columns: list[Column], screen: Screen) -> Iterator[str]:
    titles = " ".join([f"{'line':>{LINE}}", *(column.head() for column in columns)])
    for file in files:
        yield ""
        yield _file_title(file, report, screen)
        yield screen.paint(f"{titles}  source", "dim")
        for block in _blocks(file):
            if block[0] is not file.lines[0]:
                yield screen.paint(f"{screen.glyph('⋮', ':'):>{LINE}}", "dim")
            for line, text in zip(block, _dedented(block), strict=True):
                yield _line_row(line, text, report, columns, screen)


def _blocks(file: ShownFile) -> list[list[ShownLine]]:
    """The lines of the file in groups without a gap."""
    blocks: list[list[ShownLine]] = []
    for line in file.lines:
        if blocks and line.number == blocks[-1][-1].number + 1:
            blocks[-1].append(line)
        else:
            blocks.append([line])
    return blocks


def _dedented(block: list[ShownLine]) -> list[str]:
    """The texts of a block without the indentation that they have in common."""
    texts = [clean(line.source.rstrip()) if line.source is not None else None for line in block]
    indents = [len(text) - len(text.lstrip(" ")) for text in texts if text]
    common = min(indents, default=0)
    return [_without_source(line) if text is None else text[common:] for line, text in zip(block, texts, strict=True)]


def _without_source(line: ShownLine) -> str:
    """What stands for the text of a line: its function, if that has a name."""
    name = line.figures.function if line.figures is not None else None
    return f"in {clean(name)}()  {_NO_SOURCE}" if name and not name.endswith(">") else _NO_SOURCE


def _file_title(file: ShownFile, report: Report, screen: Screen) -> str:
    facts = []
    if file.cpu_s is not None:
        facts.append(f"{percent(file.cpu_s, report.totals.cpu_s):.1f} % of CPU time")
    if file.live_at_end_bytes:
        facts.append(f"{megabytes(file.live_at_end_bytes)} alive at the end")
    elif file.growth_bytes and file.live_at_end_bytes is None:
        facts.append(f"grew {megabytes(file.growth_bytes)}")
    tail = "  " + ", ".join(facts)
    name = clean(file.file)
    return screen.paint(fit_left(name, screen.width - cells(tail), screen), "bold") + tail


def _line_row(line: ShownLine, text: str, report: Report, columns: list[Column], screen: Screen) -> str:
    cells_of_line = [f"{line.number:>{LINE}}", *(column.cell(line.figures, screen) for column in columns)]
    room = screen.width - used(columns)
    note = _note(line.figures, text, room, report, screen)
    source = fit(text, room - cells(note), screen)
    shown = source if line.figures and line.source is not None else screen.paint(source, "dim")
    return (" ".join(cells_of_line) + "  " + shown + screen.paint(note, "native")).rstrip()


def _note(figures: Line | None, source: str, room: int, report: Report, screen: Screen) -> str:
    """The note on native code or garbage collection after the source, for lines that spend 1 % of all CPU time in it."""
    if figures is None:
        return ""
    called_s = figures.callees[0].cpu_s if figures.callees else 0.0
    if not reaches(max(figures.native_s or 0.0, figures.gc_s or 0.0, called_s), report.totals.cpu_s):
        return ""
    return line_note(figures, source, room, screen)


def _file_table(report: Report, files: list[ShownFile], columns: list[Column], screen: Screen) -> Iterator[str]:
    if len(files) < 2:
        return
    width = next((column.width for column in columns if column.name == "bar"), 10)
    longest_s = max(file.cpu_s or 0.0 for file in files)
    yield ""
    yield screen.paint("Files", "bold")
    for file in files[:_MOST_ROWS]:
        own = [line for line in report.lines if line.file == file.file]
        parts = [sum(each) for each in zip(*map(cpu_parts, own), strict=True)]
        held = file.growth_bytes if file.live_at_end_bytes is None else file.live_at_end_bytes
        yield _summary_row(clean(file.file), file.cpu_s, parts, held, report, longest_s, width, screen)


def _summary_row(
    name: str,
    cpu_s: float | None,
    parts: list[float],
    held: int | None,
    report: Report,
    longest_s: float,
    width: int,
    screen: Screen,
) -> str:
    columns = (
        [f"{percent(cpu_s, report.totals.cpu_s):6.1f} {bar(screen, parts, longest_s, width)}"]
        if cpu_s is not None
        else []
    )
    columns += [f"{megabytes(held) if held else '':>10}"] if held is not None else []
    plain = (7 + width) * (cpu_s is not None) + 12 * (held is not None)
    return " ".join(columns) + "  " + fit_left(name, screen.width - plain - 2, screen)


def shown_functions(report: Report) -> list[Function]:
    """Those with 1 % of the CPU time (including the functions that they call) or of the memory, at most 20."""
    return [each for each in report.functions if _function_matters(each, report)][:_MOST_ROWS]


def function_table(shown: list[Function], report: Report, screen: Screen) -> Iterator[str]:
    """The given functions, after an empty line; nothing without any."""
    if not shown:
        return
    has_cpu = report.totals.cpu_s is not None
    gpu = gpu_widths(report, screen.width)
    titles = f"{'self %':>6} {'all %':>6} {'':10}" * has_cpu
    titles += f"{'growth':>11}" if _has_growth(report) else ""
    titles += "".join(f"{name:>11}" for name in _function_sizes(report, screen))
    titles += f"{'all alloc':>11}" * _has_all_allocated(report, screen)
    titles += f"{'all wait':>10}" * (report.totals.wait_s is not None)
    titles += " " * bool(gpu) + " ".join(gpu_titles(gpu))
    yield ""
    yield screen.paint("Functions", "bold") + "  self: own lines; all: with called functions" * has_cpu
    yield screen.paint(titles + "  function", "dim")
    longest_s = max((each.cpu_s or 0.0 for each in shown), default=0.0)
    for each in shown:
        yield _function_row(each, report, longest_s, screen)


def _has_growth(report: Report) -> bool:
    """Is growth shown in the place of estimated sizes, since allocations were not sampled?"""
    return report.totals.peak_bytes is not None and report.totals.alloc_bytes is None


def _function_sizes(report: Report, screen: Screen) -> dict[str, Callable[[Line, Report], str]]:
    """The columns about estimated sizes, by title."""
    if report.totals.alloc_bytes is None or report.totals.peak_bytes is None:
        return {}
    return _SIZES if screen.width >= 112 else {"at end": held}


def _has_all_allocated(report: Report, screen: Screen) -> bool:
    """There is room for it without the GPU's columns."""
    return report.totals.alloc_bytes is not None and screen.width >= 80 and not gpu_widths(report, screen.width)


def _function_matters(function: Function, report: Report) -> bool:
    return matters(function, report) or reaches(function.cumulative_cpu_s, report.totals.cpu_s)


def _function_row(each: Function, report: Report, longest_s: float, screen: Screen) -> str:
    text = ""
    if report.totals.cpu_s is not None:
        own, cumulative = (percent(part, report.totals.cpu_s) for part in (each.cpu_s, each.cumulative_cpu_s))
        shares = f"{uncertain(each) if each.cpu_s else ''}{own:.1f}".rjust(6) + f" {cumulative:6.1f}"
        text = f"{shares} {bar(screen, cpu_parts(each), longest_s, 10)}"
    width = 24 * (report.totals.cpu_s is not None)
    sizes = [size(each, report) for size in _function_sizes(report, screen).values()]
    sizes += [megabytes(each.growth_bytes or None)] if _has_growth(report) else []
    text, width = text + "".join(f"{size:>11}" for size in sizes), width + 11 * len(sizes)
    if _has_all_allocated(report, screen):
        whole = each.cumulative_alloc_bytes or None
        text += f"{estimated(whole, each.cumulative_alloc_error_bytes, each.alloc_unseen_bytes):>11}"
        width += 11
    if report.totals.wait_s is not None:
        text += f"{seconds(each.cumulative_wait_s) if each.cumulative_wait_s else '':>10}"
        width += 10
    if gpu := gpu_widths(report, screen.width):
        text += " " + " ".join(gpu_columns(each, gpu))
        width += sum(gpu) + len(gpu)
    name, place = clean(each.function or ""), f"  {clean(each.file or '')}:{each.first_line}"
    if screen.is_cut:
        room = screen.width - width - 2
        name = fit(name, room, screen)
        place = "  " + fit_left(place.strip(), room - cells(name) - 2, screen) if room - cells(name) >= 12 else ""
    return f"{text}  {name}{screen.paint(place, 'dim')}"
