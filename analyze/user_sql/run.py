"""Runs SQL that a user wrote over the views of the traces, and refuses everything that does not only read."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ...formats.errors import OutOfMemory
from ..trace import memory, sql_text, views
from ..trace.selection import Selection, labels_filled, macros
from ..trace.traces import escaped, open_sealed, open_traces, selected, set_machine

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, Statement

T = TypeVar("T")

#: Statements that list views: all of them must exist for these.
_LISTS = re.compile(r"(?i)\b(show|describe|summarize|duckdb_|pragma_|pg_|sqlite_|information_schema)|\(\s*desc\s*\)")
_UNKNOWN_TABLE = "Catalog Error: Table"

#: Columns of the views that were made: DuckDB has kept them, while a query of a view would be bound again.
_COLUMNS = """
SELECT table_name, list(column_name ORDER BY column_index), list(data_type ORDER BY column_index)
FROM duckdb_columns() WHERE database_name = 'temp' AND NOT internal GROUP BY table_name
"""
#: A limit of rows that DuckDB and Arrow accept, beyond any result.
MOST_ROWS = 2**62
#: Between two looks of a deadline at the SQL that it watches.
_PERIOD_S = 0.05


class Deadline:
    """Interrupts the SQL that runs under it after ``most_s`` seconds, or once another thread has cancelled it."""

    def __init__(self, most_s: float) -> None:
        self.most_s = most_s
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Interrupts what runs, and refuses what would begin."""
        self._cancelled.set()

    def check(self) -> None:
        """Raises QueryRefused if it was cancelled."""
        if self._cancelled.is_set():
            raise QueryRefused("The call was cancelled.")

    @contextmanager
    def watching(self, connection: DuckDBPyConnection) -> Iterator[None]:
        """Interrupts the SQL that runs within the block. Raises QueryRefused then."""
        import duckdb

        self.check()
        has_ended = threading.Event()
        watcher = threading.Thread(target=self._interrupt, args=(connection, has_ended), daemon=True)
        watcher.start()
        try:
            yield
        except duckdb.InterruptException as error:
            self.check()
            raise QueryRefused(f"The SQL was stopped: it may take {self.most_s:g} s.") from error
        finally:
            has_ended.set()
            watcher.join()  # it would interrupt what the connection does next

    def _interrupt(self, connection: DuckDBPyConnection, has_ended: threading.Event) -> None:
        """DuckDB forgets an interrupt when a statement begins, so it is repeated until the statement has ended."""
        end_s = time.monotonic() + self.most_s
        while not has_ended.wait(_PERIOD_S):
            if self._cancelled.is_set() or time.monotonic() > end_s:
                connection.interrupt()


class QueryRefused(Exception):  # noqa: N818 (the public name)
    """SQL that is not allowed or fails; ``str()`` gives the reason in one or two sentences."""


