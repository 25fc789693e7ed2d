"""Which trace is damaged, when DuckDB fails.

Only the contents of a file may be called damage. A statement of ours that DuckDB cannot bind is a bug of ours, unless a
column of the file makes it so; and of several files opened together, DuckDB does not say which one it failed on. So each
file is read by itself, record by record: the one that fails is the damaged one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...formats.errors import TraceDamaged
from ...formats.trace import schema
from . import views

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_ROWS_AT_ONCE = 10_000
#: Characters of DuckDB's message that are shown: it may contain a text of the file.
_LONGEST = 300


def damage(error: BaseException, paths: Sequence[Path], read: Callable[[int], None]) -> TraceDamaged | None:
    """What to raise for ``error``, which happened while the files at ``paths`` were open together; None if no file is the
    cause. ``read`` reads the whole file of this index by itself, and raises what DuckDB raises."""
    if not _is_about_contents(error):
        return None
    for index, path in enumerate(paths):
        try:
            read(index)
        except Exception as alone:
            if _is_about_contents(alone):
                return TraceDamaged(path, f"DuckDB cannot read it ({_first_line(alone)})")
            raise
    if not _comes_from_values(error):
        return None
    others = ", or one that was opened with it" if len(paths) > 1 else ""
    return TraceDamaged(paths[0], f"DuckDB cannot read it{others} ({_first_line(error)})")


def read_records(connection: DuckDBPyConnection, literal: str) -> None:
    """Reads every record of the file whose (quoted) name is ``literal``, as the views do; raises what DuckDB raises."""
    file = (literal, views.file_columns(connection, literal))
    connection.execute(views.rows_without_time([file])).fetchall()
    for kind in schema.KINDS:
        cursor = connection.execute(views.kind_view(kind, [file]))
        while cursor.fetchmany(_ROWS_AT_ONCE):
            pass


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:_LONGEST]


def _is_about_contents(error: BaseException) -> bool:
    """May the contents of a file have caused it?"""
    import duckdb

    # duckdb.BinderException: a column has a type that has no cast to ours, or is missing.
    # Errors without a class of their own: what the readers of Thrift and of zstd throw, and names that are not text.
    causes = (duckdb.BinderException, UnicodeDecodeError)
    return _comes_from_values(error) or isinstance(error, causes) or type(error) is RuntimeError


def _comes_from_values(error: BaseException) -> bool:
    """Is it an error that statements of ours have only where values of a file are impossible?"""
    import duckdb

    causes = (
        duckdb.IOException,
        duckdb.InvalidInputException,
        duckdb.ConversionException,
        duckdb.OutOfRangeException,
        duckdb.SerializationException,
        duckdb.NotImplementedException,
        duckdb.InvalidTypeException,
        duckdb.TypeMismatchException,
        duckdb.InternalException,
    )
    return isinstance(error, causes) or type(error) is duckdb.Error
