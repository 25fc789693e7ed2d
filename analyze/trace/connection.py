"""A DuckDB in which a view is made when a statement first names it.

DuckDB looks up and types all that a view reads when it is made, down to the files. For all views, one after the other, that
takes most of a second, many times what a command needs of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from .views import quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


class Connection:
    """The connection of opened traces; ``raw`` is DuckDB's own, in which only the views are that were made already."""

    def __init__(self, raw: DuckDBPyConnection) -> None:
        self.raw = raw
        self._queries: dict[str, str] = {}
        self._order: dict[str, int] = {}
        self._tables: frozenset[str] = frozenset()
        self._simpler: Mapping[str, tuple[str, str]] = {}

    def define(
        self, queries: Iterable[tuple[str, str]], tables: frozenset[str], simpler: Mapping[str, tuple[str, str]]
    ) -> None:
        """Takes the (name, query) of the views, each after those it reads. Those named in ``tables`` become tables.
        ``simpler``: of a view, a table and the query that gives the same where that is empty."""
        self._queries = dict(queries)
        self._order = {name: number for number, name in enumerate(self._queries)}
        self._tables, self._simpler = tables, simpler

    def redefine(self, queries: Mapping[str, str]) -> None:
        """Other queries for views that are not made yet."""
        self._queries |= queries

    def execute(self, sql: str, parameters: object = None) -> DuckDBPyConnection:
        """Runs a statement; makes the views that it names first. Raises what DuckDB raises."""
        self.make(_words(sql))
        return self.raw.execute(sql, parameters)

    def make(self, names: Iterable[str]) -> None:
        """Makes those of the views that are not there yet, each after what it reads."""
        for name in sorted(self._queries.keys() & names, key=self._order.__getitem__):
            if name not in self._queries:
                continue
            query = self._taken(name)
            self.make(each for each in _words(query) if self._order.get(each, len(self._order)) < self._order[name])
            self.raw.execute(f"CREATE TEMP {'TABLE' if name in self._tables else 'VIEW'} {name} AS {query}")

    def make_all(self) -> None:
        """Makes all that are not there yet.

        While they are made, what a view reads is an empty one with the same columns: DuckDB, which reads through the views
        below each new one down to the files, has one step to go then, and is done in a third of the time.
        """
        self.make(self._tables)
        queries = {name: self._taken(name) for name in sorted(self._queries, key=self._order.__getitem__)}
        for name, query in queries.items():
            typed = self.raw.sql(query)
            columns = ", ".join(
                f"NULL::{kind} AS {quoted(each)}" for each, kind in zip(typed.columns, typed.types, strict=True)
            )
            self.raw.execute(f"CREATE TEMP VIEW {name} AS SELECT {columns} WHERE false")
        for name, query in reversed(queries.items()):
            self.raw.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {query}")

    def _taken(self, name: str) -> str:
        """The query of a view that is being made."""
        query = self._queries.pop(name)
        if (found := self._simpler.get(name)) and self._is_empty(found[0]):
            return found[1]
        return query

    def _is_empty(self, table: str) -> bool:
        return table in self._tables and not self.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchall()

    def close(self) -> None:
        self.raw.close()


def _words(sql: str) -> set[str]:
    """The words of a statement, without those of comments at the end of a line."""
    return set(re.findall(r"\w+", re.sub(r"--[^\n']*$", "", sql, flags=re.MULTILINE)))