def run_sql(
    paths: Sequence[Path], sql: str, selection: Selection, limit: int | None = None
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Runs one SELECT or EXPLAIN over the views of the traces. Returns column names and at most ``limit`` rows.

    ``selection`` applies to the views that the report uses (``lines``, ``functions`` and others). Raises QueryRefused for
    other statements and for SQL that fails, and the errors of :func:`open_traces`.
    """

    def ask(connection: DuckDBPyConnection, statement: Statement) -> tuple[list[str], list[tuple[Any, ...]]]:
        cursor = connection.execute(statement)
        rows = cursor.fetchall() if limit is None else cursor.fetchmany(min(limit, MOST_ROWS))
        return distinct_names([column[0] for column in cursor.description or ()]), rows

    return _answer(paths, sql, selection, ask)


def sql_texts(
    paths: Sequence[Path], sql: str, selection: Selection, limit: int, most_characters: int, deadline: Deadline
) -> tuple[list[str], list[tuple[str | None, ...]]]:
    """Like :func:`run_sql` for a SELECT, but with values as texts, of which DuckDB returns ``most_characters`` at most: then
    the size of a result is limited. None is NULL. Raises QueryRefused at the deadline too."""

    def ask(connection: DuckDBPyConnection, statement: Statement) -> tuple[list[str], list[tuple[str | None, ...]]]:
        if str(statement.type).endswith("EXPLAIN"):
            raise QueryRefused("Only SELECT is allowed here.")
        values = f"left(COLUMNS(*)::VARCHAR, {most_characters})"  # each keeps the name of its column
        query = f"SELECT {values} FROM (\n{_without_end(statement.query)}\n) LIMIT {limit}"
        with deadline.watching(connection):
            cursor = connection.execute(query)
            return [column[0] for column in cursor.description or ()], cursor.fetchall()

    return _answer(paths, sql, selection, ask)


def _without_end(query: str) -> str:
    """A single statement without its semicolon and the comments after it."""
    import duckdb

    text = query.encode()
    ends = (place for place, kind in duckdb.tokenize(query) if kind == duckdb.token_type.operator)
    end = next((place for place in ends if text[place : place + 1] == b";"), len(text))
    return text[:end].decode()


def sql_arrow(paths: Sequence[Path], sql: str, selection: Selection, limit: int | None = None) -> Any:
    """Like :func:`run_sql`, but returns a pyarrow.Table."""
    table = _answer(paths, sql, selection, lambda connection, statement: connection.sql(statement).to_arrow_table())
    return table.slice(0, None if limit is None else min(limit, MOST_ROWS)).rename_columns(
        distinct_names(table.column_names)
    )


def _answer(
    paths: Sequence[Path],
    sql: str,
    selection: Selection,
    ask: Callable[[DuckDBPyConnection, Statement], T],
    is_whole: bool = False,
) -> T:
    """The result of ``ask`` for the one statement of ``sql``; DuckDB's errors become QueryRefused.

    Only the views that the statement names are made. All views are made if ``is_whole``, if the statement may list views, or
    if DuckDB does not know a name: then its message suggests the right one.
    """
    import duckdb

    if not sql.isascii() and sql.encode("utf-8", "replace").decode() != sql:
        raise QueryRefused("Cannot run the SQL: it is not valid UTF-8.")
    is_whole = is_whole or _LISTS.search(sql) is not None
    with open_sealed(paths, sql, selection, is_whole) as traces:
        try:
            return ask(traces.connection.raw, checked_statement(traces.connection.raw, sql))
        except duckdb.Error as error:
            if is_whole or not str(error).startswith(_UNKNOWN_TABLE):
                raise refused(error) from error
    return _answer(paths, sql, selection, ask, is_whole=True)


def refused(error: Exception) -> QueryRefused:
    """The error for the user. Raises OutOfMemory."""
    import duckdb

    if isinstance(error, duckdb.OutOfMemoryException):
        raise OutOfMemory(memory.limit_bytes()) from error
    if "pytz" in str(error):  # DuckDB needs pytz to return times with a time zone, and nothing else here does
        return QueryRefused("Cannot return times with a time zone. Cast them to text, as in now()::VARCHAR.")
    return QueryRefused(str(error).strip())


def checked_statement(connection: Any, sql: str) -> Any:
    """The single statement of ``sql``. Raises QueryRefused unless it only reads."""
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise QueryRefused(
            "Only one SQL statement can be run at a time."
            if statements
            else "The SQL is empty. Give a SELECT statement."
        )
    if not _only_reads(connection, statements[0]):
        raise QueryRefused("Only SELECT and EXPLAIN are allowed, because traces are never changed.")
    return statements[0]


def _only_reads(connection: Any, statement: Any) -> bool:
    kind = str(statement.type).rpartition(".")[2]
    if kind != "EXPLAIN":
        return kind == "SELECT"
    inner = re.sub(r"(?is)^\s*explain\s+(analyze\b)?\s*(\([^()]*\))?", "", statement.query)
    return [str(each.type).rpartition(".")[2] for each in connection.extract_statements(inner)] == ["SELECT"]


def distinct_names(names: list[str]) -> list[str]:
    """The names, with repeated ones numbered, because the keys of JSON objects must be distinct."""
    taken = set(names)
    result: list[str] = []
    for name in names:
        numbers = (f"{name}_{n}" for n in range(2, len(names) + 2))
        result.append(name if name not in result else next(each for each in numbers if each not in taken))
        taken.add(result[-1])
    return result


def init_script(paths: Sequence[Path], selection: Selection) -> str:
    """SQL statements that create the same views in a plain DuckDB shell. Raises the errors of :func:`open_traces`.

    Each view is made twice, as :meth:`..trace.connection.Connection.make_all` does it: first an empty one, then the real ones
    in reverse order.
    """
    with open_traces(paths, selection) as traces:
        connection = traces.connection
        connection.make_all()
        columns_of = {name: zip(*columns, strict=True) for name, *columns in connection.execute(_COLUMNS).fetchall()}
        literals = [sql_text.printable(escaped(str(file.path.resolve()))) for file in traces.files]
        columns = [views.file_columns(connection.raw, literal) for literal in traces.literals()]
        files = [file for (file,) in connection.execute("SELECT file FROM user_files ORDER BY file").fetchall()]
        machine = set_machine(connection, len(traces.files))
    statements = [f"CREATE OR REPLACE TEMP TABLE {name} AS {query};" for name, query in views.SELECTION_TABLES.items()]
    asked = (f"{name} = {'NULL' if value is None else value}" for name, value in selected(selection).items())
    statements.append(f"UPDATE selection SET {', '.join(asked)};")
    values = ", ".join(f"({sql_text.printable(file)})" for file in files)
    statements += [f"INSERT INTO user_files VALUES {values};"] if files else []
    statements += [f"{machine};", *macros(selection).values()]
    pairs = dict(views.definitions(list(zip(literals, columns, strict=True))))
    statements += [f"CREATE OR REPLACE TEMP VIEW {name} AS {sql_text.no_rows(columns_of[name])};" for name in pairs]
    statements += [f"CREATE OR REPLACE TEMP VIEW {name} AS\n{query};" for name, query in reversed(pairs.items())]
    statements += [f"{filling};"] if (filling := labels_filled(selection)) else []
    return "\n".join(statements) + "\n"
