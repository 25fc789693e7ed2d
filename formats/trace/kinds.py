"""What a kind of record is, and the columns that all kinds share. The kinds are in :mod:`schema`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """One column: its Arrow type, its unit ("" = none), what it means and what NULL means ("" = never NULL)."""

    name: str
    type: str
    unit: str
    text: str
    null: str = ""


@dataclass(frozen=True)
class Kind:
    """One kind of record. ``common`` lists the common columns that it fills beside trace_id and kind."""

    name: str
    text: str
    common: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def struct(self) -> str:
        """Name of the struct column: the kind's, or ``NAME_row`` where a common column has that name already.

        (Two top-level columns of one name are read as ``process`` and ``process_1`` by DuckDB and refused by Spark.)
        """
        return f"{self.name}_row" if self.name in _COMMON_NAMES else self.name


COMMON: tuple[Column, ...] = (
    Column("trace_id", "string", "", "the recording: a random 128-bit number in hex, the same on every row"),
    Column("kind", "string", "", "which struct column holds the rest of this row"),
    Column("t_ns", "int64", "ns", "when, from the start of the recording", "the record has no time"),
    Column("process", "int32", "", "id of the process row (not a pid: pids recycle)", "belongs to no one process"),
    Column("thread", "int32", "", "id of the thread row, unique over all processes", "belongs to no one thread"),
    Column("stack", "int32", "", "id of the stack row", "no Python stack was there or could be read"),
)

_COMMON_NAMES = frozenset(column.name for column in COMMON)
