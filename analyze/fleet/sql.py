"""Runs SQL that a user wrote over the views of a fleet, in the sandbox of SQL over traces."""

from __future__ import annotations

from typing import Any

from ...formats.fleet import schema
from ..trace import queries
from ..trace.views import ViewColumn
from ..user_sql.run import MOST_ROWS, QueryRefused, checked_statement, distinct_names, refused
from .opening import SQL_TYPES, Fleet


def run_sql(fleet: Fleet, sql: str, limit: int | None = None) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Runs one SELECT or EXPLAIN over ``fleet_traces``, ``fleet_figures`` and ``selected_traces`` of a fleet that was opened
    sealed. Returns column names and at most ``limit`` rows. Raises QueryRefused for other statements and for SQL that fails,
    and OutOfMemory."""
    import duckdb

    if not sql.isascii() and sql.encode("utf-8", "replace").decode() != sql:
        raise QueryRefused("Cannot run the SQL: it is not valid UTF-8.")
    raw = fleet.connection.raw
    try:
        cursor = raw.execute(checked_statement(raw, sql))
        rows = cursor.fetchall() if limit is None else cursor.fetchmany(min(limit, MOST_ROWS))
        return distinct_names([column[0] for column in cursor.description or ()]), rows
    except duckdb.Error as error:
        raise refused(error) from error


def describe() -> list[tuple[str, str, list[ViewColumn]]]:
    """Name, what it holds, and columns of each view."""
    header = queries.header("traces_once")
    types = {column.name: SQL_TYPES[column.type] for column in schema.TRACE_COLUMNS} | {
        "trace": "BIGINT",
        "batch": "VARCHAR",
    }
    traces = [ViewColumn(each.name, types[each.name], each.unit, each.text) for each in header.columns]
    figures = [ViewColumn(each.name, SQL_TYPES[each.type], "", each.text) for each in schema.FIGURE_COLUMNS]
    selected = [
        ViewColumn(
            each.name, "DOUBLE" if each.name == "exposure" else types.get(each.name, "VARCHAR"), each.unit, each.text
        )
        for each in queries.header("traces_selected").columns
    ]
    return [
        ("fleet_traces", header.answers, traces),
        ("fleet_figures", "what does each trace cost, by line, function, stack and leak?", [traces[0], *figures]),
        ("selected_traces", "which traces do the options select?", selected),
    ]
