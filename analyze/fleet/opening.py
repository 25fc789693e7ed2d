"""Opens the summaries of a fleet as two views, ``fleet_traces`` and ``fleet_figures``, in a DuckDB that can reach nothing else.

DuckDB reads the batches by descriptors that were opened before they were checked (``/proc/self/fd/3``): what it reads is what
was checked, and an indexer may remove batches that it has merged in the meantime. For SQL of a user they are copies in memory
which the kernel lets nobody write to, because permission to read a file would also permit writing it.
"""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ...formats.errors import BatchDamaged, BatchUnreadable, FleetMissing, NotIndexed, OutOfMemory
from ...formats.fleet import layout, schema
from ...formats.fleet.check import open_batch
from ..trace import memory, queries
from ..trace.connection import Connection
from ..trace.sql_text import literal, quoted
from ..trace.traces import SWITCHED_OFF

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: DuckDB's types of the columns.
SQL_TYPES = {
    "string": "VARCHAR",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "double": "DOUBLE",
    "map<string>": "MAP(VARCHAR, VARCHAR)",
    "map<int64>": "MAP(VARCHAR, BIGINT)",
}
#: What is true of a figure of a recording. Statistics of a file may say that all values are in a range although one is NaN.
_POSSIBLE = {
    "value": f"isfinite(value::DOUBLE) AND value::DOUBLE BETWEEN -{schema.MOST_VALUE} AND {schema.MOST_VALUE}",
    "variance": f"variance IS NULL OR isfinite(variance::DOUBLE) AND variance::DOUBLE BETWEEN 0 AND {schema.MOST_VARIANCE}",
}
#: What the query says that reads a figure of which that is not true.
IMPOSSIBLE = "a batch has an impossible"
#: Descriptors that are left for everything else.
_OTHER_FILES = 100
#: How often batches are opened anew because one was removed in the meantime.
_MOST_TRIES = 10
#: A number of a trace: the batch in the upper bits, its number in the batch below (schema.MOST_TRACES).
_BITS = schema.MOST_TRACES.bit_length() - 1


@dataclass(frozen=True)
class Fleet:
    """An opened fleet. ``connection`` has the views; close it, or use it as a context manager. ``name``: of the fleet where
    that is not its folder."""

    folder: Path
    batches: tuple[Path, ...]
    connection: Connection
    descriptors: tuple[int, ...]
    temporary: Path
    name: str = ""

    @property
    def unreadable(self) -> int:
        """The number of files that could not be read."""
        ((count,),) = self.connection.execute("SELECT count(*) FROM fleet_traces WHERE reason IS NOT NULL").fetchall()
        return int(count)

    def close(self) -> None:
        self.connection.close()
        for descriptor in self.descriptors:
            os.close(descriptor)
        shutil.rmtree(self.temporary, ignore_errors=True)

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                _raise_cause(self.batches, self.descriptors, error)
        finally:
            self.close()


def open_fleet(folder: Path, is_sealed: bool = False, has_copies: bool = False) -> Fleet:
    """Opens the summaries of the traces in ``folder``, each trace from one batch only.

    ``is_sealed``: for SQL of a user, which can then neither read nor write any file; ``has_copies``: there is a table
    ``every_trace`` too, with the rows of all batches. Raises FleetMissing, NotIndexed,
    BatchDamaged, BatchUnreadable and OutOfMemory.
    """
    found = _opened(folder, is_sealed)
    temporary = Path(tempfile.mkdtemp(prefix="scalene-analyze-"))
    batches, descriptors = tuple(found), tuple(found.values())
    raw = None
    try:
        raw = _connect(descriptors, temporary, is_sealed)
        _define(raw, batches, descriptors, has_copies)
        raw.execute("SET lock_configuration = true")
    except BaseException as error:
        try:
            _raise_cause(batches, descriptors, error)
        finally:
            if raw is not None:
                raw.close()
            for descriptor in descriptors:
                os.close(descriptor)
            shutil.rmtree(temporary, ignore_errors=True)
        raise
    return Fleet(folder, batches, Connection(raw), descriptors, temporary)


