"""A DuckDB in which a view or a macro is made when a statement first names it.

DuckDB looks up and types everything that a view reads when the view is made, down to the files. For all views, one after
the other, that takes most of a second, many times what a command needs of them.

Planning takes one core, and so does the larger part of most queries. What a caller knows that it is going to ask
(`Connection.ahead`) is therefore made by several threads: each view and each answer when what it reads is there.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
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
    """The connection of opened traces; ``raw`` is DuckDB's own, in which only those views are that were made already.

    ``at_once``: how many threads may make views and answers at the same time. If it is more than one, views, tables and
    macros are those of the database, so that each thread sees them by a cursor of its own; otherwise they are the
    connection's own (``scope`` is TEMP), which no statement of another connection can name.
    """

    def __init__(self, raw: DuckDBPyConnection, at_once: int = 1) -> None:
        self.raw = raw
        self.scope = "" if at_once > 1 else "TEMP"
        self._at_once = at_once
        self._ahead: _Ahead | None = None
        self._macros_lock = threading.Lock()
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

    def ahead(self, statements: Iterable[str], parameters: object = None) -> None:
        """Begins to answer ``statements``, which ``execute`` is going to be asked with the same parameters, once each, in
        any order. Raises nothing: an error comes with the answer. Does nothing for one thread."""
        if self._at_once > 1:
            self._ahead = self._ahead or _Ahead(self, self._at_once - 1)
            self._ahead.add(statements, parameters)

    def execute(self, sql: str, parameters: object = None) -> DuckDBPyConnection:
        """Runs a statement; makes the views and macros that it names first. Raises what DuckDB raises."""
        if self._ahead is not None and (answer := self._ahead.answer(sql, parameters)):
            return answer
        self.make(_words(sql))
        return self.raw.execute(sql, parameters)

    def make(self, names: Iterable[str]) -> None:
        """Makes those of the views and macros that are not there yet, each after what it reads."""
        names = set(names)
        self.make_macros(names, self.raw)
        if self._ahead is not None:
            self._ahead.make(names)
            return
        for name in sorted(self._queries.keys() & names, key=self._order.__getitem__):
            if name not in self._queries:
                continue
            if table := self.decisive(name):
                self.make([table])
            query = self.taken(name, self.raw)
            self.make(self.read_by(name, query))
            self.make_macros(_words(query), self.raw)
            self.raw.execute(self.statement(name, query))

    def make_all(self) -> None:
        """Makes all that are not there yet.

        While they are made, what a view reads is an empty one with the same columns: DuckDB, which reads through the views
        below each new one down to the files, has one step to go then, and is done in a third of the time.
        """
        self.make_macros(set(self._macros), self.raw)
        self.make(self._views.tables)
        queries = {name: self.taken(name, self.raw) for name in sorted(self._queries, key=self._order.__getitem__)}
        for name, query in queries.items():
            typed = self.raw.sql(query)
            empty = no_rows(zip(typed.columns, typed.types, strict=True))
            self.raw.execute(f"CREATE {self.scope} VIEW {name} AS {empty}")
        for name, query in reversed(queries.items()):
            self.raw.execute(f"CREATE OR REPLACE {self.scope} VIEW {name} AS {query}")

    def make_macros(self, names: Set[str], raw: DuckDBPyConnection) -> None:
        """Makes those of the macros that are not there yet, each after those that it names."""
        with self._macros_lock:
            self._make_macros(names, raw)

    def _make_macros(self, names: Set[str], raw: DuckDBPyConnection) -> None:
        for name in self._macros.keys() & names:
            if statement := self._macros.pop(name, ""):
                self._make_macros(_words(statement), raw)
                raw.execute(statement if self.scope else statement.replace(" TEMP ", " ", 1))

    def is_unmade(self, name: str) -> bool:
        """Whether this is a view that nobody has begun to make."""
        return name in self._queries

    def is_table(self, name: str) -> bool:
        """Whether the view ``name`` becomes a table."""
        return name in self._views.tables

    def decisive(self, name: str) -> str:
        """The table whose rows decide which query the view ``name`` has; "" = there is none."""
        table, _ = self._views.simpler.get(name, ("", ""))
        return table if table in self._views.tables else ""

    def taken(self, name: str, raw: DuckDBPyConnection) -> str:
        """The query of a view that is going to be made. Its decisive table must be there."""
        query = self._queries.pop(name)
        if (table := self.decisive(name)) and not raw.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchall():
            return self._views.queries[self._views.simpler[name][1]]
        return query

    def read_by(self, name: str, query: str) -> list[str]:
        """The views that the view ``name`` reads if its query is ``query``."""
        order = self._order[name]
        return [each for each in _words(query) if self._order.get(each, order) < order]

    def statement(self, name: str, query: str) -> str:
        """The statement that makes a view."""
        return f"CREATE {self.scope} {'TABLE' if self.is_table(name) else 'VIEW'} {name} AS {query}"

    def close(self) -> None:
        try:
            if self._ahead is not None:
                self._ahead.stop()
        finally:
            self.raw.close()


@dataclass(eq=False)
class _Task:
    """A view to make, or a statement to answer (``view`` = ""). ``rank``: how much is made one after the other of what
    waits for it. ``missing``: how many tasks it waits for. ``is_begun``: its query is known, and what that reads was seen to."""

    view: str
    query: str
    parameters: object = None
    cursor: DuckDBPyConnection | None = None
    rank: int = 0
    missing: int = 0
    is_begun: bool = False
    is_done: bool = False
    error: BaseException | None = None
    reads: list[_Task] = field(default_factory=list)
    waiting: list[_Task] = field(default_factory=list)


class _Ahead:
    """Makes views and answers of a connection: ``helpers`` threads, and the caller's while it waits."""

    def __init__(self, connection: Connection, helpers: int) -> None:
        self._connection = connection
        self._changed = threading.Condition()
        self._ready: list[_Task] = []
        self._views: dict[str, _Task] = {}
        self._answers: dict[tuple[str, str], _Task] = {}
        self._is_stopped = False
        self._cursors = [connection.raw.cursor() for _ in range(helpers)]
        self._threads = [threading.Thread(target=self._help, args=(each,), daemon=True) for each in self._cursors]
        for thread in self._threads:
            try:
                thread.start()
            except RuntimeError:  # the system allows no more threads: those that there are do all of it
                break

    def add(self, statements: Iterable[str], parameters: object) -> None:
        """Begins to answer the statements."""
        tasks = [_Task("", sql, parameters, self._connection.raw.cursor()) for sql in statements]
        self._cursors += [task.cursor for task in tasks if task.cursor]
        with self._changed:
            for task in tasks:
                if _asked(task.query, parameters) in self._answers:
                    continue
                self._answers[_asked(task.query, parameters)] = task
                self._begin(task)

    def answer(self, sql: str, parameters: object) -> DuckDBPyConnection | None:
        """The answer of one of the statements, when it is there; None if it is none of them."""
        asked = _asked(sql, parameters)
        if (task := self._answers.get(asked)) is None:
            return None
        try:
            self._wait_for([task])
        finally:
            if task.is_done:  # else the caller was interrupted, and stop() has to end the statement
                del self._answers[asked]
        return task.cursor

    def make(self, names: Iterable[str]) -> None:
        """Makes the views that are not there yet."""
        with self._changed:
            tasks = self._tasks_of(names, 0)
        self._wait_for(tasks)

    def stop(self) -> None:
        """Ends the threads; what nobody has waited for is left. Closes the answers, which would keep the database."""
        with self._changed:
            self._is_stopped = True
            self._ready.clear()
            self._changed.notify_all()
        for thread in self._threads:
            while thread.is_alive():
                for cursor in self._cursors:
                    cursor.interrupt()  # again and again: a statement may begin only now
                thread.join(0.02)
        for cursor in self._cursors:
            cursor.close()

    def _tasks_of(self, names: Iterable[str], rank: int) -> list[_Task]:
        """The tasks of those of ``names`` that are views in the making, or not made yet, which are begun."""
        found = []
        for name in names:
            if (task := self._views.get(name)) is None and self._connection.is_unmade(name):
                task = self._views[name] = _Task(name, "", rank=rank)
                self._begin(task)
            if task is not None and (not task.is_done or task.error):
                found.append(task)
        return found

    def _begin(self, task: _Task) -> None:
        """Lets the task wait for what it reads: a view with two queries, for what decides between them."""
        connection = self._connection
        if not task.view:
            task.is_begun = True
            self._let_wait(task, _words(task.query))
        elif table := connection.decisive(task.view):
            self._let_wait(task, [table])
        else:
            self._read(task, connection.taken(task.view, connection.raw))

    def _read(self, task: _Task, query: str) -> None:
        task.query, task.is_begun = query, True
        self._let_wait(task, self._connection.read_by(task.view, query))

    def _let_wait(self, task: _Task, names: Iterable[str]) -> None:
        """The task waits for these views, then it is ready."""
        rank = task.rank + self._weight(task)
        for each in self._tasks_of(names, rank):
            if each.error:
                self._end(task, each.error)
                return
            task.reads.append(each)
            task.missing += 1
            each.waiting.append(task)
            self._raise(each, rank)
        if not task.missing:
            self._ready.append(task)
            self._changed.notify_all()

    def _raise(self, task: _Task, rank: int) -> None:
        """The task has at least this rank, and what it reads a higher one."""
        if task.rank < rank:
            task.rank = rank
            for each in task.reads:
                self._raise(each, rank + self._weight(task))

    def _weight(self, task: _Task) -> int:
        return 3 if not task.view or self._connection.is_table(task.view) else 1

    def _next(self) -> _Task:
        """The ready task that the most waits for."""
        task = max(self._ready, key=lambda each: each.rank)
        self._ready.remove(task)
        return task

    def _help(self, raw: DuckDBPyConnection) -> None:
        while True:
            with self._changed:
                while not self._ready and not self._is_stopped:
                    self._changed.wait()
                if self._is_stopped:
                    return
                task = self._next()
            self._run(task, raw)

    def _wait_for(self, tasks: Iterable[_Task]) -> None:
        """Runs what is ready until these tasks are done. Raises the error of one that failed."""
        for wanted in tasks:
            while True:
                with self._changed:
                    while not wanted.is_done and not self._ready:
                        self._changed.wait()
                    if wanted.is_done:
                        break
                    task = self._next()
                self._run(task, self._connection.raw)
            if wanted.error:
                raise wanted.error

    def _run(self, task: _Task, raw: DuckDBPyConnection) -> None:
        """Takes a task that is ready one step further."""
        error: BaseException | None = None
        try:
            if not task.is_begun:
                query = self._connection.taken(task.view, raw)
                with self._changed:
                    self._read(task, query)
                return
            self._connection.make_macros(_words(task.query), raw)
            if task.view:
                raw.execute(self._connection.statement(task.view, task.query))
            else:
                assert task.cursor is not None
                task.cursor.execute(task.query, task.parameters)
        except BaseException as raised:
            error = raised
        with self._changed:
            self._end(task, error)
        if error is not None and is_interrupt(error):  # of the caller, whatever it waits for
            raise error

    def _end(self, task: _Task, error: BaseException | None) -> None:
        """The task is done; those that waited for it go on, or fail with it."""
        if task.is_done:
            return
        task.is_done, task.error = True, error
        self._changed.notify_all()
        for each in task.waiting:
            each.missing -= 1
            if error:
                self._end(each, error)
            elif not each.missing and not each.is_done:
                self._ready.append(each)


def is_interrupt(error: BaseException) -> bool:
    """Whether somebody pressed Ctrl-C, which DuckDB reports as an error without a class of its own."""
    return isinstance(error, KeyboardInterrupt) or (type(error) is RuntimeError and str(error) == "Query interrupted")


def _asked(sql: str, parameters: object) -> tuple[str, str]:
    return sql, repr(parameters)


@lru_cache(maxsize=1024)
def _words(sql: str) -> frozenset[str]:
    """The words of a statement, without those of comments at the end of a line."""
    return frozenset(re.findall(r"\w+", re.sub(r"--[^\n']*$", "", sql, flags=re.MULTILINE)))
