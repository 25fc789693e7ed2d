"""The report as text: totals, the lines that matter with their source, files and functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...analyze.report.line_filter import ShownFile, ShownLine, matters, reaches, shown_files
from ...analyze.results.estimates import at_most
from ...analyze.results.report import Function, Line, Report
from ...analyze.results.trend import GROWING, SAWTOOTH, SPIKE
from ...formats.units import megabytes, per_second, percent, seconds, size_text
from .gpu import (
    device_facts,
    device_table,
    gpu_columns,
    gpu_legend,
    gpu_summary,
    gpu_titles,
    gpu_widths,
)
from .memory import leak_table
from .native import NOTES_LEGEND, line_note
from .recording import trace_lines
from .remarks import remarks
from .table import estimated, wrap
from .text import Screen, bar, cells, clean, fit, fit_left, sparkline

_MOST_ROWS = 20  #: of the tables by file and by function
_LINE = 6  #: width of a line number
#: Trends that are named beside their sparkline. A flat one needs no name.
_NAMED = (GROWING, SAWTOOTH, SPIKE)


@dataclass(frozen=True)
class Layout:
    """Widths of the columns; 0 = the column is left out."""

    bar: int
    split: int
    growth: int
    python: int
    trend: int
    peak: int = 0
    alloc: int = 0
    copy: int = 0
    leak: int = 0
    wait: int = 0
    trend_class: int = 0
    gpu: tuple[int, ...] = ()
    error: int = 0

    @property
    def cpu(self) -> int:
        return 6 if self.bar else 0

    @property
    def memory(self) -> tuple[int, ...]:
        """Widths of the columns about memory, in their order."""
        return self.growth, self.peak, self.alloc, self.copy, self.leak, self.python, self.trend, self.trend_class


def layout_for(screen: Screen, report: Report) -> Layout:
    """The columns that fit the screen and have figures."""
    width, totals = screen.width, report.totals
    has_memory, has_allocations = totals.peak_bytes is not None, totals.alloc_bytes is not None
    least = 140 if has_allocations else 110
    bar_width, trend = (24, 16) if width >= 150 else (16, 12) if width >= least else (10, 7)
    has_copies = any(reaches(line.copy_bytes, totals.copy_bytes) for line in report.lines)
    return Layout(
        bar=bar_width * (totals.cpu_s is not None),
        error=5 * (width >= 100 and totals.cpu_s is not None),
        split=21 if width >= 150 and totals.cpu_s is not None else 0,
        growth=(8 if has_allocations else 9) * has_memory,
        python=4 * (has_memory and has_allocations and width >= 100),
        trend=trend * has_memory,
        peak=8 * (has_allocations and has_memory),
        alloc=9 * (has_allocations and width >= 100),
        copy=9 * (has_copies and width >= 110),
        leak=9 * (bool(report.leaks) and width >= 130),
        trend_class=8 * (has_memory and width >= 150 and any(line.trend_class in _NAMED for line in report.lines)),
        wait=8 * (width >= 80 and any(reaches(line.wait_s, totals.wait_s) for line in report.lines)),
        gpu=gpu_widths(report, width),
    )


def report_text(report: Report, screen: Screen, all_lines: bool = False) -> Iterator[str]:
    """The lines of the report."""
    layout = layout_for(screen, report)
    files = shown_files(report, all_lines)
    yield from header(report, screen)
    yield from _line_tables(report, files, layout, screen)
    if report.leaks:
        yield ""
        yield from leak_table(report.leaks[:_MOST_ROWS], screen)
    yield from device_table(report, screen)
    yield from _file_table(report, files, layout, screen)
    yield from function_table(report.functions, report, screen)
    yield from remarks(report, files, all_lines, screen)


def functions_text(report: Report, screen: Screen) -> Iterator[str]:
    """The functions of the report, all of them."""
    for trace in report.traces:
        yield from trace_lines(trace, screen)
    if not report.functions:
        yield "No function of the program's own code has a sample. --all shows libraries too."
    yield from function_table(report.functions, report, screen, everything=True)


def header(report: Report, screen: Screen) -> Iterator[str]:
    """Traces, losses, totals and the footprint over time."""
    for trace in report.traces:
        yield from trace_lines(trace, screen)
    yield ""
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
    parts = (totals.python_s or 0.0, totals.native_s or 0.0, totals.system_s or 0.0)
    names = [screen.paint(name, name.lower()) for name in ("Python", "native", "system")]
    shares = [f"{name} {percent(part, totals.cpu_s):.0f} %" for name, part in zip(names, parts, strict=True)]
    if totals.gc_s and screen.width >= 110:
        shares.append(f"(garbage collection {percent(totals.gc_s, totals.cpu_s):.0f} %)")
    shown = bar(screen, parts, totals.cpu_s, _headline(screen)) + "  " * (_headline(screen) > 0)
    yield f"CPU      {seconds(totals.cpu_s):>9}  {shown}{'  '.join(shares)}"


def _waiting(report: Report, screen: Screen) -> Iterator[str]:
    """The sum over all threads, and what they waited for."""
    totals, waits = report.totals, report.totals.waits
    if totals.wait_s is None:
        return
    named = {"asleep": waits.sleep_s, "disk": waits.disk_s, "CPU": waits.runnable_s, "GIL": waits.gil_s}
    parts = [f"{name} {percent(part, totals.wait_s):.0f} %" for name, part in named.items() if part]
    facts = "  ".join(["all threads: " * bool(parts) + ", ".join(parts)])
    yield fit(f"Waiting  {seconds(totals.wait_s):>9}  {facts}".rstrip(), screen.width, screen)


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
    shown = screen.paint(sparkline(screen, report.timeline or [], *time_range(report), width), "memory") + "  " * (
        width > 0
    )
    facts = "; ".join([f"peak; Python's peak {megabytes(totals.python_peak_bytes)}", *resident])
    yield f"Memory   {megabytes(totals.peak_bytes):>9}  {shown}{fit(facts, screen.width - 22 - width, screen)}"
    yield from _volumes(report, screen)


def _volumes(report: Report, screen: Screen) -> Iterator[str]:
    """All bytes that were allocated and copied."""
    totals, facts = report.totals, []
    if totals.alloc_bytes is not None:
        facts.append(f"{megabytes(totals.alloc_bytes)} allocated")
        several = any(trace.processes > 1 for trace in report.traces)
        end = "the ends of the processes" if several else "the end"
        facts.append(f"{megabytes(totals.live_at_end_bytes)} alive at {end}")
    if totals.copy_bytes:
        facts.append(f"{megabytes(totals.copy_bytes)} copied")
    if facts:
        yield fit(" " * 20 + ", ".join(facts), screen.width, screen)


def time_range(report: Report) -> tuple[float, float]:
    """Start and end of what the sparklines show, in seconds from the start of the recording."""
    points = report.timeline or []
    end_s = max([trace.wall_s or 0.0 for trace in report.traces] + [point[0] for point in points], default=0.0)
    return report.query["from_s"] or 0.0, report.query["to_s"] or end_s


def _line_tables(report: Report, files: list[ShownFile], layout: Layout, screen: Screen) -> Iterator[str]:
    if not files:
        return
    yield ""
    has_notes = any(_note(line.figures, "", screen.width, report, screen) for file in files for line in file.lines)
    yield from _legend(layout, has_notes, report, screen)
    longest_s = max((line.figures.cpu_s or 0.0 for file in files for line in file.lines if line.figures), default=0.0)
    for file in files:
        yield ""
        yield _file_title(file, report, screen)
        yield screen.paint(_column_titles(layout), "dim")
        before = 0
        for line in file.lines:
            if before and line.number > before + 1:
                yield screen.paint(f"{screen.glyph('⋮', ':'):>{_LINE}}", "dim")
            before = line.number
            yield _line_row(line, report, layout, longest_s, screen)


def _legend(layout: Layout, has_notes: bool, report: Report, screen: Screen) -> Iterator[str]:
    glyphs = screen.glyph("█▓░", "#=-")
    texts = []
    if layout.bar:
        texts.append(
            f"CPU % is the share of all CPU time. Its bar: {glyphs[0]} Python code, {glyphs[1]} native code (builtins"
            f" and extensions), {glyphs[2]} kernel; the busiest line has the longest bar."
        )
    if layout.error:
        texts.append("error: its standard error, in percent of all CPU time; two of them hold 95 % of true values.")
    elif layout.bar:
        texts.append("~ before a share: its standard error is more than a quarter of it.")
    if has_notes:
        texts.append(NOTES_LEGEND.format(arrow=screen.glyph("←", "<-"), times=screen.glyph("×", "x")))
    if layout.wait:
        texts.append("wait: how long threads waited there (sleep, locks, I/O, CPU, GIL), summed over all threads.")
    texts += gpu_legend(layout.gpu)
    if layout.growth:
        texts.append(
            (
                "at end, at peak: memory that the line had allocated and that was alive at the end, or at the peak (1 MB ="
                " 1,000,000 bytes); "
                if layout.peak
                else "growth: allocated minus freed by the line (1 MB = 1,000,000 bytes); "
            )
            + "py: share of its allocations that Python's allocators made; " * bool(layout.python)
            + "trend: allocated minus freed by it, over time."
            + _unseen(report) * bool(layout.peak)
        )
    for line in (line for text in texts for line in wrap(text, screen.width)):
        for glyph, style in zip(glyphs, ("python", "native", "system"), strict=True):
            line = line.replace(f" {glyph} ", f" {screen.paint(glyph, style)} ")
        yield line


def _unseen(report: Report) -> str:
    """What an empty cell about allocations means, and what the mark of estimates does."""
    unseen = min(each.alloc_unseen_bytes or 0 for each in (*report.lines, report.unattributed))
    if not unseen:
        return ""
    return (
        f" Memory is sampled: lines without a figure allocated less than {size_text(unseen)} each in 95 % of the cases;"
        " ~ before a size: its standard error is more than a quarter of it."
    )


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


def _column_titles(layout: Layout) -> str:
    titles = [f"{'line':>{_LINE}}"]
    titles += [f"{'CPU %':>{layout.cpu}}"] if layout.bar else []
    titles += [f"{'error':>{layout.error}}"] if layout.error else []
    titles += [f"{'':{layout.bar}}"] if layout.bar else []
    titles += [f"{'Python':>7}{'native':>7}{'system':>7}"] if layout.split else []
    titles += [f"{'wait':>{layout.wait}}"] if layout.wait else []
    titles += gpu_titles(layout.gpu)
    names = ("at end" if layout.peak else "growth", "at peak", "allocated", "copied", "leaks", "py")
    titles += [f"{name:>{width}}" for name, width in zip(names, layout.memory, strict=False) if width]
    titles += (
        [f"{'trend':{layout.trend + bool(layout.trend_class) * (layout.trend_class + 1)}}"] if layout.trend else []
    )
    return " ".join(titles) + "  source"


def _line_row(line: ShownLine, report: Report, layout: Layout, longest_s: float, screen: Screen) -> str:
    figures, columns = line.figures, [f"{line.number:>{_LINE}}"]
    if layout.bar:
        columns += _cpu_columns(figures, report, layout, longest_s, screen)
    if layout.wait:
        columns.append(f"{seconds(figures.wait_s) if figures and figures.wait_s else '':>{layout.wait}}")
    columns += gpu_columns(figures, layout.gpu)
    columns += _memory_columns(figures, report, layout, screen)
    text = clean(line.source.rstrip()) if line.source is not None else "(source not in the trace)"
    plain = _LINE + sum(
        1 + width
        for width in (layout.cpu, layout.error, layout.bar, layout.split, layout.wait, *layout.gpu, *layout.memory)
        if width
    )
    room = screen.width - plain - 2
    note = _note(figures, text, room, report, screen)
    source = fit(text, room - cells(note), screen)
    shown = source if figures and line.source is not None else screen.paint(source, "dim")
    return " ".join(columns) + "  " + shown + screen.paint(note, "native")


def _note(figures: Line | None, source: str, room: int, report: Report, screen: Screen) -> str:
    """The note on native code or garbage collection after the source, for lines that spend 1 % of all CPU time in it."""
    if figures is None:
        return ""
    called_s = figures.callees[0].cpu_s if figures.callees else 0.0
    if not reaches(max(figures.native_s or 0.0, figures.gc_s or 0.0, called_s), report.totals.cpu_s):
        return ""
    return line_note(figures, source, room, screen)


def _cpu_columns(figures: Line | None, report: Report, layout: Layout, longest_s: float, screen: Screen) -> list[str]:
    if figures is None or not figures.cpu_s:
        return [" " * width for width in (layout.cpu, layout.error, layout.bar, layout.split) if width]
    parts = (figures.python_s or 0.0, figures.native_s or 0.0, figures.system_s or 0.0)
    share = percent(figures.cpu_s, report.totals.cpu_s)
    number = f"{_uncertain(figures) if not layout.error else ''}{share:.1f}".rjust(layout.cpu)
    columns = [screen.paint(number, "bold") if share >= 10 else number]
    if layout.error:
        error = figures.cpu_percent_error or 0.0
        text = screen.glyph("±", "~") + (f"{error:.1f}" if error < 99.95 else f"{min(error, 999):.0f}")
        columns.append(screen.paint(f"{text:>{layout.error}}", "dim"))
    columns.append(bar(screen, parts, longest_s, layout.bar))
    if layout.split:
        columns.append("".join(f"{percent(part, report.totals.cpu_s):7.1f}" for part in parts))
    return columns


def _uncertain(figures: Line) -> str:
    """A mark for a share whose standard error is more than a quarter of it."""
    return "~" if 4 * (figures.cpu_error_s or 0.0) > (figures.cpu_s or 0.0) else ""


def _held(figures: Line, report: Report) -> str:
    """What it had allocated and was alive at the end: an estimate, not above that of the whole program."""
    held = at_most(figures.live_at_end_bytes or 0, report.totals.live_at_end_bytes)
    return estimated(held or None, figures.live_at_end_error_bytes, figures.live_unseen_bytes)


def _at_peak(figures: Line, report: Report) -> int | None:
    """What was alive at the peak: an estimate, not above the peak, which is counted (of several traces: of the highest)."""
    most = report.totals.peak_bytes if len(report.traces) == 1 else None
    return at_most(figures.live_at_peak_bytes or 0, most) or None


def _memory_columns(figures: Line | None, report: Report, layout: Layout, screen: Screen) -> list[str]:
    if figures is None:
        return [" " * width for width in layout.memory if width]
    fraction = figures.python_alloc_fraction
    texts = (
        _held(figures, report) if layout.peak else megabytes(figures.growth_bytes) if figures.trend else "",
        estimated(_at_peak(figures, report), figures.live_at_peak_error_bytes, figures.live_unseen_bytes),
        estimated(figures.alloc_bytes or None, figures.alloc_error_bytes, figures.alloc_unseen_bytes),
        per_second(figures.copy_bytes_per_s) if figures.copy_bytes_per_s else "",
        per_second(figures.leak_bytes_per_s) if figures.leak_bytes_per_s else "",
        f"{100 * fraction:.0f}%" if fraction is not None else "",
    )
    columns = [f"{text:>{width}}" for text, width in zip(texts, layout.memory, strict=False) if width]
    if layout.trend:
        columns.append(
            screen.paint(sparkline(screen, figures.trend or [], *time_range(report), layout.trend), "memory")
        )
    if layout.trend_class:
        name = figures.trend_class if figures.trend_class in _NAMED else ""
        columns.append(f"{name:{layout.trend_class}}")
    return columns


def _file_table(report: Report, files: list[ShownFile], layout: Layout, screen: Screen) -> Iterator[str]:
    if len(files) < 2:
        return
    width = layout.bar or 10
    longest_s = max(file.cpu_s or 0.0 for file in files)
    yield ""
    yield screen.paint("Files", "bold")
    for file in files[:_MOST_ROWS]:
        own = [line for line in report.lines if line.file == file.file]
        parts = [sum(getattr(line, name) or 0.0 for line in own) for name in ("python_s", "native_s", "system_s")]
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


def function_table(
    functions: list[Function], report: Report, screen: Screen, everything: bool = False
) -> Iterator[str]:
    """Functions with 1 % of the CPU time (including the functions that they call) or of the memory, at most 20;
    ``everything``: all functions."""
    shown = functions if everything else [each for each in functions if _function_matters(each, report)][:_MOST_ROWS]
    if not shown:
        return
    has_cpu, has_memory = report.totals.cpu_s is not None, report.totals.peak_bytes is not None
    titles = f"{'self %':>6} {'all %':>6} " * has_cpu + f"{'':10}" * has_cpu + f"{_held_title(report):>11}" * has_memory
    titles += f"{'at peak':>10}{'allocated':>11}" * _has_volumes(report, screen)
    titles += f"{'all alloc':>11}" * _has_all_allocated(report, screen)
    titles += f"{'all wait':>10}" * (report.totals.wait_s is not None)
    gpu = gpu_widths(report, screen.width)
    titles += " " * bool(gpu) + " ".join(gpu_titles(gpu))
    yield ""
    yield screen.paint("Functions", "bold") + "  self: own lines; all: with called functions" * has_cpu
    yield screen.paint(titles + "  function", "dim")
    longest_s = max((each.cpu_s or 0.0 for each in shown), default=0.0)
    for each in shown:
        yield _function_row(each, report, longest_s, screen)


def _held_title(report: Report) -> str:
    return "growth" if report.totals.alloc_bytes is None else "at end"


def _has_volumes(report: Report, screen: Screen) -> bool:
    return report.totals.alloc_bytes is not None and screen.width >= 112


def _has_all_allocated(report: Report, screen: Screen) -> bool:
    """There is room for it without the GPU's columns."""
    return report.totals.alloc_bytes is not None and screen.width >= 80 and not gpu_widths(report, screen.width)


