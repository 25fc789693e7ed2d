"""Opens traces: checks every byte, then shows them as views in a DuckDB that can reach nothing else.

A trace may come from a stranger. Nothing in it is ever executed. DuckDB is configured to open no file except the traces,
to load no extension, to see no Python variable, and to refuse changes of that configuration. Where SQL of a user is to
run (``sealed``), what it names is loaded first, and then DuckDB may open no file at all: permission to read the traces
would also permit writing them, and a COPY inside a WITH clause passes for a SELECT (docs/design/analysis.md).
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ...formats.errors import OutOfMemory, TraceChanged, TraceDamaged
from ...formats.identity import identity_of
from ...formats.trace import schema
from ...formats.trace.integrity import TraceHeader, check_trace
from . import catalogue, contents, memory, views
from .connection import Connection
from .damage import damage, read_records
from .making.ahead import is_interrupt
from .making.unmade import Views
from .selection import Selection, labels_filled, macros
from .sql_text import literal
from .user_code import select_user_files
from .views import REPORT_TABLES as REPORT_TABLES

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Settings of DuckDB: ways to load or to see what is not a trace.
SWITCHED_OFF = (
    "autoinstall_known_extensions",
    "autoload_known_extensions",
    "python_enable_replacements",
    "allow_community_extensions",
)
#: A sentinel greater than any id: ids count from 1 and never get so far.
_NO_ID = 2**31 - 1
#: The most threads that work on one report, and the memory that DuckDB must be allowed for each: with less, they work one
#: by one. Two need 80 MiB together for 489,396 ticks; the rest is a guess for larger traces.
_MOST_AT_ONCE, _BYTES_AT_ONCE = 4, 256 << 20


@dataclass(frozen=True)
class TraceFile:
    """An opened file: the path as given, what its metadata says, and what identifies the file that was checked."""

    path: Path
    header: TraceHeader
    identity: tuple[int, ...]


def _checked(path: Path) -> TraceFile:
    identity = identity_of(path)  # before the check: what changes during it is seen, too
    return TraceFile(path, check_trace(path), identity)


@dataclass(frozen=True)
class Traces:
    """Opened traces. ``connection`` has the views of :mod:`views`; close it, or use it as a context manager."""

    files: tuple[TraceFile, ...]
    connection: Connection
    temporary: Path

    def literals(self) -> list[str]:
        """The names under which DuckDB reads the files, as SQL strings."""
        return [literal(_names(file.path, self.temporary, index)[1]) for index, file in enumerate(self.files)]

    def close(self) -> None:
        try:
            self.connection.close()
        finally:
            shutil.rmtree(self.temporary, ignore_errors=True)

    def __enter__(self) -> Traces:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.connection.close()  # now: its threads would go on reading beside the search for the cause
            if error is not None:
                _raise_cause(self.files, self.temporary, error)
            else:
                _check_unchanged(self.files)
        finally:
            self.close()


def open_traces(
    paths: Sequence[Path], selection: Selection | None = None, tables: Iterable[str] = (), threads: int | None = None
) -> Traces:
    """Opens the traces at ``paths`` with what ``selection`` asks for; views named in ``tables`` are computed once.

    ``threads``: how many DuckDB may use; None = one for each core.

    Raises the errors of :func:`scalene_trace.formats.trace.integrity.check_trace`, TraceDamaged when a file passes that check
    but is no table of ours, and OutOfMemory.
    """
    return _open(paths, selection or Selection(), frozenset(tables), is_sealed=False, threads=threads)


def open_sealed(paths: Sequence[Path], sql: str, selection: Selection | None = None, is_whole: bool = True) -> Traces:
    """Opens the traces for SQL that a user wrote: what ``sql`` names is loaded, then no file can be opened.

    Views that it does not name exist if ``is_whole``: SQL that lists the views, or mistypes the name of one, needs them.
    """
    words = frozenset(word.lower() for word in re.findall(r"\w+", sql))
    return _open(paths, selection or Selection(), words, is_sealed=True, is_whole=is_whole)


def _open(
    paths: Sequence[Path],
    selection: Selection,
    tables: frozenset[str],
    is_sealed: bool,
    threads: int | None = None,
    is_whole: bool = False,
) -> Traces:
    files = tuple(_checked(path) for path in paths)
    temporary = Path(tempfile.mkdtemp(prefix="scalene-analyze-"))
    connection = None
    try:
        connection = _connect(files, temporary, is_sealed)
        if threads is not None:
            connection.execute(f"SET threads = {threads:d}")
            connection.execute(f"SET memory_limit = '{memory.setting(memory.limit_bytes(threads))}'")
        is_report = not is_sealed and tables >= views.REPORT_TABLES
        at_once = _threads_of_a_report() if is_report and threads is None else 1
        traces = Traces(files, Connection(connection, at_once), temporary)
        _define(traces, selection, _with_inputs(tables) if is_sealed else tables, is_sealed)
        if "syscall_name" in tables:
            connection.execute(set_machine(traces.connection, len(traces.files)))
        if is_sealed:
            traces.connection.make_all() if is_whole else traces.connection.make(tables)
        _lock(connection, is_sealed)
    except BaseException as error:
        try:
            _raise_cause(files, temporary, error)
        finally:
            if connection is not None:
                connection.close()
            shutil.rmtree(temporary, ignore_errors=True)
        raise
    return traces


def _threads_of_a_report() -> int:
    """How many threads may make its views and answers at the same time; DuckDB divides single queries among cores besides."""
    return max(min(len(os.sched_getaffinity(0)), _MOST_AT_ONCE, memory.limit_bytes() // _BYTES_AT_ONCE), 1)


def _check_unchanged(files: Sequence[TraceFile]) -> None:
    """Raises TraceChanged if one of the files is no longer the one that was checked."""
    for file in files:
        if identity_of(file.path) != file.identity:
            raise TraceChanged(file.path)


def _raise_cause(files: Sequence[TraceFile], temporary: Path, error: BaseException) -> None:
    """Raises what the user should know of ``error``: an interrupt, that a file changed, that memory is exhausted, or which file
    is damaged. Returns if it was none of these."""
    import duckdb

    if is_interrupt(error):
        raise KeyboardInterrupt from error
    if isinstance(error, (duckdb.Error, RuntimeError, UnicodeDecodeError)):
        _check_unchanged(files)
    if isinstance(error, duckdb.OutOfMemoryException):
        raise OutOfMemory(memory.limit_bytes()) from error

    def read(index: int) -> None:
        with _connect(files, temporary, is_sealed=False) as alone:
            read_records(alone, literal(_names(files[index].path, temporary, index)[1]))

    if found := damage(error, [file.path for file in files], read):
        raise found from error


def _connect(files: Sequence[TraceFile], temporary: Path, is_sealed: bool) -> DuckDBPyConnection:
    import duckdb

    # A statement may read and write DuckDB's own temporary directory, so there is none where SQL of a user runs.
    config: dict[str, str | bool | int | float | list[str]] = dict.fromkeys(SWITCHED_OFF, False)
    config["temp_directory"] = "" if is_sealed else str(temporary)
    config["memory_limit"] = memory.setting(memory.limit_bytes())
    if not is_sealed:
        config["max_temp_directory_size"] = memory.setting(memory.SPILL * memory.limit_bytes())
    connection = duckdb.connect(":memory:", config=config)
    connection.execute("SET parquet_metadata_cache = true")  # else each view and each query would read the footer again
    if not is_sealed:
        names = [name for index, file in enumerate(files) for name in _names(file.path, temporary, index)]
        connection.execute(f"SET allowed_paths = [{', '.join(map(literal, names))}]")
        connection.execute("SET enable_external_access = false")
    return connection


def _lock(connection: DuckDBPyConnection, is_sealed: bool) -> None:
    if is_sealed:
        connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _names(path: Path, temporary: Path, index: int) -> tuple[str, str]:
    """The file's resolved name, which DuckDB checks, and the same with glob characters escaped, which it reads."""
    resolved = os.path.realpath(path)
    if not resolved.isprintable():
        link = temporary / f"{index}.parquet"
        if not link.is_symlink():
            link.symlink_to(resolved)
        resolved = str(link)
    return resolved, escaped(resolved)


