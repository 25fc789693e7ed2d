"""Memory as text: leaks, what allocates, and what the resident set consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...analyze.results.base import Table
from ...analyze.results.estimates import at_most, most_at_end
from ...analyze.results.memory import MemoryReport, MemoryRow, Reconciliation
from ...analyze.results.report import Leak
from ...formats.units import counted, megabytes, per_second, percent, seconds
from .recording import trace_lines
from .table import MARKS, estimated, place, wrap
from .text import Screen, clean, fit, pad, sparkline

_MOST_ROWS = 40
_LEAST_SHARE = 0.01
_PART_NAMES = {
    "python_pools": "Python's small objects (pools)",
    "python_malloc": "Python's larger blocks",
    "native_malloc": "native blocks",
    "mappings": "mapped directly (mmap)",
    "arenas_unused": "unused in Python's arenas",
    "shared": "files and shared memory",
    "other": "everything else",
}
_PART_WIDTH = 32

_NO_LEAK = (
    "No leak was found. (A leak needs at least 18 sampled allocations that were not freed, spread over the recording,"
    " in a process of at least 4 s.)"
)
_NOT_RECORDED = "Allocations were not recorded (--alloc-interval 0 or --no-memory)."


def leaks_text(table: Table, screen: Screen) -> Iterator[str]:
    """The leaks, two lines each: figures and place, then the source."""
    for trace in table.traces:
        yield from trace_lines(trace, screen)
    yield ""
    if all(trace.events["alloc"] is None for trace in table.traces):
        yield _NOT_RECORDED
    elif not table.rows:
        yield from wrap(_NO_LEAK, screen.width)
    else:
        yield from leak_table(table.rows, screen, has_source=True)


def leak_table(leaks: Sequence[Leak], screen: Screen, has_source: bool = False) -> Iterator[str]:
    """Title, column names and a line for each leak; below it its native stack, if that was recorded. ``has_source``: its
    source too."""
    is_wide = screen.width >= 100
    titles = f"{'rate':>10} {'±':>6} {'sure':>6} {'at end':>8} " + f"{'age':>7} {'trend':12} " * is_wide
    yield screen.paint("Leaks", "bold") + fit(
        "  rate with its standard error; memory alive at the end", screen.width - 5, screen
    )
    yield screen.paint(titles.replace("±", screen.glyph("±", "+-")) + " where", "dim")
    for leak in leaks:
        error = f"{percent(leak.error_bytes_per_s, leak.bytes_per_s):.0f} %"
        text = f"{per_second(leak.bytes_per_s):>10} {error:>6} {100 * leak.probability:>4.1f} %"
        text += f" {megabytes(leak.live_at_end_bytes):>8} "
        if is_wide:
            end_s = leak.trend[-1][0] if leak.trend else 0.0
            curve = sparkline(screen, leak.trend, leak.trend[0][0] if leak.trend else 0.0, end_s, 12)
            text += f"{seconds(leak.age_s):>7} {screen.paint(curve, 'memory')} "
        used = len(titles)
        yield (
            text + " " + place(leak.file, leak.line, f"{leak.type or leak.allocator} in {leak.function}", used, screen)
        )
        if has_source and leak.source is not None:
            yield " " * (used + 1) + fit(clean(leak.source.strip()), screen.width - used - 1, screen)
        if leak.native_stack:
            calls = " > ".join(clean(f"{each.name} ({each.library})") for each in leak.native_stack)
            yield " " * (used + 1) + screen.paint(fit(f"by {calls}", screen.width - used - 1, screen), "native")


@dataclass(frozen=True)
class _Most:
    """The most that can be alive at the peak of the footprint, and at the end; None = unknown."""

    peak: int | None
    end: int | None


@dataclass(frozen=True)
class _Column:
    """A column of numbers, shown on screens from ``least_width`` on. ``text``: of a row, with the most that can be alive."""

    title: str
    width: int
    text: Callable[[MemoryRow, _Most], str]
    least_width: int = 0


def _limited(size_bytes: int | None, most_bytes: int | None) -> int | None:
    """An estimate of what was alive as it is shown: not above the footprint, which is counted."""
    return None if size_bytes is None else at_most(size_bytes, most_bytes)


def _share(part: float | None, whole: float) -> str:
    return f"{percent(part, whole):.0f} %" if part is not None and whole else ""


def _error(error: float, value: float) -> str:
    share = percent(error, value)
    return "" if not value and error else f"{share:.1f} %" if share < 100 else f"{share:.0f} %"


_COLUMNS = (
    _Column(
        "allocated",
        9,
        lambda row, most: megabytes(row.alloc_bytes) if row.alloc_bytes else estimated(0, 0, row.alloc_unseen_bytes),
    ),
    _Column("±", 6, lambda row, most: _error(row.alloc_error_bytes, row.alloc_bytes)),
    _Column("count", 13, lambda row, most: f"{row.allocations:,}", 100),
    _Column(
        "at peak",
        8,
        lambda row, most: estimated(
            _limited(row.live_at_peak_bytes, most.peak),
            row.live_at_peak_error_bytes,
            _limited(row.live_unseen_bytes, most.peak),
        ),
    ),
    _Column(
        "at end",
        8,
        lambda row, most: estimated(
            _limited(row.live_at_end_bytes, most.end),
            row.live_at_end_error_bytes,
            _limited(row.live_unseen_bytes, most.end),
        ),
    ),
    _Column("temp.", 6, lambda row, most: _share(row.temporary_bytes, row.alloc_bytes)),
    _Column("young", 6, lambda row, most: _share(row.died_young, row.allocations), 110),
    _Column("lived", 7, lambda row, most: seconds(row.mean_lifetime_s), 110),
)


def memory_text(report: MemoryReport, screen: Screen, has_legend: bool = True) -> Iterator[str]:
    """The peak, what the resident set consists of, a line for each row, and what the columns mean."""
    for trace in report.traces:
        yield from trace_lines(trace, screen)
    yield ""
    for peak in report.peaks:
        name = f" of {clean(Path(report.traces[peak.trace - 1].path).name)}" * (len(report.traces) > 1)
        yield f"Peak{name}: {megabytes(peak.footprint_bytes)} after {seconds(peak.t_s)}"
    yield from _reconciliations(report, screen)
    yield ""
    if all(trace.events["alloc"] is None for trace in report.traces):
        yield _NOT_RECORDED
    else:
        yield from _rows(report, screen)
        yield from _legend(report, screen) if has_legend else ()


def _reconciliations(report: MemoryReport, screen: Screen) -> Iterator[str]:
    for trace in sorted({each.trace for each in report.reconciliation}):
        found = [each for each in report.reconciliation if each.trace == trace]
        yield ""
        yield from _reconciliation(found, screen)
    if any(each.processes > 1 for each in report.reconciliation):
        text = "Pages that processes share (code, files, memory from before a fork) count in each of them."
        yield from wrap(text, screen.width)
    shared = max((each.shared_mapped_bytes or 0 for each in report.reconciliation), default=0)
    if shared:
        text = f"Files and shared memory include {megabytes(shared)} of shared anonymous mappings (MAP_SHARED)."
        yield from wrap(text, screen.width)
    below_none = [each for each in report.reconciliation if _part(each, "other") < 0]
    if below_none:
        text = "A negative rest means that more was allocated than touched, or that memory changed between two readings"
        if any(each.shared_mapped_bytes is None and _part(each, "mappings") > 0 for each in below_none):
            text += (
                ". It may also be shared anonymous memory (MAP_SHARED): in this recording, by an older version, it is both"
                " in what was mapped directly and in files and shared memory"
            )
        yield from wrap(f"{text}.", screen.width)


def _part(found: Reconciliation, name: str) -> int:
    return next((part.bytes or 0 for part in found.parts if part.name == name), 0)


def _reconciliation(moments: list[Reconciliation], screen: Screen) -> Iterator[str]:
    names = {"peak": "at its peak", "end": "at the end"}
    heads = "".join(f"{f'{names[each.moment]}, {seconds(each.t_s)}':>23}" for each in moments)
    head = fit(pad("Resident set", _PART_WIDTH) + heads, screen.width, screen)
    yield screen.paint(head[:_PART_WIDTH], "bold") + screen.paint(head[_PART_WIDTH:], "dim")
    rows = [(_PART_NAMES[part.name], [each.parts[i] for each in moments]) for i, part in enumerate(moments[0].parts)]
    for name, parts in rows:
        shares = [f"{100 * part.share:.1f} %" if part.share is not None else "" for part in parts]
        yield _part_line(name, [(megabytes(p.bytes), share) for p, share in zip(parts, shares, strict=True)], screen)
    yield _part_line("total", [(megabytes(each.rss_bytes), "100.0 %") for each in moments], screen)
    if any(each.reserved_bytes for each in moments):
        sizes = [(megabytes(each.reserved_bytes), "") for each in moments]
        yield screen.paint(_part_line("reserved, not resident", sizes, screen), "dim")


def _part_line(name: str, cells: list[tuple[str, str]], screen: Screen) -> str:
    texts = "".join(f"{size:>14}{share:>9}" for size, share in cells)
    return fit((pad(f"  {name}", _PART_WIDTH) + texts).rstrip(), screen.width, screen)


def _rows(report: MemoryReport, screen: Screen) -> Iterator[str]:
    columns = _columns(screen)
    by = report.query["by"]
    error = screen.glyph("±", "+-")
    titles = " ".join(f"{column.title:>{column.width}}" for column in columns)
    yield screen.paint(f"{titles.replace(' ±', error.rjust(2))}  {by}", "dim")
    shown = _shown(report)
    for row in shown:
        yield _row(row, _name(row, by, columns, screen), columns, report, screen)
    if by in ("line", "function"):
        yield _row(report.unattributed, "(outside the program's own code)", columns, report, screen)
    if report.imports.samples:
        yield _row(report.imports, "(during imports: part of the rows above)", columns, report, screen)
    yield _row(report.totals, "total", columns, report, screen)
    if len(shown) < len(report.memory):
        yield ""
        count = len(report.memory)
        are = "row is" if len(shown) == 1 else "rows are"
        text = f"{len(shown)} of {count:,} {are} shown: those with 1 % or more. --limit {count} shows all of them."
        yield from wrap(text, screen.width)


def _columns(screen: Screen) -> list[_Column]:
    return [column for column in _COLUMNS if screen.width >= column.least_width]


def _legend(report: MemoryReport, screen: Screen) -> Iterator[str]:
    """What the columns and marks that are shown mean, after an empty line."""
    columns = _columns(screen)
    titles = {column.title for column in columns}
    texts = [f"{screen.glyph('±', '+-')}: standard error of the allocated bytes"]
    texts += [f"temp.: share that the allocating line freed itself{_limits(report)}"]
    texts += ["young: share that was freed before a garbage collection"] if "young" in titles else []
    texts += ["lived: mean lifetime of freed memory"] if "lived" in titles else []
    rows = [*_shown(report), report.unattributed, report.imports, report.totals]
    cells = [column.text(row, _most(report)) for row in rows for column in columns]
    texts += [text for mark, text in MARKS.items() if any(cell.startswith(mark) for cell in cells)]
    yield ""
    yield from wrap(f"{'; '.join(texts)}.", screen.width)


def _limits(report: MemoryReport) -> str:
    within_s, within = report.query["temporary_s"], report.query["temporary_allocations"]
    text = f", or that was freed within {within_s:g} s" if within_s is not None else ""
    return text + (
        f", or within {counted(within, 'other allocation', 'other allocations')}" if within is not None else ""
    )


def _shown(report: MemoryReport) -> list[MemoryRow]:
    if report.query["limit"] is not None:
        return report.memory
    names = ("alloc_bytes", "live_at_peak_bytes", "live_at_end_bytes", "temporary_bytes")
    least = {name: _LEAST_SHARE * (getattr(report.totals, name) or 0) for name in names}
    matter = [r for r in report.memory if any((getattr(r, n) or 0) >= least[n] > 0 for n in names)]
    return matter[:_MOST_ROWS]


def _name(row: MemoryRow, by: str, columns: Sequence[_Column], screen: Screen) -> str:
    if by == "type":
        return clean(row.type or "(not a Python object, or unknown)")
    if by == "allocator":
        return f"{clean(row.allocator or '')}, {clean(row.family or '')}"
    used = sum(column.width + 1 for column in columns)
    said = row.function if by == "function" else (row.source or "").strip()
    return place(row.file or "", row.line, said or "", used, screen)


def _most(report: MemoryReport) -> _Most:
    peak = sum(each.footprint_bytes for each in report.peaks) if report.peaks else None
    return _Most(peak, most_at_end(peak, (trace.processes for trace in report.traces)))


def _row(row: MemoryRow, name: str, columns: Sequence[_Column], report: MemoryReport, screen: Screen) -> str:
    texts = " ".join(f"{column.text(row, _most(report)):>{column.width}}" for column in columns)
    name = fit(name, screen.width - len(texts) - 2, screen)
    return f"{texts}  {name}" if name[:1] != "(" else f"{texts}  {screen.paint(name, 'dim')}"