def _function_matters(function: Function, report: Report) -> bool:
    return matters(function, report) or reaches(function.cumulative_cpu_s, report.totals.cpu_s)


def _function_row(each: Function, report: Report, longest_s: float, screen: Screen) -> str:
    text, width = "", 0
    if report.totals.cpu_s is not None:
        parts = (each.python_s or 0.0, each.native_s or 0.0, each.system_s or 0.0)
        own, cumulative = (percent(part, report.totals.cpu_s) for part in (each.cpu_s, each.cumulative_cpu_s))
        shares = f"{_uncertain(each) if each.cpu_s else ''}{own:.1f}".rjust(6) + f" {cumulative:6.1f}"
        text, width = f"{shares} {bar(screen, parts, longest_s, 10)}", 24
    if report.totals.peak_bytes is not None:
        growth = megabytes(each.growth_bytes) if each.growth_bytes else ""
        text, width = text + f"{growth if report.totals.alloc_bytes is None else _held(each, report):>11}", width + 11
    if _has_volumes(report, screen):
        live = estimated(_at_peak(each, report), each.live_at_peak_error_bytes, each.live_unseen_bytes)
        allocated = estimated(each.alloc_bytes or None, each.alloc_error_bytes, each.alloc_unseen_bytes)
        text += f"{live:>10}{allocated:>11}"
        width += 21
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
