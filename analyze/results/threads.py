"""Results about threads and asyncio tasks."""

from __future__ import annotations

from dataclasses import dataclass

from .report import Waits


@dataclass(frozen=True)
class ThreadInfo:
    """A thread. CPU times are the sums of its ticks; waits are None if they were not recorded.

    ``tid`` and ``name`` are those of the operating system; ``python_name`` is the last name that Python's threading module
    had for it, None for main threads and threads that Python has not started. ``started_file``, ``started_line``: the line
    of the user's that has started it, or the thread that has started it; None = there is none, or it is not known.
    ``waits_in``: the library in which it slept or waited for the disk, for more than half of that time; None = there is
    none, Python itself has waited, or it is unknown. ``waits_in_guess``: functions may be missing between it and the system call, so that
    another library may have waited.
    """

    trace: int
    process: int
    thread: int
    tid: int | None
    name: str | None
    start_s: float | None
    end_s: float | None
    cpu_s: float | None
    python_s: float | None
    native_s: float | None
    system_s: float | None
    wait_s: float | None
    waits: Waits
    started_file: str | None = None
    started_line: int | None = None
    python_name: str | None = None
    waits_in: str | None = None
    unclassified_s: float | None = None
    waits_in_guess: bool = False

    @property
    def shown_name(self) -> str | None:
        """Python's name of the thread, else the system's."""
        return self.python_name or self.name


@dataclass(frozen=True)
class TaskRow:
    """asyncio tasks that were suspended on one line.

    ``name``: the task's name with ``*`` in place of numbers; None = could not be read. ``coroutine``: the outermost one.
    ``file`` and the fields after it are None if no frame is the user's. ``suspended_s`` is the sum over the ``tasks``.
    """

    trace: int
    name: str | None
    coroutine: str | None
    tasks: int
    suspended_s: float
    file: str | None
    line: int | None
    function: str | None
    first_line: int | None
    source: str | None