def _opened(folder: Path, is_sealed: bool) -> dict[Path, int]:
    """The descriptors of all batches."""
    try:
        os.scandir(folder).close()
    except OSError as error:
        raise FleetMissing(folder, (error.strerror or "unknown error").lower()) from error
    for _ in range(_MOST_TRIES):
        found: dict[Path, int] = {}
        try:
            batches = layout.batches(folder)
        except OSError as error:
            reason = (error.strerror or "unknown error").lower()
            raise BatchUnreadable(Path(error.filename or folder), reason) from error
        if not batches:
            raise NotIndexed(folder)
        _permit(len(batches))
        try:
            for batch in batches:
                found[batch] = open_batch(batch, is_sealed)
            return found
        except BaseException as error:
            for descriptor in found.values():
                os.close(descriptor)
            if not isinstance(error, FileNotFoundError):  # that one was merged into another
                raise
    raise FleetMissing(folder, "its summaries change all the time")


def _permit(files: int) -> None:
    """Lets the process have so many more files open, and each a second time: DuckDB opens it again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * files + len(list(Path("/proc/self/fd").iterdir())) + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard < 0 else min(wanted, hard), hard))


def _connect(descriptors: Sequence[int], temporary: Path, is_sealed: bool) -> DuckDBPyConnection:
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = dict.fromkeys(SWITCHED_OFF, False)
    # A statement may read and write DuckDB's own temporary directory, so there is none where SQL of a user runs.
    config["temp_directory"] = "" if is_sealed else str(temporary)
    config["memory_limit"] = memory.setting(memory.limit_bytes())
    connection = duckdb.connect(":memory:", config=config)
    connection.execute("SET parquet_metadata_cache = true")
    names = [*map(_name, descriptors)]
    if not is_sealed:  # DuckDB resolves names, and the kernel resolves that of a file that was removed so
        names += [literal(f"{Path(f'/proc/self/fd/{each}').readlink()} (deleted)") for each in descriptors]
    connection.execute(f"SET allowed_paths = [{', '.join(names)}]")
    connection.execute("SET enable_external_access = false")
    return connection


def _name(descriptor: int) -> str:
    """The file's name for DuckDB, as an SQL string."""
    return literal(f"/proc/self/fd/{descriptor}")


def _define(raw: DuckDBPyConnection, batches: Sequence[Path], descriptors: Sequence[int], has_copies: bool) -> None:
    """Makes the two views."""
    scan = f"read_parquet([{', '.join(map(_name, descriptors))}], union_by_name = true, hive_partitioning = false)"
    number = f"file_index::BIGINT * {schema.MOST_TRACES} + trace"
    missing = _missing_columns(raw, batches, descriptors)
    names = ", ".join(literal(batch.stem) for batch in batches)
    raw.execute(
        f"""CREATE TEMP TABLE every_trace AS SELECT {number} AS trace, ([{names}])[file_index::INTEGER + 1] AS batch,
            {_columns(schema.TRACE_COLUMNS, missing=missing)} FROM {scan} WHERE kind = '{schema.TRACE}'"""
    )
    _check_numbers(raw, batches)
    raw.execute(f"CREATE TEMP TABLE fleet_traces AS {queries.body('traces_once')}")
    copies = "SELECT (SELECT count(*) FROM every_trace) > (SELECT count(*) FROM fleet_traces)"
    is_once = f"AND ({number}) IN (SELECT trace FROM fleet_traces)" if raw.execute(copies).fetchall()[0][0] else ""
    if not has_copies:
        raw.execute("DROP TABLE every_trace")
    raw.execute(
        f"""CREATE TEMP VIEW fleet_figures AS SELECT {number} AS trace, {_columns(schema.FIGURE_COLUMNS, _POSSIBLE)}
            FROM {scan} WHERE kind = '{schema.FIGURE}' {is_once}"""
    )


def _columns(
    columns: Sequence[schema.Column], possible: Mapping[str, str] | None = None, missing: Collection[str] = ()
) -> str:
    """The columns as SQL. Where the condition in ``possible`` of one does not hold, the query that reads it fails. Those that
    are ``missing`` are NULL."""
    found = []
    for each in columns:
        text = f"{'NULL' if each.name in missing else quoted(each.name)}::{SQL_TYPES[each.type]}"
        if possible and each.name in possible:
            text = f"CASE WHEN {possible[each.name]} THEN {text} ELSE error('{IMPOSSIBLE} {each.name}') END"
        found.append(f"{text} AS {quoted(each.name)}")
    return ", ".join(found)


