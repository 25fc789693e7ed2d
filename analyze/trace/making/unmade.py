"""What a connection can make and has not made yet: views, of which some become tables, and macros."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

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


class Unmade:
    """Those of ``views`` that nobody has begun to make. ``scope``: TEMP if they are the connection's own, or "" if they are the
    database's."""

    def __init__(self, views: Views, scope: str) -> None:
        self.scope = scope
        self._views = views
        self._queries = dict(views.queries)
        self._macros = dict(views.macros)
        self._macros_lock = threading.Lock()
        self._order = {name: number for number, name in enumerate(self._queries)}

    def __contains__(self, name: str) -> bool:
        return name in self._queries

    @property
    def tables(self) -> frozenset[str]:
        """The views that become tables, also those that are there."""
        return self._views.tables

    def store_all(self) -> None:
        """Lets all of them become tables."""
        self._views = replace(self._views, tables=frozenset(self._views.queries))

    def redefine(self, queries: Mapping[str, str]) -> None:
        """Other queries."""
        self._queries |= queries

    def ordered(self, names: Iterable[str] | None = None) -> list[str]:
        """Those of ``names``, or all, each after what it reads."""
        chosen = self._queries.keys() if names is None else self._queries.keys() & names
        return sorted(chosen, key=self._order.__getitem__)

    def make_all_macros(self, raw: DuckDBPyConnection) -> None:
        self.make_macros(set(self._macros), raw)

    def make_macros(self, names: Set[str], raw: DuckDBPyConnection) -> None:
        """Makes those of the macros that are not there yet, each after those that it names."""
        with self._macros_lock:
            self._make_macros(names, raw)

    def _make_macros(self, names: Set[str], raw: DuckDBPyConnection) -> None:
        for name in self._macros.keys() & names:
            if statement := self._macros.pop(name, ""):
                self._make_macros(words(statement), raw)
                raw.execute(statement if self.scope else statement.replace(" TEMP ", " ", 1))

    def decisive(self, name: str) -> str:
        """The table whose rows decide which query the view ``name`` has; "" = there is none."""
        table, _ = self._views.simpler.get(name, ("", ""))
        return table if table in self.tables else ""

    def taken(self, name: str, raw: DuckDBPyConnection) -> str:
        """The query of a view that is going to be made. Its decisive table must be there."""
        query = self._queries.pop(name)
        if (table := self.decisive(name)) and not raw.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchall():
            return self._views.queries[self._views.simpler[name][1]]
        return query

    def read_by(self, name: str, query: str) -> list[str]:
        """The views that the view ``name`` reads if its query is ``query``."""
        order = self._order[name]
        return [each for each in words(query) if self._order.get(each, order) < order]

    def statement(self, name: str, query: str) -> str:
        """The statement that makes a view."""
        return f"CREATE {self.scope} {'TABLE' if name in self.tables else 'VIEW'} {name} AS {query}"


@lru_cache(maxsize=1024)
def words(sql: str) -> frozenset[str]:
    """The words of a statement, without those of comments at the end of a line."""
    return frozenset(re.findall(r"\w+", re.sub(r"--[^\n']*$", "", sql, flags=re.MULTILINE)))
