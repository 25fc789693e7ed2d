"""Traces from Python: the results of the commands as rows, Arrow tables and pandas frames. Start at :func:`open`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from ..formats.units import counted
from .trace.selection import Selection

if TYPE_CHECKING:
    from .results.report import Report

PathLike = str | os.PathLike[str]


class Rows(Sequence[Any]):
    """Rows of a result: a sequence of records (see :mod:`results` and docs/json.md).

    :meth:`arrow` and :meth:`df` return them as tables. They need pyarrow and pandas, which are imported on first use.
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
        return f"<{counted(len(self), 'row', 'rows')} of {self._row.__name__}: {', '.join(self.columns)}>"

    @property
    def columns(self) -> list[str]:
        """The names of the fields, in order."""
        return list(self._row.__dataclass_fields__)  # type: ignore[attr-defined]

    def arrow(self) -> Any:
        """The rows as a pyarrow.Table. Fields with lists or records become columns of lists or structs."""
        from ..formats.trace.arrow import table_of
        from .results.base import to_json

        fields = self._row.__dataclass_fields__  # type: ignore[attr-defined]
        types = {name: str(each.type).removesuffix(" | None") for name, each in fields.items()}
        return table_of([to_json(row) for row in self._rows], types)

    def df(self) -> Any:
        """The rows as a pandas.DataFrame."""
        return self.arrow().to_pandas()

    def _repr_html_(self) -> str:
        """The first 60 rows as HTML, for notebooks."""
        return str(self.df().to_html(max_rows=60, escape=True))


@dataclass(frozen=True)
class Answer:
    """The result of an SQL statement."""

    _table: Any

    def arrow(self) -> Any:
        """The result as a pyarrow.Table."""
        return self._table

    def df(self) -> Any:
        """The result as a pandas.DataFrame; needs pandas."""
        return self._table.to_pandas()

    def rows(self) -> list[tuple[Any, ...]]:
        """The result as tuples of Python values."""
        return list(zip(*(column.to_pylist() for column in self._table.columns), strict=True))

    def _repr_html_(self) -> str:
        """The first 60 rows as HTML, for notebooks."""
        return str(self.df().to_html(max_rows=60, escape=True))


@dataclass(frozen=True)
class Analysis:
    """Traces with a selection of their samples. Each call reads the traces again and keeps no file open."""

    paths: tuple[Path, ...]
    selection: Selection = field(default_factory=Selection)

    def report(self) -> Report:
        """The whole report: totals, lines, functions, leaks and timeline."""
        from .report.report import build_report

        return build_report(self.paths, self.selection)

    def lines(self) -> Rows:
        """Rows of :class:`results.report.Line`: the cost of each line, the most CPU time first."""
        from .results.report import Line

        return Rows(self.report().lines, Line)

    def functions(self) -> Rows:
        """Rows of :class:`results.report.Function`: the cost of each function, by itself and with its callees."""
        from .results.report import Function

        return Rows(self.report().functions, Function)

    def leaks(self) -> Rows:
        """Rows of :class:`results.report.Leak`: the lines that leak; empty if allocations were not sampled."""
        from .results.report import Leak

        return Rows(self.report().leaks or [], Leak)

    def memory(
        self, by: str = "line", temporary_s: float | None = None, temporary_allocations: int | None = None
    ) -> Rows:
        """Rows of :class:`results.memory.MemoryRow`: allocations by line, function, type or allocator, the largest first.

        Allocations count as temporary if their own line freed them, if they lived at most ``temporary_s`` seconds, or if they
        were freed before more than ``temporary_allocations`` other allocations. Raises ValueError for another ``by``.
        """
        from .report.memory import BY, MemoryQuery, build_memory
        from .results.memory import MemoryRow

        if by not in BY:
            raise ValueError(f"by must be one of {', '.join(BY)}, not {by}")
        asked = MemoryQuery(by, temporary_s, temporary_allocations)
        return Rows(build_memory(self.paths, self.selection, asked, {}, "alloc_bytes", None).memory, MemoryRow)

    def timeline(self, points: int = 100) -> Rows:
        """Rows of :class:`results.timeline.TimelinePoint`: memory of the process tree, at most ``points`` rows per trace."""
        from .report.timeline import build_timeline
        from .results.timeline import TimelinePoint

        return Rows(build_timeline(self.paths, self.selection, {}, points).rows, TimelinePoint)

    def threads(self) -> Rows:
        """Rows of :class:`results.threads.ThreadInfo`: CPU and waiting time of each thread."""
        from .report.threads import build_threads
        from .results.threads import ThreadInfo

        return Rows(build_threads(self.paths, self.selection, {}).rows, ThreadInfo)

    def processes(self) -> Rows:
        """Rows of :class:`results.trace.ProcessInfo`: the process tree, each process after its parent."""
        from .report.processes import build_processes
        from .results.trace import ProcessInfo

        return Rows(build_processes(self.paths, self.selection.processes, {}, None, None).rows, ProcessInfo)

    def libraries(self) -> Rows:
        """Rows of :class:`results.libraries.LibraryRow`: native time by library and function."""
        from .report.libraries import build_libraries
        from .results.libraries import LibraryRow

        return Rows(build_libraries(self.paths, self.selection, {}, None, None).rows, LibraryRow)

    def sql(self, statement: str) -> Answer:
        """Runs a SELECT over the views of the traces (``scalene-analyze sql --schema`` lists them).

        The statement can read nothing else and write nothing. Raises QueryRefused if it is not allowed or fails.
        """
        from .user_sql.run import sql_arrow

        return Answer(sql_arrow(self.paths, statement, self.selection))

    def export(self, name: str, metrics: Sequence[str] | None = None) -> bytes:
        """The contents of a file in the format ``name`` (docs/exports.md).

        ``metrics``: the metrics to export; None = all that were recorded. Raises ValueError for an unknown format.
        """
        from .exports.export import FORMATS, Asked

        if name not in FORMATS:
            raise ValueError(f"the format must be one of {', '.join(FORMATS)}, not {name}")
        asked = Asked(self.paths, self.selection, tuple(metrics) if metrics is not None else None)
        return FORMATS[name].make(asked).contents


def open(  # noqa: A001 (scalene_trace.analyze.open is the public name)
    *paths: PathLike,
    from_s: float | None = None,
    to_s: float | None = None,
    processes: Sequence[int] = (),
    threads: Sequence[int] = (),
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    all_files: bool = False,
    mark: str | None = None,
    labels: Sequence[str] = (),
) -> Analysis:
    """Opens the traces at ``paths`` for analysis; figures of several traces are added up.

    The other arguments select samples like the command-line options of the same names (``labels``: NAME=VALUE of each); times are seconds from the start of
    the recording. Raises ValueError without paths, MarkError for a mark and LabelError for a label that is not in the trace, and the errors of :mod:`scalene_trace.formats.errors` if a trace cannot be
    read.
    """
    if not paths:
        raise ValueError("open() needs the path of at least one trace")
    from ..formats.trace.integrity import check_trace
    from .labels.costs import check_labels
    from .report.marked import placed

    if isinstance(labels, str):
        raise ValueError("labels is a list of texts, such as ['endpoint=/cart']")
    found = tuple(Path(path) for path in paths)
    for path in found:
        check_trace(path)
    check_labels(Selection(labels=tuple(labels)), found)
    lists = (tuple(processes), tuple(threads), tuple(include), tuple(exclude))
    return Analysis(found, placed(Selection(from_s, to_s, *lists, all_files, mark, tuple(labels)), found))


__all__ = ["Analysis", "Answer", "Rows", "open"]