def escaped(name: str) -> str:
    """``name`` with those characters escaped that DuckDB reads as a pattern."""
    return re.sub(r"([*?\[])", r"[\1]", name)


def _define(traces: Traces, selection: Selection, tables: frozenset[str], is_sealed: bool) -> None:
    """Defines the views, those in ``tables`` as tables, and fills the tables that say what is asked for."""
    connection = traces.connection
    files = [(literal, views.file_columns(connection.raw, literal)) for literal in traces.literals()]
    for file, (_, columns) in zip(traces.files, files, strict=True):
        if columns.get("kind") != "VARCHAR":
            raise TraceDamaged(file.path, "its column kind holds no text")
    _check_times(traces, files)
    for name, query in views.SELECTION_TABLES.items():
        connection.execute(f"CREATE {connection.scope} TABLE {name} AS {query}")
    simpler = {name: each.simpler for name, each in catalogue.definitions().items() if each.simpler}
    tables |= catalogue.stored("always")
    connection.define(Views(dict(views.definitions(files)), tables, simpler, macros(selection)))
    found = connection.execute("SELECT trace, kind, records FROM event_counts").fetchall()
    for trace, kind, records in found:
        _check_columns(traces.files[trace - 1].path, kind, files[trace - 1][1])
        contents.check_records(traces.files[trace - 1].path, kind, records)
    kinds = {kind for _, kind, _ in found}
    paths = [file.path for file in traces.files]
    contents.check_texts(connection.raw, paths, files, kinds)
    contents.check_ids(connection.raw, paths, files, kinds)
    absent = {
        view: views.kind_without_rows(schema.kind(name)) for name, view in views.KIND_VIEWS.items() if name not in kinds
    }
    connection.unmade.redefine(absent)
    _select(connection, selection)
    if sum(records for _, _, records in found) <= views.MOST_STORED:
        connection.execute("SET threads = 1")  # handing over so few rows takes longer than using them
        if not is_sealed:
            connection.unmade.store_all()


