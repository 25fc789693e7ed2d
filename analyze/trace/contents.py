"""What the rows of a trace may add up to, which its metadata does not say (:mod:`scalene_trace.formats.trace.bounds.limits`).

A dictionary holds each text once, and rows refer to it: a text of a megabyte that stands in a million rows takes a
megabyte in the file. DuckDB does not unfold it either, until a query asks for the rows. Here it is asked only for the
lengths.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...formats.errors import TraceDamaged, TraceTooLarge
from ...formats.trace import schema
from . import views
from .sql_text import quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_MIB = 1 << 20

#: The most rows of the kinds that are printed one by one. The format has 20 settings and 100 losses.
MOST_RECORDS = {"setting": 10_000, "loss": 10_000}

#: The most text of each kind of row, in bytes, all rows and columns together.
#: Command lines have at most 2 MiB each (``command`` of the settings is one), and few are longer than a kilobyte; names of
#: threads have 16 bytes; a user mark has 64 KiB. Source files have at most 2 MiB each, and what Python holds of them is
#: several times as much. Names of functions and files repeat in many locations: 100 bytes each for two million.
MOST_TEXT_BYTES = {
    "setting": 16 * _MIB,
    "loss": 4 * _MIB,
    "mark": 64 * _MIB,
    "module": 64 * _MIB,
    "symbol": 128 * _MIB,
    "location": 256 * _MIB,
    "source": 256 * _MIB,
    "code": 256 * _MIB,
}
#: The most text of each row of all other kinds, on average: names of types, opcodes and classes.
MOST_ROW_TEXT_BYTES, FREE_TEXT_BYTES = 512, 64 * _MIB


#: Kinds whose rows others refer to, and the column with their id.
IDS = {"process": "process", "thread": "thread", "stack": "stack", "location": "id", "module": "id"}


def check_records(path: Path, kind: str, records: int) -> None:
    """Raises TraceTooLarge if there are too many rows of a kind."""
    most = MOST_RECORDS.get(kind, records)
    if records > most:
        raise TraceTooLarge(path, f"it has {records:,} rows of the kind {kind}, and the limit is {most:,}")


def check_texts(
    connection: DuckDBPyConnection,
    paths: Sequence[Path],
    files: list[tuple[str, views.FileColumns]],
    kinds: Collection[str],
) -> None:
    """Raises TraceTooLarge if the texts of a kind add up to too much. ``files``: as :func:`views.kind_view` takes them."""
    query = "\nUNION ALL\n".join(_sums(files, kinds))
    for trace, kind, records, text_bytes in connection.execute(query).fetchall() if query else ():
        most = MOST_TEXT_BYTES.get(kind, FREE_TEXT_BYTES + MOST_ROW_TEXT_BYTES * records)
        if text_bytes > most:
            raise TraceTooLarge(
                paths[trace - 1],
                f"the texts of its rows of the kind {kind} unfold to {text_bytes:,} bytes, and the limit is {most:,}",
            )


def check_ids(
    connection: DuckDBPyConnection,
    paths: Sequence[Path],
    files: list[tuple[str, views.FileColumns]],
    kinds: Collection[str],
) -> None:
    """Raises TraceDamaged if two rows of a kind have the same id: all that refers to it would be there twice, and with a
    thousand such rows of two kinds a million times."""
    query = "\nUNION ALL\n".join(_repeated_ids(files, kinds))
    for trace, kind, id_ in connection.execute(query).fetchall() if query else ():
        raise TraceDamaged(paths[trace - 1], f"several of its rows of the kind {kind} have the id {id_[:60]}")


def _repeated_ids(files: list[tuple[str, views.FileColumns]], kinds: Collection[str]) -> Iterator[str]:
    """Queries for ids that several rows have: columns trace, kind, id."""
    for kind, field in IDS.items():
        for each in views.alike(files) if kind in kinds else ():
            struct = each.columns.get(kind)
            if field in each.columns or (isinstance(struct, Mapping) and field in struct):
                column = quoted(field) if field in each.columns else f"{quoted(kind)}.{quoted(field)}"
                yield (
                    f"(SELECT {each.trace} AS trace, '{kind}' AS kind, {column}::VARCHAR AS id FROM {each.scan}"
                    f" WHERE kind = '{kind}' AND {column} IS NOT NULL GROUP BY ALL HAVING count(*) > 1 LIMIT 1)"
                )


def _sums(files: list[tuple[str, views.FileColumns]], kinds: Collection[str]) -> Iterator[str]:
    """Queries for the bytes of text: columns trace, kind, records, text_bytes."""
    for kind in schema.KINDS:
        for each in views.alike(files) if kind.name in kinds else ():
            if lengths := _lengths(kind, each.columns.get(kind.struct)):
                yield (
                    f"SELECT {each.trace} AS trace, '{kind.name}' AS kind, count(*) AS records,"
                    f" sum({' + '.join(lengths)})::HUGEINT AS text_bytes"
                    f" FROM {each.scan} WHERE kind = '{kind.name}' GROUP BY ALL HAVING count(*) > 0"
                )


def _lengths(kind: schema.Kind, struct: str | Mapping[str, str] | None) -> list[str]:
    """Expressions for the bytes of each text of a row."""
    if not isinstance(struct, Mapping):
        return []
    found = []
    for column in kind.columns:
        field = f"{quoted(kind.struct)}.{quoted(column.name)}"
        if struct.get(column.name) == "VARCHAR":
            found.append(f"coalesce(strlen({field}), 0)")
        elif struct.get(column.name) == "BLOB":
            found.append(f"coalesce(octet_length({field}), 0)")
    return found
