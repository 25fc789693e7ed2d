"""Attaches to a process and, as they appear, to its descendants: gives the watcher what it must know of each of them."""

from __future__ import annotations

import ctypes
import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...formats.dataclass import dataclass
from ...formats.libraries import watch_library
from ...formats.spool.layout import constants, ffi
from ..convert.running import started_ns
from .facts import (
    Life,
    children_of,
    command_of,
    ended_with,
    executable_of,
    life_of,
    namespace_of,
    parent_of,
    start_ticks_of,
)
from .interpreter import Interpreter, find_interpreter

_C = constants()
#: Looking for children may take one part in this many of a processor, unless it takes more than 10 ms.
_SHARE = 100
_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
#: An interpreter is loaded soon after exec, and the recording of its lines begins when it is found.
_SOON_S, _YOUNG_S = 0.005, 1.0


@dataclass(frozen=True)
class _Known:
    """A process that was attached to. ``has_python``: an interpreter was found in it; ``since_s``: when its image was first
    seen (CLOCK_MONOTONIC)."""

    life: Life
    command: bytes
    has_python: bool
    since_s: float


class Follower:
    """Attaches to the process ``pid`` when :meth:`attach` is called, and to its descendants at each :meth:`turn`."""

    def __init__(
        self,
        pid: int,
        with_children: bool,
        with_arguments: bool,
        count_loss: Callable[[str], None],
    ) -> None:
        """``count_loss``: is called with the name of a loss."""
        self._with_memory = False
        self.pid, self._count_loss = pid, count_loss
        self._with_children, self._with_arguments = with_children, with_arguments
        self._known: dict[int, _Known] = {}
        self._refused: set[tuple[int, int]] = set()
        self._next_s = self._added_s = 0.0

    def attach(self) -> None:
        """Attaches to the process and to the descendants that it has by now. Raises OSError."""
        self._add(self.pid, _C["CAUSE_ROOT"])
        self.turn()

    def turn(self) -> float:
        """Attaches to new descendants, and again to processes that have called exec. Does nothing if the last time was not
        long ago. Returns the seconds until the next turn."""
        now_s, began_s = time.monotonic(), time.thread_time()
        if now_s < self._next_s:
            return self._next_s - now_s
        self._added_s = 0.0
        for pid in list(self._known):
            with suppress(Exception):  # its memory or files cannot be read now
                self._renew(pid)
        if self._with_children:
            self._find_children()
        spent_s = time.thread_time() - began_s - self._added_s
        is_soon = any(not each.has_python and now_s - each.since_s < _YOUNG_S for each in self._known.values())
        pause_s = max(_SOON_S if is_soon else _PAUSE_S, min(spent_s * _SHARE, _LONGEST_PAUSE_S))
        self._next_s = now_s + pause_s
        return pause_s

    def memory_begins(self) -> None:
        """From now on, memory of the process itself is recorded, as long as it does not call exec; that of descendants is not, which
        is counted."""
        self._with_memory = True
        for _ in range(len(self._known) - 1):
            self._count_loss("attached_memory_children")

    def still_runs(self, pid: int, _: int) -> bool:
        """Does the process still run that was attached to under this pid?"""
        return pid in self._known and self._is_same(pid) and ended_with(pid) is None

    def _is_same(self, pid: int) -> bool:
        with suppress(OSError, IndexError, ValueError):
            return start_ticks_of(pid) == self._known[pid].life.start_ticks
        return False

    def _renew(self, pid: int) -> None:
        """Forgets a process that has gone; attaches again to one that has called exec, or whose interpreter is loaded by now."""
        if not self._is_same(pid):
            del self._known[pid]
            return
        known = self._known[pid]
        if life_of(pid).random not in (0, known.life.random):
            self._add(pid, _C["CAUSE_EXEC"])
            if self._with_memory and pid == self.pid:
                self._count_loss("attached_memory_ended")
        elif not known.has_python and find_interpreter(pid) is not None:
            self._add(pid, _C["START_OF_PYTHON"])

    def _find_children(self) -> None:
        waiting = list(self._known)
        while waiting:
            parent = waiting.pop()
            for child in children_of(parent):
                if child in self._known or child == os.getpid():
                    continue
                with suppress(Exception):  # it has gone, or is odd; others must be found all the same
                    self._begin(child, parent)
                waiting += [child] if child in self._known else []

    def _begin(self, child: int, parent: int) -> None:
        """Attaches to a child, unless that may not be."""
        key = child, start_ticks_of(child)
        if key in self._refused:
            return
        try:
            self._add(child, cause := self._cause(child, parent))
            if self._with_memory and cause == _C["CAUSE_SPAWN"]:  # a forked one counts itself
                self._count_loss("attached_memory_children")
        except PermissionError:
            self._refuse(child)

    def _refuse(self, pid: int) -> None:
        """The process is left out, which is counted once."""
        key = pid, start_ticks_of(pid)
        self._known.pop(pid, None)
        if key not in self._refused:
            self._refused.add(key)
            self._count_loss("attached_missed")

    def _cause(self, child: int, parent: int) -> int:
        """A forked child is what its parent is."""
        known = self._known[parent]
        return int(_C["CAUSE_FORK"] if command_of(child) == known.command else _C["CAUSE_SPAWN"])

    def _add(self, pid: int, cause: int) -> None:
        """Raises OSError."""
        if any(namespace_of(pid, kind) != namespace_of("self", kind) for kind in ("mnt", "pid")):
            self._refuse(pid)
            return
        began_s = time.thread_time()
        life, command, python = life_of(pid), command_of(pid), find_interpreter(pid)
        texts = executable_of(pid)
        if python is not None and not python.is_known:
            self._count_loss("unknown_python")
        if python is not None and python.is_free_threaded:
            self._count_loss("free_threaded")
        start = _start_record(pid, cause, python)
        start.exe_bytes = len(texts)
        if self._with_arguments:
            start.argv_bytes = len(command)
            texts += command
        _request(start, texts, _thread_entry(python, started_ns(life.start_ticks)))
        known = self._known.get(pid)
        since_s = known.since_s if known and cause == _C["START_OF_PYTHON"] else time.monotonic()
        self._known[pid] = _Known(life, command, python is not None, since_s)
        self._added_s += time.thread_time() - began_s


