"""A DuckDB in which a view or a macro is made when a statement first names it.

DuckDB looks up and types everything that a view reads when the view is made, down to the files. For all views, one after
the other, that takes most of a second, many times what a command needs of them.

Planning takes one core, and so does the larger part of most queries. What a caller knows that it is going to ask
(`Connection.ahead`) is therefore made by several threads (:mod:`.making.ahead`): each view and each answer when what it reads
is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .making.ahead import Ahead
from .making.unmade import Unmade, Views, words
from .sql_text import no_rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


class Connection:
    """The connection of opened traces; ``raw`` is DuckDB's own, in which only those views are that were made already, and not
    those that are ``unmade``.

    ``at_once``: how many threads may make views and answers at the same time. If it is more than one, views, tables and
    macros are those of the database, so that each thread sees them by a cursor of its own; otherwise they are the
    connection's own (``scope`` is TEMP), which no statement of another connection can name.
    """

    def __init__(self, raw: DuckDBPyConnection, at_once: int = 1) -> None:
        self.raw = raw
        self.scope = "" if at_once > 1 else "TEMP"
        self._at_once = at_once
        self._ahead: Ahead | None = None
        self.define(Views())

    def define(self, views: Views) -> None:
        """Takes the views and macros that may be made. Call before anything is asked :meth:`ahead`."""
        self.unmade = Unmade(views, self.scope)

    def ahead(self, statements: Iterable[str], parameters: object = None) -> None:
        """Begins to answer ``statements``, which ``execute`` is going to be asked with the same parameters, once each, in
        any order. Raises nothing: an error comes with the answer. Does nothing for one thread."""
        if self._at_once > 1:
            self._ahead = self._ahead or Ahead(self.unmade, self.raw, self._at_once - 1)
            self._ahead.add(statements, parameters)

    def execute(self, sql: str, parameters: object = None) -> DuckDBPyConnection:
        """Runs a statement; makes the views and macros that it names first. Raises what DuckDB raises."""
        if self._ahead is not None and (answer := self._ahead.answer(sql, parameters)):
            return answer
        self.make(words(sql))
        return self.raw.execute(sql, parameters)

    def make(self, names: Iterable[str]) -> None:
        """Makes those of the views and macros that are not there yet, each after what it reads."""
        names, unmade = set(names), self.unmade
        unmade.make_macros(names, self.raw)
        if self._ahead is not None:
            self._ahead.make(names)
            return
        for name in unmade.ordered(names):
            if name not in unmade:
                continue
            if table := unmade.decisive(name):
                self.make([table])
            query = unmade.taken(name, self.raw)
            self.make(unmade.read_by(name, query))
            unmade.make_macros(words(query), self.raw)
            self.raw.execute(unmade.statement(name, query))

    def make_all(self) -> None:
        """Makes all that are not there yet.

        While they are made, what a view reads is an empty one with the same columns: DuckDB, which reads through the views
        below each new one down to the files, has one step to go then, and is done in a third of the time.
        """
        unmade = self.unmade
        unmade.make_all_macros(self.raw)
        self.make(unmade.tables)
        queries = {name: unmade.taken(name, self.raw) for name in unmade.ordered()}
        for name, query in queries.items():
            typed = self.raw.sql(query)
            empty = no_rows(zip(typed.columns, typed.types, strict=True))
            self.raw.execute(f"CREATE {self.scope} VIEW {name} AS {empty}")
        for name, query in reversed(queries.items()):
            self.raw.execute(f"CREATE OR REPLACE {self.scope} VIEW {name} AS {query}")

    def close(self) -> None:
        try:
            if self._ahead is not None:
                self._ahead.stop()
        finally:
            self.raw.close()
