"""The views of a trace: one for each kind of record, and those that queries build on them (analyze/sql/views).

The views of a kind follow the schema of this version, whatever the file holds: a column that the file lacks, because an
older recorder wrote it, is NULL of the schema's type. Every view starts with ``trace``, which counts the opened files
from 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...formats.trace import schema
from . import catalogue, queries, sql_text
from .sql_text import literal, quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: The views that most questions need.
FIRST = ("lines", "functions", "waits", "threads", "allocations")
#: View of each kind, in the order in which they are documented.
KIND_VIEWS: dict[str, str] = {
    "cpu": "cpu_rows",
    "wait": "waits",
    "task": "task_waits",
    "memory": "memory_samples",
    "alloc": "alloc_rows",
    "copy": "copies",
    "device_copy": "device_copies",
    "device_sync": "device_syncs",
    "device_alloc": "device_allocations",
    "gc": "collections",
    "heap": "heap_samples",
    "rss": "rss_samples",
    "process": "processes",
    "thread": "threads",
    "location": "locations",
    "stack": "stacks",
    "code": "codes",
    "native": "native_functions",
    "module": "modules",
    "symbol": "symbols",
    "source": "sources",
    "mark": "marks",
    "setting": "settings",
    "loss": "losses",
    "gpu": "gpu_ticks",
}

#: View of the kinds of all records, for counting them.
RECORDS_VIEW = "records"

#: Views of kinds that reports and other answers read more than once.
_STORED_KINDS = ("memory_samples", "processes", "threads", "settings")

#: Views that reports and other answers keep as tables, because they read them more than once. Those that none of their
#: queries names are not made.
REPORT_TABLES = catalogue.stored("yes").union(_STORED_KINDS)

#: Views are kept as tables where the traces have at most so many records: DuckDB then takes longer to plan a query, through
#: the views down to the files, than to run it. With 40,000 records reports lose as much as they gain.
MOST_STORED = 20_000

#: Tables that say what was asked for.
SELECTION_TABLES: dict[str, str] = {
    "selection": "SELECT NULL::BIGINT AS from_ns, NULL::BIGINT AS to_ns, NULL::INTEGER[] AS process_ids, NULL::INTEGER[] AS thread_ids",
    "label_stacks": "SELECT NULL::BIGINT AS key WHERE false",
    "user_files": "SELECT NULL::VARCHAR AS file WHERE false",
}

_SQL_TYPES = {
    "string": "VARCHAR",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "bool": "BOOLEAN",
    "binary": "BLOB",
    "list<string>": "VARCHAR[]",
    "list<int32>": "INTEGER[]",
}

#: Names and DuckDB types of a file's columns; a struct column has those of its fields as a mapping.
FileColumns = Mapping[str, "str | Mapping[str, str]"]


@dataclass(frozen=True)
class ViewColumn:
    """A column of a view: name, DuckDB type, unit ("" = none), what it means."""

    name: str
    type: str
    unit: str
    text: str


_TRACE = ViewColumn("trace", "INTEGER", "", "which trace, from 1")


def file_columns(connection: DuckDBPyConnection, literal: str) -> FileColumns:
    """The columns of the Parquet file whose (quoted) name is ``literal``."""
    relation = connection.sql(f"SELECT * FROM read_parquet({literal})")
    columns: dict[str, str | Mapping[str, str]] = {}
    for name, column_type in zip(relation.columns, relation.types, strict=True):
        is_struct = column_type.id == "struct"
        columns[name] = {field: str(each) for field, each in column_type.children} if is_struct else str(column_type)
    return columns


@dataclass(frozen=True)
class Alike:
    """Files with the same columns, which are read by one scan: numbers of the traces, quoted names."""

    columns: FileColumns
    traces: list[int]
    literals: list[str]

    @property
    def trace(self) -> str:
        """The expression for the number of a row's trace."""
        if len(self.traces) == 1:
            return f"{self.traces[0]}"
        return f"({self.traces})[file_index::INTEGER + 1]"

    @property
    def scan(self) -> str:
        """What follows FROM."""
        return f"read_parquet([{', '.join(self.literals)}])"


