"""Process trees, and the facts of ``info``, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...analyze.results.base import Table
from ...analyze.results.trace import Info, ProcessInfo
from ...formats.dataclass import replace
from ...formats.units import megabytes, seconds
from .recording import loss_lines, marks_table, trace_lines
from .table import align_right, columns_text, wrap
from .text import Screen, bar, cells, clean, cpu_parts, fit

_BAR_FROM, _PEAK_FROM = 90, 120  #: widths of the screen from which on processes have these columns


def processes_text(table: Table, screen: Screen) -> Iterator[str]:
    """The process tree of each trace."""
    for index, trace in enumerate(table.traces, start=1):
        yield from trace_lines(trace, screen)
        yield ""
        yield from process_table([row for row in table.rows if row.trace == index], screen, table.query["sort"] is None)
        yield ""
    is_open = any(row.unclassified_s for row in table.rows)
    texts = [f"The bar is CPU time: Python, native{', unclassified (?)' * is_open}, system."] * (
        screen.width >= _BAR_FROM
    )
    texts += ["peak: highest footprint."] * (screen.width >= _PEAK_FROM)
    texts += ["RSS: highest resident set, including pages that a forked process shares with its parent."]
    texts += ["exec starts a new row."]
    statuses = [row.exit_status for row in table.rows if row.end not in ("exec", "running")]
    texts += ["status: 128 + n if signal n killed the process."] * any((status or 0) > 128 for status in statuses)
    texts += ["No status: nobody had waited for the process when the recording ended."] * (None in statuses)
    yield from (screen.paint(line, "dim") for line in wrap(" ".join(texts), screen.width))


def process_table(rows: Sequence[ProcessInfo], screen: Screen, is_tree: bool = True) -> Iterator[str]:
    """A row for each process, with more columns on wider screens; commands are indented by their depth in the tree."""
    columns = _columns(rows, screen)
    widths = [max(cells(text) for text in (title, *texts)) for title, texts in columns]
    titles = (align_right(title, width) for (title, _), width in zip(columns, widths, strict=True))
    yield screen.paint("  ".join(titles) + "  command", "dim")
    room = screen.width - sum(widths) - 2 * len(widths)
    for number, row in enumerate(rows):
        cells_of_row = (align_right(texts[number], width) for (_, texts), width in zip(columns, widths, strict=True))
        indent = "  " * min(row.depth, 12) * is_tree
        yield "  ".join(cells_of_row) + "  " + fit(indent + command_text(row), room, screen)


def _columns(rows: Sequence[ProcessInfo], screen: Screen) -> list[tuple[str, list[str]]]:
    """Titles and texts of the columns that fit the screen and are not empty."""
    longest_s = max((row.cpu_s for row in rows), default=0.0)
    columns = [
        (0, "id", [str(row.process) for row in rows]),
        (0, "pid", ["" if row.pid is None else str(row.pid) for row in rows]),
        (90, "parent", ["" if row.parent is None else str(row.parent) for row in rows]),
        (0, "by", [clean(row.cause or "") for row in rows]),
        (110, "Python", [clean(row.python or "") for row in rows]),
        (100, "start", [seconds(row.start_s) for row in rows]),
        (100, "end", [seconds(row.end_s) for row in rows]),
        (0, "status", [row.end if row.end in ("exec", "running") else _number(row.exit_status) for row in rows]),
        (120, "threads", [f"{row.threads:,}" for row in rows]),
        (160, "ticks", [f"{row.ticks:,}" for row in rows]),
        (0, "CPU", [seconds(row.cpu_s) for row in rows]),
        (_BAR_FROM, "", [_split(row, longest_s, screen) for row in rows]),
        (140, "growth", [megabytes(row.growth_bytes) for row in rows]),
        (_PEAK_FROM, "peak", [megabytes(row.peak_bytes) for row in rows]),
        (0, "RSS", [megabytes(row.peak_rss_bytes) for row in rows]),
    ]
    return [(title, texts) for least, title, texts in columns if screen.width >= least and any(texts)]


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _split(row: ProcessInfo, longest_s: float, screen: Screen) -> str:
    if row.python_s is None:
        return ""
    return bar(replace(screen, has_color=False), cpu_parts(row), longest_s, 10)


def command_text(row: ProcessInfo) -> str:
    """The command, with its program as a file name without folders."""
    words = row.command or ([row.executable] if row.executable else [])
    return clean(" ".join([words[0].rpartition("/")[2], *words[1:]])) if words else "(unknown)"


def info_text(table: Info, screen: Screen) -> Iterator[str]:
    """Settings, events, losses, processes and marks of each trace."""
    for index, trace in enumerate(table.traces, start=1):
        yield screen.paint(clean(trace["path"]), "bold")
        facts = {
            "trace id": trace["trace_id"],
            "format": trace["format_version"],
            "size": f"{trace['size_bytes']:,} bytes",
        }
        facts |= trace["settings"]
        facts["events"] = ", ".join(f"{name} {count:,}" for name, count in trace["events"].items() if count is not None)
        yield from columns_text(["", ""], [[clean(name), clean(value)] for name, value in facts.items()], screen, set())
        yield ""
        if not trace["losses"]:
            yield "No losses."
        for loss in trace["losses"]:
            yield from loss_lines(loss, screen)
        yield ""
        yield from process_table([row for row in table.rows if row.trace == index], screen)
        yield from marks_table([mark for mark in table.marks if mark.trace == index], screen)
