"""The smaller answers: functions, info, and other people's SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..report.report import build_report
from ..results.records import Info, MarkInfo, Table, TraceInfo, sorted_rows
from ..trace import info, queries, views
from ..trace.selection import Selection
from ..trace.traces import escaped, open_sealed, open_traces, selected

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, Statement

T = TypeVar("T")

#: What tells which views there are.
_LISTS = re.compile(r"(?i)\b(show|describe|summarize|duckdb_|pragma_|pg_|sqlite_|information_schema)|\(\s*desc\s*\)")
_UNKNOWN_TABLE = "Catalog Error: Table"

#: More than any answer has, and what DuckDB and Arrow take.
_MOST_ROWS = 2**62


class QueryRefused(Exception):  # noqa: N818 (the name says what happened)
    """SQL that will not be run, or cannot be; ``str()`` says why in one or two sentences."""


def build_functions(paths: Sequence[Path], selection: Selection, sort: str | None, limit: int | None) -> Table:
    """The functions of the report."""
    report = build_report(paths, selection, sort, limit)
    return Table("functions", report.query, report.traces, report.functions)


def build_info(paths: Sequence[Path], query: dict[str, Any]) -> Info:
    """What each trace says of itself: settings beside the usual, and its processes as rows."""
    traces_json, rows = [], []
    marks: list[MarkInfo] = []
    for index, path in enumerate(paths, start=1):
        with open_traces([path]) as traces:
            traces_json.append(_described(info.trace_info(traces), info.settings(traces.connection), path))
            rows += info.process_infos(traces, index)
            marks += info.mark_infos(traces, index)
    return Info("info", query, traces_json, rows, "processes", marks)


def build_processes(
    paths: Sequence[Path], processes: Sequence[int], query: dict[str, Any], sort: str | None, limit: int | None
) -> Table:
    """The process trees of the traces, or of ``processes`` (ids) alone; ``sort`` names a field of ProcessInfo."""
    infos, rows = [], []
    for index, path in enumerate(paths, start=1):
        with open_traces([path]) as traces:
            infos.append(info.trace_info(traces))
            rows += info.process_infos(traces, index)
    wanted = [row for row in rows if not processes or row.process in processes]
    return Table("processes", query, infos, (sorted_rows(wanted, sort) if sort else wanted)[:limit])


def _described(trace: TraceInfo, settings: dict[str, str], path: Path) -> dict[str, Any]:
    return vars(trace) | {"size_bytes": path.stat().st_size, "settings": settings}


def run_sql(
    paths: Sequence[Path], sql: str, selection: Selection, limit: int | None = None
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Column names and rows of one SELECT or EXPLAIN over the views of the traces.

    Raises QueryRefused for anything else and for SQL that does not run, and the errors of :func:`open_traces`.
    """

    def ask(connection: DuckDBPyConnection, statement: Statement) -> tuple[list[str], list[tuple[Any, ...]]]:
        cursor = connection.execute(statement)
        rows = cursor.fetchall() if limit is None else cursor.fetchmany(min(limit, _MOST_ROWS))
        return _distinct([column[0] for column in cursor.description or ()]), rows

    return _answer(paths, sql, selection, ask)


def sql_arrow(paths: Sequence[Path], sql: str, selection: Selection, limit: int | None = None) -> Any:
    """The same as a pyarrow.Table; raises the same."""
    table = _answer(paths, sql, selection, lambda connection, statement: connection.sql(statement).to_arrow_table())
    return table.slice(0, None if limit is None else min(limit, _MOST_ROWS)).rename_columns(
        _distinct(table.column_names)
    )


def _answer(
    paths: Sequence[Path],
    sql: str,
    selection: Selection,
    ask: Callable[[DuckDBPyConnection, Statement], T],
    is_whole: bool = False,
) -> T:
    """What ``ask`` says of the one statement of ``sql``; what DuckDB refuses becomes QueryRefused.

    Views that it does not name are made if ``is_whole``, or it may look at a list of them, or DuckDB finds a name unknown:
    then it says which one was meant.
    """
    import duckdb

    if not sql.isascii() and sql.encode("utf-8", "replace").decode() != sql:
        raise QueryRefused("The SQL is not text in UTF-8.")
    is_whole = is_whole or _LISTS.search(sql) is not None
    with open_sealed(paths, sql, selection, is_whole) as traces:
        try:
            return ask(traces.connection.raw, _checked(traces.connection.raw, sql))
        except duckdb.Error as error:
            if is_whole or not str(error).startswith(_UNKNOWN_TABLE):
                raise _refused(error) from error
    return _answer(paths, sql, selection, ask, is_whole=True)


def _refused(error: Exception) -> QueryRefused:
    if "pytz" in str(error):  # which DuckDB's moments with a time zone need in Python, and nothing else of ours
        return QueryRefused("Times with a time zone cannot be shown: cast them, as in now()::VARCHAR.")
    return QueryRefused(str(error).strip())


def _checked(connection: Any, sql: str) -> Any:
    """The one statement of ``sql``, if it only reads."""
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise QueryRefused("Give one SQL statement." if statements else "The SQL is empty. Give a SELECT statement.")
    if not _only_reads(connection, statements[0]):
        raise QueryRefused("Only SELECT and EXPLAIN are run here: a trace is never changed.")
    return statements[0]


def _only_reads(connection: Any, statement: Any) -> bool:
    kind = str(statement.type).rpartition(".")[2]
    if kind != "EXPLAIN":
        return kind == "SELECT"
    inner = re.sub(r"(?is)^\s*explain\s+(analyze\b)?\s*(\([^()]*\))?", "", statement.query)
    return [str(each.type).rpartition(".")[2] for each in connection.extract_statements(inner)] == ["SELECT"]


def _distinct(names: list[str]) -> list[str]:
    """The names, repeated ones numbered: JSON objects need distinct keys."""
    taken = set(names)
    result: list[str] = []
    for name in names:
        numbers = (f"{name}_{n}" for n in range(2, len(names) + 2))
        result.append(name if name not in result else next(each for each in numbers if each not in taken))
        taken.add(result[-1])
    return result


def init_script(paths: Sequence[Path], selection: Selection) -> str:
    """The statements that build the same views in a plain DuckDB shell. Raises the errors of :func:`open_traces`."""
    with open_traces(paths, selection) as traces:
        connection = traces.connection
        literals = [views.literal(escaped(str(file.path.resolve()))) for file in traces.files]
        columns = [views.file_columns(connection.raw, literal) for literal in traces.literals()]
        files = [file for (file,) in connection.execute("SELECT file FROM user_files ORDER BY file").fetchall()]
    statements = [f"CREATE OR REPLACE TEMP TABLE {name} AS {query};" for name, query in views.SELECTION_TABLES.items()]
    asked = (f"{name} = {'NULL' if value is None else value}" for name, value in selected(selection).items())
    statements.append(f"UPDATE selection SET {', '.join(asked)};")
    values = ", ".join(f"({views.literal(file)})" for file in files)
    statements += [f"INSERT INTO user_files VALUES {values};"] if files else []
    statements += queries.macros().values()
    pairs = views.definitions(list(zip(literals, columns, strict=True)))
    return "\n".join(statements + [f"CREATE OR REPLACE TEMP VIEW {name} AS\n{query};" for name, query in pairs]) + "\n"
