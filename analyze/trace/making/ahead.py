"""Makes views and answers by several threads, for a caller who knows what it is going to ask."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .unmade import words

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from .unmade import Unmade


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


class Ahead:
    """Makes views and answers: ``helpers`` threads with cursors of ``raw``, and the caller's while it waits."""

    def __init__(self, unmade: Unmade, raw: DuckDBPyConnection, helpers: int) -> None:
        self._unmade, self._raw = unmade, raw
        self._changed = threading.Condition()
        self._ready: list[_Task] = []
        self._views: dict[str, _Task] = {}
        self._answers: dict[tuple[str, str], _Task] = {}
        self._is_stopped = False
        self._cursors = [raw.cursor() for _ in range(helpers)]
        self._threads = [threading.Thread(target=self._help, args=(each,), daemon=True) for each in self._cursors]
        for thread in self._threads:
            try:
                thread.start()
            except RuntimeError:  # the system allows no more threads: those that there are do all of it
                break

    def add(self, statements: Iterable[str], parameters: object) -> None:
        """Begins to answer the statements."""
        tasks = [_Task("", sql, parameters, self._raw.cursor()) for sql in statements]
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
            if (task := self._views.get(name)) is None and name in self._unmade:
                task = self._views[name] = _Task(name, "", rank=rank)
                self._begin(task)
            if task is not None and (not task.is_done or task.error):
                found.append(task)
        return found

    def _begin(self, task: _Task) -> None:
        """Lets the task wait for what it reads: a view with two queries, for what decides between them."""
        unmade = self._unmade
        if not task.view:
            task.is_begun = True
            self._let_wait(task, words(task.query))
        elif table := unmade.decisive(task.view):
            self._let_wait(task, [table])
        else:
            self._read(task, unmade.taken(task.view, self._raw))

    def _read(self, task: _Task, query: str) -> None:
        task.query, task.is_begun = query, True
        self._let_wait(task, self._unmade.read_by(task.view, query))

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
        return 3 if not task.view or task.view in self._unmade.tables else 1

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
                self._run(task, self._raw)
            if wanted.error:
                raise wanted.error

    def _run(self, task: _Task, raw: DuckDBPyConnection) -> None:
        """Takes a task that is ready one step further."""
        error: BaseException | None = None
        try:
            if not task.is_begun:
                query = self._unmade.taken(task.view, raw)
                with self._changed:
                    self._read(task, query)
                return
            self._unmade.make_macros(words(task.query), raw)
            if task.view:
                raw.execute(self._unmade.statement(task.view, task.query))
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
