"""The tables: which columns each view has, how a row reads, how it is sorted and found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from ...analyze.results.report import Line
from ...formats.units import megabytes, per_second, seconds
from ..render.processes import command_text
from ..render.report.columns import allocated, at_peak, held, uncertain
from ..render.text import Screen, bar, clean, clean_name, cpu_parts
from ..render.threads import started_at, waits_in
from .reading import Process, Reading

#: A figure of a row, to sort by; None = it has none.
Figure = Callable[[Any, Reading], float | str | None]
_BAR = 10


@dataclass(frozen=True)
class Column:
    """A column. ``text`` makes a row's cell, cleaned; ``figure``: what it is sorted by, None = it is not; ``least``: the width
    of the screen from which on it is shown; ``is_number``: aligned to the right; ``is_rare``: shown only if
    a row has it."""

    title: str
    text: Callable[[Any, Reading, Screen], str]
    figure: Figure | None = None
    least: int = 0
    is_number: bool = False
    is_rare: bool = False


@dataclass(frozen=True)
class View:
    """A table. ``name``: a key of :data:`.reading.ROWS`; ``key``: what stays of a row from one reading to the next; ``words``:
    the texts in which a filter looks; ``place``: file and line of a row's source, None = there is none."""

    name: str
    columns: Sequence[Column]
    key: Callable[[Any], object]
    words: Callable[[Any], Sequence[str | None]]
    place: Callable[[Any], tuple[str, int] | None] = field(default=lambda _: None)

    def sortable(self) -> list[str]:
        """The titles of the columns that a table can be sorted by."""
        return [column.title for column in self.columns if column.figure]


def shown(view: View, reading: Reading, screen: Screen) -> list[Column]:
    """The columns that the screen has room for."""
    columns = [column for column in view.columns if screen.width >= column.least]
    return [
        column
        for column in columns
        if not column.is_rare or any(column.text(row, reading, screen) for row in reading.rows)
    ]


def arranged(view: View, reading: Reading, sort: str | None, is_reversed: bool, text: str) -> list[Any]:
    """The rows that have ``text`` in one of their words, in the order of the column with the title ``sort`` (None = the
    first that has figures): large ones and early words first, or reversed; rows without a figure are last."""
    wanted = text.casefold()
    rows = [row for row in reading.rows if any(wanted in (word or "").casefold() for word in view.words(row))]
    columns = [each for each in view.columns if each.figure]
    figure = next((each.figure for each in columns if each.title == sort), columns[0].figure)
    assert figure is not None
    found = [(figure(row, reading), row) for row in rows]
    known = [each for each in found if each[0] is not None]
    known.sort(key=lambda each: _order(each[0]), reverse=is_reversed)
    return [row for _, row in known] + [row for value, row in found if value is None]


def _order(value: float | str | None) -> Any:
    return value.casefold() if isinstance(value, str) else -(value or 0)


# ---- cells -----------------------------------------------------------------------------------------------------------


def of_core(time_s: float | None, window_s: float) -> float | None:
    """A time in percent of the window, so of one processor."""
    return None if time_s is None or window_s <= 0 else 100 * time_s / window_s


def _numbers(title: str, text: Callable[[Any, Reading, Screen], str], figure: Figure, least: int = 0) -> Column:
    return Column(title, text, figure, least, is_number=True)


def _percent(value: float | None, mark: str = "") -> str:
    return "" if not value else f"{mark}{value:,.1f}"


def _time(title: str, name: str, least: int = 0) -> Column:
    """The field ``name`` of rows, in seconds, as percent of the window."""

    def figure(row: Any, reading: Reading) -> float | None:
        return of_core(getattr(row, name), reading.window_s)

    return _numbers(title, lambda row, reading, _: _percent(figure(row, reading)), figure, least)


def _cpu_figure(row: Any, reading: Reading) -> float | None:
    return of_core(row.cpu_s, reading.window_s)


def _cpu(row: Line, reading: Reading, screen: Screen) -> str:
    """With a mark where its standard error is more than a quarter of it."""
    return _percent(_cpu_figure(row, reading), uncertain(row))


def _split(row: Any, reading: Reading, screen: Screen) -> str:
    return bar(screen, cpu_parts(row), reading.longest_s, _BAR) if row.cpu_s else ""


def _wait(name: str) -> Callable[[Any, Reading], float | None]:
    return lambda row, reading: of_core(getattr(row.waits, name), reading.window_s)


def _waits(title: str, name: str, least: int) -> Column:
    return _numbers(title, lambda row, reading, _: _percent(_wait(name)(row, reading)), _wait(name), least)


def _alive(row: Line, reading: Reading, screen: Screen) -> str:
    return held(row, reading.of_rows)


def _rate(row: Line, reading: Reading) -> float | None:
    return row.alloc_bytes / reading.window_s if row.alloc_bytes and reading.window_s > 0 else None


def _rate_text(row: Line, reading: Reading, screen: Screen) -> str:
    rate = _rate(row, reading)
    return per_second(rate) if rate else ""


def _place(row: Line) -> str:
    return f"{clean(row.file or '')}:{row.line}" if row.file else ""


def _short_place(row: Line, reading: Reading, screen: Screen) -> str:
    """The file's name, with its folder where other lines are in a file of the same name."""
    if not row.file:
        return ""
    path = PurePath(row.file)
    name = "/".join(path.parts[-2:]) if path.name in reading.shared_names else path.name
    return f"{clean(name)}:{row.line}"


def _command(row: Process) -> str:
    return "  " * min(row.info.depth, 12) + command_text(row.info)