def set_machine(connection: Connection, traces: int) -> str:
    """The statement that tells syscall_name the processor of the traces, of which there are ``traces``; NULL = they are of
    several processors. What is not of arm64 is of x86-64, whatever the kernel called it there.
    """
    asked = "SELECT count(DISTINCT trace) FROM settings WHERE name = 'machine' AND value = 'aarch64'"
    of_arm64 = connection.execute(asked).fetchall()[0][0]
    machine = {0: "'x86_64'", traces: "'aarch64'"}.get(of_arm64, "NULL")
    return f"SET VARIABLE machine = {machine}"


def _check_times(traces: Traces, files: list[tuple[str, views.FileColumns]]) -> None:
    """Raises TraceDamaged when a row has no time although its kind has one. (If none lacks it, statistics say so.)"""
    found = traces.connection.raw.execute(views.rows_without_time(files)).fetchall()
    for trace, count in found:
        raise TraceDamaged(traces.files[trace - 1].path, f"{count} of its rows have no time")


def _check_columns(path: Path, kind: str, columns: views.FileColumns) -> None:
    """Raises TraceDamaged when there are rows of a kind that we know, but no column for its fields."""
    known = schema.kind(kind) if kind in views.KIND_VIEWS else None
    if known is not None and known.columns and known.struct not in columns:
        raise TraceDamaged(path, f"it has rows of the kind {kind}, but no column for them")


def selected(selection: Selection) -> dict[str, int | list[int] | None]:
    """The row of the table ``selection``."""
    processes, threads = (
        [min(max(each, 0), _NO_ID) for each in ids] or None for ids in (selection.processes, selection.threads)
    )
    return {"from_ns": selection.from_ns, "to_ns": selection.to_ns, "process_ids": processes, "thread_ids": threads}


def _select(connection: Connection, selection: Selection) -> None:
    values = selected(selection)
    connection.execute(f"UPDATE selection SET {', '.join(f'{name} = ${name}' for name in values)}", values)
    if filling := labels_filled(selection):
        connection.execute(filling)
    select_user_files(connection, selection)


def _with_inputs(names: frozenset[str]) -> frozenset[str]:
    """The views among ``names`` and everything that they read, except parts of other views that are not named."""
    wanted: set[str] = set()
    pending = set(names)
    while pending:
        name = pending.pop()
        if name in views.KIND_VIEWS.values() or (name == views.RECORDS_VIEW and name in names):
            wanted.add(name)
        elif name in catalogue.definitions() and name not in wanted:
            wanted.add(name)
            pending.update(catalogue.definitions()[name].depends)
    return frozenset(wanted - (catalogue.stored("part") - names))
