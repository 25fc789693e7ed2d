"""The description of a kind of rows, and the columns that all kinds share. The kinds are in :mod:`.schema`."""

from __future__ import annotations

from ..dataclass import dataclass


@dataclass(frozen=True)
class Column:
    """One column. ``type``: Arrow type; ``unit``: "" = none; ``text``: its meaning; ``null``: the meaning of NULL, "" = never
    NULL."""

    name: str
    type: str
    unit: str
    text: str
    null: str = ""


@dataclass(frozen=True)
class Kind:
    """One kind of rows. ``text``: what a row is; ``common``: the common columns that it fills besides trace_id and kind;
    ``columns``: its own."""

    name: str
    text: str
    common: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def struct(self) -> str:
        """Name of the struct column: the kind's, or ``NAME_row`` where a common column already has that name. (DuckDB reads
        two top-level columns of one name as ``process`` and ``process_1``, and Spark refuses them.)"""
        return f"{self.name}_row" if self.name in _COMMON_NAMES else self.name


COMMON: tuple[Column, ...] = (
    Column("trace_id", "string", "", "the recording: a random 128-bit number in hex, the same on every row"),
    Column("kind", "string", "", "names the struct column that holds the rest of this row"),
    Column("t_ns", "int64", "ns", "time since the start of the recording", "the row has no time"),
    Column(
        "process", "int32", "", "id of the process row (not a pid: pids are reused)", "belongs to no single process"
    ),
    Column("thread", "int32", "", "id of the thread row, unique over all processes", "belongs to no single thread"),
    Column("stack", "int32", "", "id of the stack row", "there was no Python stack, or it could not be read"),
)

_COMMON_NAMES = frozenset(column.name for column in COMMON)