def _field_of_process(name: str) -> Figure:
    return lambda row, _: getattr(row.info, name)


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _as_text(of: Callable[[Any], str]) -> Callable[[Any, Reading, Screen], str]:
    return lambda row, _, __: of(row)


def _field(name: str) -> Figure:
    return lambda row, _: getattr(row, name)


# ---- views -----------------------------------------------------------------------------------------------------------

_CPU = _numbers("CPU %", _cpu, _cpu_figure)
#: Of threads and processes, whose errors are not known.
_CPU_SUM = _time("CPU %", "cpu_s")
_PARTS = (
    _time("Python", "python_s", 120),
    _time("native", "native_s", 120),
    _time("system", "system_s", 120),
    replace(_time("unclassified", "unclassified_s", 120), is_rare=True),
)
_SPLIT = Column("", _split, least=70)
_RATE = _numbers("allocated/s", _rate_text, _rate, 100)
_LINE = Column("line", _short_place, lambda row, _: f"{row.file or ''}:{row.line or 0:9}")
_SOURCE = Column("source", _as_text(lambda row: clean((row.source or "").strip())), least=60)
_IN = Column("function", _as_text(lambda row: clean(row.function or "")), _field("function"), 150)


def _key_of_line(row: Line) -> object:
    return row.file, row.line, row.function


def _words_of_line(row: Line) -> Sequence[str | None]:
    return row.file, row.function, row.source, _place(row)


def _source_of(row: Line) -> tuple[str, int] | None:
    return (row.file, row.line) if row.file and row.line else None


_WAIT = _time("wait %", "wait_s")
LINES = View(
    "lines",
    (
        _CPU,
        *_PARTS,
        _SPLIT,
        _WAIT,
        _RATE,
        _numbers("alive", _alive, _field("live_at_end_bytes"), 140),
        _LINE,
        _IN,
        _SOURCE,
    ),
    _key_of_line,
    _words_of_line,
    _source_of,
)
FUNCTIONS = View(
    "functions",
    (
        _CPU,
        _time("with callees", "cumulative_cpu_s"),
        *_PARTS,
        _SPLIT,
        _WAIT,
        _RATE,
        replace(_IN, least=0),
        _LINE,
    ),
    lambda row: (row.file, row.function, row.first_line),
    _words_of_line,
    _source_of,
)
MEMORY = View(
    "memory",
    (
        _numbers("alive", _alive, _field("live_at_end_bytes")),
        _numbers("at peak", lambda row, reading, _: at_peak(row, reading.of_rows), _field("live_at_peak_bytes"), 100),
        _numbers("allocated", lambda row, reading, _: allocated(row, reading.of_rows), _field("alloc_bytes")),
        _numbers("growth", lambda row, _, __: megabytes(row.growth_bytes) if row.growth_bytes else "", _field("growth_bytes"), 90),
        _numbers(
            "leaks", lambda row, _, __: per_second(row.leak_bytes_per_s) if row.leak_bytes_per_s else "",
            _field("leak_bytes_per_s"),
        ),
        _LINE, _IN, _SOURCE,
    ),
    _key_of_line,
    _words_of_line,
    _source_of,
)  # fmt: skip
THREADS = View(
    "threads",
    (
        _CPU_SUM,
        *_PARTS,
        _WAIT,
        _waits("sleep", "sleep_s", 90),
        _waits("GIL", "gil_s", 0),
        _waits("runnable", "runnable_s", 110),
        _waits("disk", "disk_s", 110),
        _numbers("process", _as_text(lambda row: str(row.process)), lambda row, _: -row.process),
        _numbers("tid", _as_text(lambda row: _number(row.tid)), lambda row, _: -(row.tid or 0), 90),
        Column("name", _as_text(lambda row: clean_name(row.shown_name or "")), lambda row, _: row.shown_name or ""),
        Column("waits in", lambda row, _, screen: waits_in([row], screen), _field("waits_in"), 120, is_rare=True),
        Column("started at", _as_text(started_at), lambda row, _: started_at(row), 70),
    ),
    lambda row: (row.process, row.thread),
    lambda row: (row.shown_name, row.started_file, row.waits_in, _number(row.tid)),
)
PROCESSES = View(
    "processes",
    (
        _CPU_SUM,
        _numbers("CPU", lambda row, _, __: seconds(row.info.cpu_s), _field_of_process("cpu_s")),
        _numbers("RSS now", lambda row, _, __: megabytes(row.info.last_rss_bytes), _field_of_process("last_rss_bytes")),
        _numbers("peak memory", lambda row, _, __: megabytes(row.info.peak_bytes), _field_of_process("peak_bytes"), 90),
        _numbers("growth", lambda row, _, __: megabytes(row.info.growth_bytes), _field_of_process("growth_bytes"), 110),
        _numbers("threads", _as_text(lambda row: str(len(row.threads))), lambda row, _: len(row.threads), 70),
        _numbers("id", _as_text(lambda row: str(row.info.process)), lambda row, _: -row.info.process),
        _numbers("pid", _as_text(lambda row: _number(row.info.pid)), lambda row, _: -(row.info.pid or 0)),
        Column("Python", _as_text(lambda row: clean(row.info.python or "")), _field_of_process("python"), 130),
        Column("state", _as_text(lambda row: clean(row.info.end or "")), _field_of_process("end"), 70),
        Column("command", _as_text(_command), lambda row, _: _command(row).strip()),
    ),
    lambda row: row.info.process,
    lambda row: (*(row.info.command or ()), row.info.executable, _number(row.info.pid)),
)  # fmt: skip

VIEWS: dict[str, View] = {each.name: each for each in (LINES, FUNCTIONS, MEMORY, THREADS, PROCESSES)}
