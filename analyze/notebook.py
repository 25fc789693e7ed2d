"""Traces from Python: what the commands answer, as rows, Arrow tables and pandas frames. Start at :func:`open`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from .trace.selection import Selection

if TYPE_CHECKING:
    from .results.records import Report

PathLike = str | os.PathLike[str]


class Rows(Sequence[Any]):
    """Rows of an answer: a sequence of records (see :mod:`results`, docs/json.md), or the same as a table.

    A table needs pyarrow, a frame pandas; neither is imported before.
    """

    def __init__(self, rows: Sequence[Any], row: type) -> None:
        self._rows, self._row = list(rows), row

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    def __getitem__(self, index: int | slice) -> Any:
        return Rows(self._rows[index], self._row) if isinstance(index, slice) else self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"<{len(self)} rows of {self._row.__name__}: {', '.join(self.columns)}>"

    @property
    def columns(self) -> list[str]:
        """The names of the fields."""
        return list(self._row.__dataclass_fields__)  # type: ignore[attr-defined]

    def arrow(self) -> Any:
        """A pyarrow.Table; fields that hold lists or records have columns of those."""
        from ..formats.trace.arrow import table_of
        from .results.records import to_json

        fields = self._row.__dataclass_fields__  # type: ignore[attr-defined]
        types = {name: str(each.type).removesuffix(" | None") for name, each in fields.items()}
        return table_of([to_json(row) for row in self._rows], types)

    def df(self) -> Any:
        """A pandas.DataFrame."""
        return self.arrow().to_pandas()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return str(self.df().to_html(max_rows=60, escape=True))


@dataclass(frozen=True)
class Answer:
    """The rows of a statement, as a pyarrow.Table (``arrow``), a pandas.DataFrame (``df``) or tuples (``rows``)."""

    _table: Any

    def arrow(self) -> Any:
        return self._table

    def df(self) -> Any:
        return self._table.to_pandas()

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as tuples of Python's own values."""
        return list(zip(*(column.to_pylist() for column in self._table.columns), strict=True))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return str(self.df().to_html(max_rows=60, escape=True))


@dataclass(frozen=True)
class Analysis:
    """Traces and what of them is looked at. Each call reads them anew, and keeps nothing open."""

    paths: tuple[Path, ...]
    selection: Selection = field(default_factory=Selection)

    def report(self) -> Report:
        """The whole report: totals, lines, functions, leaks, timeline, as plain records."""
        from .report.report import build_report

        return build_report(self.paths, self.selection)

    def lines(self) -> Rows:
        """What each line costs, the most CPU time first."""
        from .results.records import Line

        return Rows(self.report().lines, Line)

    def functions(self) -> Rows:
        """What each function costs, alone and with all that it calls."""
        from .results.records import Function

        return Rows(self.report().functions, Function)

    def leaks(self) -> Rows:
        """The lines that leak; none where allocations were not sampled."""
        from .results.records import Leak

        return Rows(self.report().leaks or [], Leak)

    def memory(
        self, by: str = "line", temporary_s: float | None = None, temporary_allocations: int | None = None
    ) -> Rows:
        """Who allocated what. ``by``: line, function, type or allocator; raises ValueError for another."""
        from .report.memory import BY, MemoryQuery, build_memory
        from .results.records import MemoryRow

        if by not in BY:
            raise ValueError(f"by is one of {', '.join(BY)}, not {by}")
        asked = MemoryQuery(by, temporary_s, temporary_allocations)
        return Rows(build_memory(self.paths, self.selection, asked, {}, "alloc_bytes", None).memory, MemoryRow)

    def timeline(self, points: int = 100) -> Rows:
        """Memory of the process tree over time, at most so many points a trace."""
        from .report.timeline import build_timeline
        from .results.records import TimelinePoint

        return Rows(build_timeline(self.paths, self.selection, {}, points).rows, TimelinePoint)

    def threads(self) -> Rows:
        """What each thread spent its time on."""
        from .report.threads import build_threads
        from .results.records import ThreadInfo

        return Rows(build_threads(self.paths, self.selection, {}).rows, ThreadInfo)

    def processes(self) -> Rows:
        """The process tree."""
        from .results.records import ProcessInfo
        from .user_sql.run import build_processes

        return Rows(build_processes(self.paths, self.selection.processes, {}, None, None).rows, ProcessInfo)

    def libraries(self) -> Rows:
        """Native time by library and by function."""
        from .report.libraries import build_libraries
        from .results.records import LibraryRow

        return Rows(build_libraries(self.paths, self.selection, {}, None, None).rows, LibraryRow)

    def sql(self, statement: str) -> Answer:
        """The rows of a SELECT over the views of the traces (``scalene-analyze sql --schema`` lists them).

        It can read nothing else and write nothing; raises QueryRefused where it is refused or does not run.
        """
        from .user_sql.run import sql_arrow

        return Answer(sql_arrow(self.paths, statement, self.selection))

    def export(self, name: str, metrics: Sequence[str] | None = None) -> bytes:
        """The traces as a file of another program (docs/exports.md). Raises ValueError for a format not known."""
        from .exports.export import FORMATS, Asked

        if name not in FORMATS:
            raise ValueError(f"the format is one of {', '.join(FORMATS)}, not {name}")
        asked = Asked(self.paths, self.selection, tuple(metrics) if metrics is not None else None)
        return FORMATS[name].make(asked).contents


def open(  # noqa: A001 (scalene_trace.analyze.open reads as what it does)
    *paths: PathLike,
    from_s: float | None = None,
    to_s: float | None = None,
    processes: Sequence[int] = (),
    threads: Sequence[int] = (),
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    all_files: bool = False,
) -> Analysis:
    """The traces at ``paths``, several of them added up. The rest selects samples as the options of the commands do.

    Raises the errors of :mod:`scalene_trace.formats.errors` where one cannot be read, and ValueError without any.
    """
    if not paths:
        raise ValueError("name at least one trace")
    from ..formats.trace.integrity import check_trace

    found = tuple(Path(path) for path in paths)
    for path in found:
        check_trace(path)
    lists = (tuple(processes), tuple(threads), tuple(include), tuple(exclude))
    return Analysis(found, Selection(from_s, to_s, *lists, all_files))


__all__ = ["Analysis", "Answer", "Rows", "open"]