def alike(files: list[tuple[str, FileColumns]]) -> list[Alike]:
    found: list[Alike] = []
    for trace, (name, columns) in enumerate(files, start=1):
        is_plain = all(column.lower() != "file_index" for column in columns)  # DuckDB's own, unless a file has it
        same = next((each for each in found if is_plain and each.columns == columns), None)
        if same is None:
            found.append(same := Alike(columns, [], []))
        same.traces.append(trace)
        same.literals.append(name)
    return found


def kind_view(kind: schema.Kind, files: list[tuple[str, FileColumns]]) -> str:
    """The query of the view of ``kind`` over ``files``: (quoted name, columns) each. Files with the same columns are read
    as one, so that planning a hundred of them takes no longer than planning one."""
    return "\nUNION ALL\n".join(_kind_select(kind, each) for each in alike(files))


def kind_without_rows(kind: schema.Kind) -> str:
    """The query of the view of a kind that no file has: DuckDB plans nothing for it."""
    return sql_text.no_rows((each.name, each.type) for each in _kind_columns(kind))


def _records_view(files: list[tuple[str, FileColumns]]) -> str:
    return "\nUNION ALL\n".join(f"SELECT {each.trace} AS trace, kind FROM {each.scan}" for each in alike(files))


def rows_without_time(files: list[tuple[str, FileColumns]]) -> str:
    """The query for how many rows of each trace lack the time that their kind has; traces without such rows are absent."""
    kinds = ", ".join(literal(kind.name) for kind in schema.KINDS if "t_ns" in kind.common)
    rows = (
        f"SELECT {each.trace} AS trace FROM {each.scan} WHERE t_ns IS NULL AND kind IN ({kinds})"
        for each in alike(files)
    )
    return f"SELECT trace, count(*) FROM ({' UNION ALL '.join(rows)}) GROUP BY trace ORDER BY trace"


def _kind_select(kind: schema.Kind, files: Alike) -> str:
    columns = files.columns
    common = [column for column in schema.COMMON if column.name in kind.common]
    struct = columns.get(kind.struct)
    fields = struct if isinstance(struct, Mapping) else {}
    outputs = [f"{files.trace} AS trace"]
    outputs += [_output(column, columns.get(column.name), quoted(column.name)) for column in common]
    outputs += [_output(c, fields.get(c.name), f"{quoted(kind.struct)}.{quoted(c.name)}") for c in kind.columns]
    return f"SELECT {', '.join(outputs)}\nFROM {files.scan} WHERE kind = '{kind.name}'"


def _output(column: schema.Column, found: str | Mapping[str, str] | None, expression: str) -> str:
    wanted = _SQL_TYPES[column.type]
    if found is None:
        expression = f"NULL::{wanted}"
    elif found != wanted:
        expression = f"{expression}::{wanted}"
    return f"{expression} AS {quoted(column.name)}"


def definitions(files: list[tuple[str, FileColumns]]) -> Iterator[tuple[str, str]]:
    """(name, query) of every view, each after those that it reads. SELECTION_TABLES and the macros must exist."""
    yield RECORDS_VIEW, _records_view(files)
    for name, view in KIND_VIEWS.items():
        yield view, kind_view(schema.kind(name), files)
    for view in catalogue.definitions():
        yield view, queries.body(view)


def describe() -> list[tuple[str, str, list[ViewColumn]]]:
    """(name, what it holds, columns) of every view, without a trace; those of FIRST before the others."""
    views = list(_described())
    return sorted(views, key=lambda view: FIRST.index(view[0]) if view[0] in FIRST else len(FIRST))


def _described() -> Iterator[tuple[str, str, list[ViewColumn]]]:
    columns = [_TRACE, ViewColumn("kind", "VARCHAR", "", "kind of record")]
    yield RECORDS_VIEW, "which kinds of record does the trace hold, a row for each record?", columns
    for name, view in KIND_VIEWS.items():
        yield view, schema.kind(name).text, _kind_columns(schema.kind(name))
    for view in catalogue.definitions():
        header = queries.header(view)
        yield view, header.answers, [ViewColumn(c.name, "", c.unit, c.text) for c in header.columns]


def _kind_columns(kind: schema.Kind) -> list[ViewColumn]:
    columns = [column for column in schema.COMMON if column.name in kind.common] + list(kind.columns)
    return [_TRACE] + [ViewColumn(c.name, _SQL_TYPES[c.type], c.unit, _column_text(c)) for c in columns]


def _column_text(column: schema.Column) -> str:
    return f"{column.text}; NULL = {column.null}" if column.null else column.text
