"""A DuckDB in which a view or a macro is made when a statement first names it.

DuckDB looks up and types everything that a view reads when the view is made, down to the files. For all views, one after
the other, that takes most of a second, many times what a command needs of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .sql_text import no_rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True)
class Views:
    """What a connection can make. ``queries``: of each view by its name, each after those that it reads. ``tables``: those
    that become tables. ``simpler``: of a view, a table and the view whose query gives the same where that is empty.
    ``macros``: the statements that define them, each after those that it names."""

    queries: Mapping[str, str] = field(default_factory=dict)
    tables: frozenset[str] = frozenset()
    simpler: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    macros: Mapping[str, str] = field(default_factory=dict)


class Connection:
    """The connection of opened traces; ``raw`` is DuckDB's own, in which only those views are that were made already."""

    def __init__(self, raw: DuckDBPyConnection) -> None:
        self.raw = raw
        self.define(Views())

    def define(self, views: Views) -> None:
        """Takes the views and macros that may be made."""
        self._views = views
        self._queries = dict(views.queries)
        self._macros = dict(views.macros)
        self._order = {name: number for number, name in enumerate(self._queries)}

    def store_all(self) -> None:
        """Lets all views that are not made yet become tables."""
        self._views = replace(self._views, tables=frozenset(self._views.queries))

    def redefine(self, queries: Mapping[str, str]) -> None:
        """Other queries for views that are not made yet."""
        self._queries |= queries

    def execute(self, sql: str, parameters: object = None) -> DuckDBPyConnection:
        """Runs a statement; makes the views and macros that it names first. Raises what DuckDB raises."""
        self.make(_words(sql))
        return self.raw.execute(sql, parameters)

    def make(self, names: Iterable[str]) -> None:
        """Makes those of the views and macros that are not there yet, each after what it reads."""
        names = set(names)
        self._make_macros(names)
        for name in sorted(self._queries.keys() & names, key=self._order.__getitem__):
            if name not in self._queries:
                continue
            query = self._taken(name)
            self.make(each for each in _words(query) if self._order.get(each, -1) < self._order[name] and each != name)
            self.raw.execute(f"CREATE TEMP {'TABLE' if name in self._views.tables else 'VIEW'} {name} AS {query}")

    def make_all(self) -> None:
        """Makes all that are not there yet.

        While they are made, what a view reads is an empty one with the same columns: DuckDB, which reads through the views
        below each new one down to the files, has one step to go then, and is done in a third of the time.
        """
        self._make_macros(set(self._macros))
        self.make(self._views.tables)
        queries = {name: self._taken(name) for name in sorted(self._queries, key=self._order.__getitem__)}
        for name, query in queries.items():
            typed = self.raw.sql(query)
            self.raw.execute(f"CREATE TEMP VIEW {name} AS {no_rows(zip(typed.columns, typed.types, strict=True))}")
        for name, query in reversed(queries.items()):
            self.raw.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {query}")

    def _make_macros(self, names: set[str]) -> None:
        """Makes those of the macros that are not there yet, each after those that it names."""
        for name in self._macros.keys() & names:
            if statement := self._macros.pop(name, ""):
                self._make_macros(_words(statement))
                self.raw.execute(statement)

    def _taken(self, name: str) -> str:
        """The query of a view that is being made."""
        query = self._queries.pop(name)
        table, simpler = self._views.simpler.get(name, ("", ""))
        return self._views.queries[simpler] if simpler and self._is_empty(table) else query

    def _is_empty(self, table: str) -> bool:
        return table in self._views.tables and not self.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchall()

    def close(self) -> None:
        self.raw.close()


def _words(sql: str) -> set[str]:
    """The words of a statement, without those of comments at the end of a line."""
    return set(re.findall(r"\w+", re.sub(r"--[^\n']*$", "", sql, flags=re.MULTILINE)))