def _missing_columns(raw: DuckDBPyConnection, batches: Sequence[Path], descriptors: Sequence[int]) -> set[str]:
    """Columns of later versions that no batch has. Raises BatchDamaged where a batch lacks a column of its version."""
    added = set(schema.ADDED)
    needed = [column.name for column in schema.COLUMNS if column.name not in schema.ADDED]
    for batch, descriptor in zip(batches, descriptors, strict=True):
        rows = raw.execute(f"SELECT name FROM parquet_schema({_name(descriptor)})").fetchall()
        missing = [name for name in needed if [name] not in map(list, rows)]
        if missing:
            raise BatchDamaged(batch, f"the column {missing[0]} is missing")
        if ("file_index",) in rows:
            raise BatchDamaged(batch, "it has a column file_index")
        added -= {name for (name,) in rows}
    return added


def _check_numbers(raw: DuckDBPyConnection, batches: Sequence[Path]) -> None:
    """Raises BatchDamaged where two traces of a batch have the same number, so that their figures would be mixed, or where a
    number is not of this batch, or a time impossible."""
    wrong = raw.execute(
        f"""SELECT any_value(batch) FROM every_trace GROUP BY trace HAVING count(*) > 1
            UNION ALL SELECT batch FROM every_trace
            WHERE trace IS NULL OR trace_id IS NULL OR path IS NULL
            UNION ALL SELECT batch FROM (SELECT batch, min(trace) AS lowest, max(trace) AS highest FROM every_trace GROUP BY batch)
            WHERE lowest >> {_BITS} <> highest >> {_BITS} OR lowest < 0
            LIMIT 1"""
    ).fetchall()
    _raise_wrong(batches, wrong, "the numbers or names of its traces are wrong")
    most = schema.MOST_NS
    late = raw.execute(
        f"""SELECT batch FROM every_trace
            WHERE start_ns NOT BETWEEN -{most} AND {most} OR wall_ns NOT BETWEEN 0 AND {most}
                OR recorded_ns NOT BETWEEN 0 AND {most} LIMIT 1"""
    ).fetchall()
    _raise_wrong(batches, late, "the time of a trace is impossible")


def _raise_wrong(batches: Sequence[Path], names: Sequence[tuple[str]], detail: str) -> None:
    """Raises BatchDamaged for the batch that ``names`` names, if there is one."""
    for (name,) in names:
        raise BatchDamaged(next(each for each in batches if each.stem == name), detail)


def _raise_cause(batches: Sequence[Path], descriptors: Sequence[int], error: BaseException) -> None:
    """Raises what the user should know of ``error``: that memory is exhausted, or which batch is damaged. Returns if it was
    none of these."""
    import duckdb

    if isinstance(error.__cause__, (duckdb.InvalidInputException, duckdb.IOException)):
        error = error.__cause__  # SQL of a user was refused, but it may be a batch that is wrong
    if isinstance(error, duckdb.OutOfMemoryException):
        raise OutOfMemory(memory.limit_bytes()) from error
    # What Spark raises is known by its text.
    if not isinstance(error, (duckdb.Error, RuntimeError, UnicodeDecodeError)) and IMPOSSIBLE not in str(error):
        return
    first = (column for column in schema.COLUMNS if column.name not in schema.ADDED)
    columns = ", ".join(f"max(hash({quoted(column.name)}::{SQL_TYPES[column.type]}))" for column in first)
    for batch, descriptor in zip(batches, descriptors, strict=True):
        with duckdb.connect(":memory:", config=dict.fromkeys(SWITCHED_OFF, False)) as alone:
            try:
                alone.execute(f"SELECT {columns} FROM read_parquet({_name(descriptor)}, hive_partitioning = false)")
                impossible = alone.execute(
                    f"""SELECT count(*) FROM read_parquet({_name(descriptor)}, hive_partitioning = false)
                        WHERE kind = '{schema.FIGURE}' AND (({") AND (".join(_POSSIBLE.values())})) IS NOT TRUE"""
                ).fetchall()[0][0]
            except duckdb.Error as cause:
                raise BatchDamaged(batch, "its columns cannot be read") from cause
            if impossible:
                raise BatchDamaged(batch, "a figure has an impossible value") from error