def _start_record(pid: int, cause: int, python: Interpreter | None) -> Any:
    """The start record of the process, as the shim would write it. The watcher adds what it alone knows."""
    start = ffi().new("struct record_process_start *")
    start.pid, start.parent_pid, start.cause = pid, parent_of(pid), cause
    start.pid_namespace = namespace_of("self", "pid") & 0xFFFFFFFF
    if python is not None:
        start.python_version = python.version
        start.stacks = _C["PYTHON_STACKS"] * python.is_known | _C["PYTHON_FREE_THREADED"] * python.is_free_threaded
    return start


def _thread_entry(python: Interpreter | None, start_ns: int) -> Any:
    """What the watcher must know of the interpreter, in the fields of a thread table's entry; and when the process was started
    (CLOCK_MONOTONIC)."""
    entry = ffi().new("struct thread_entry *")
    entry.start_ns = start_ns
    if python is not None:
        entry.python_version = python.version if python.is_known else 0
        entry.runtime, entry.runtime_bytes = python.runtime, python.runtime_bytes
        entry.code_type, entry.images = python.code_type, python.loop
    return entry


def _request(start: Any, texts: bytes, entry: Any) -> None:
    """Raises OSError."""
    start_at, entry_at = (ctypes.c_void_p(int(ffi().cast("uintptr_t", each))) for each in (start, entry))
    if watch_library().scalene_attach(start_at, ctypes.c_char_p(texts), entry_at) != 0:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
