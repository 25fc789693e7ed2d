"""A recording while its program runs: the periodic work, commands and snapshots, and the end of it.

Three threads: the one that waits for the program and never does anything long, one that serves the control socket
(:mod:`.server`), and one that writes traces, one at a time.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..control.server import ControlServer
from ..folder.contents import Facts, bring_back
from ..folder.marks import MarkFile
from ..folder.output import output_path
from . import commands
from .drain import Drain
from .gpu import GpuTicks
from .residents import Residents
from .settings import Settings
from .space import SpoolSpace
from .watcher import Watcher

if TYPE_CHECKING:
    from ..convert.finish import Finished

_NEVER_S = float("inf")
#: From one turn to the next.
_TURN_S = 0.05
#: Where this many chunks are taken (a pool that forks a process for each task), the next turn comes sooner: those ahead
#: (space.LEAST_AHEAD) would not last for four of the longer pauses.
_HURRY_S = 0.005
_HURRY_CHUNKS_PER_S = 640


@dataclass(frozen=True)
class Recorded:
    """``exit_status``: the program's, 128 + n for signal n; ``finished``: the trace, None when it could not be
    written; ``failure``: then why, in a sentence or two."""

    exit_status: int
    finished: Finished | None
    failure: str


@dataclass(frozen=True)
class Parts:
    """What a recording consists of when its program is about to start. ``template``: path of the trace, ``%p`` = pid;
    ``listener``: None where no socket could be had."""

    folder: Path
    template: str
    facts: Facts
    space: SpoolSpace
    marks: MarkFile
    listener: socket.socket | None


class Live:
    """The recording of the program ``pid``, which has just started. ``told``: called with the trace once it is there."""

    def __init__(
        self,
        parts: Parts,
        residents: Residents,
        drain: Drain,
        watcher: Watcher | None,
        pid: int,
        settings: Settings,
        told: Callable[[Finished], None],
    ) -> None:
        self._parts, self._residents, self._drain, self._pid, self._told = parts, residents, drain, pid, told
        self._watcher = watcher
        if watcher:
            watcher.start()
        self._gpu = _start_gpu(parts, residents, settings)
        self._header = parts.space.header
        self._output = output_path(parts.template, pid)
        self._snapshots = Snapshots(self._write_snapshot)
        self._every_s = settings.snapshot_every_ns / 1e9 if settings.snapshot_every_ns else _NEVER_S
        begun_s = int(self._header.start_mono_ns) / 1e9
        self._snapshot_s = begun_s + self._every_s
        self._end_s = begun_s + settings.duration_ns / 1e9 if settings.duration_ns else _NEVER_S
        self._taken, self._turned_s = 0, begun_s
        self._early_end: threading.Thread | None = None
        self._written: Finished | None = None
        self._failure = ""
        self._failed_snapshots = 0
        self._server = self._start_server()

    def turn(self) -> float:
        """What is to be done again and again; takes no time worth mentioning. In how many seconds the next one is due."""
        if self._early_end:
            return _TURN_S
        now_s = time.monotonic()
        if now_s >= self._end_s:
            self._end_early()
            return _TURN_S
        for step in (self._notice, self._drain.turn, self._parts.space.offer_ahead, self._residents.sample_if_due):
            with suppress(Exception):  # of one step: the others go on, and the program does
                step()
        if now_s >= self._snapshot_s:
            self._snapshot_s = _NEVER_S
            self._snapshots.request().add_done_callback(lambda future: self._schedule(now_s, future))
        since_s, self._turned_s = now_s - self._turned_s, now_s
        return _HURRY_S if self._taken > _HURRY_CHUNKS_PER_S * since_s else _TURN_S

    def _notice(self) -> None:
        taken = self._parts.space.notice_taken()
        self._taken = len(taken)
        self._residents.notice(taken)

    def end(self, status: int) -> Recorded:
        """The program has ended with ``status``: writes the trace, if that is not done."""
        if self._early_end:
            self._early_end.join()
        else:
            self._header.ended = 1
            self._write_last(self._now_ns(), status)
        return Recorded(status, self._written, self._failure)

    def _start_server(self) -> ControlServer | None:
        parts = self._parts
        if parts.listener is None:
            return None
        control = commands.Control(
            commands.Recorded(parts.space, parts.marks, self._output, self._pid, self._snapshots.request)
        )
        with suppress(Exception):  # no thread or no descriptor can be had: nobody can control it
            server = ControlServer(parts.listener, control.handle)
            server.start()
            return server
        parts.listener.close()
        return None

    def _now_ns(self) -> int:
        return time.monotonic_ns() - int(self._header.start_mono_ns)

    def _schedule(self, begun_s: float, future: Future[Finished]) -> None:
        """The next snapshot, at a pause at least as long as this one took."""
        if not future.cancelled():
            self._failed_snapshots += future.exception() is not None
            now_s = time.monotonic()
            self._snapshot_s = max(begun_s + self._every_s, 2 * now_s - begun_s)

    def _end_early(self) -> None:
        """After --duration: processes stop at their next tick, and the trace is written while they run on."""
        self._header.ended = 1
        self._end_s = _NEVER_S
        thread = threading.Thread(target=self._write_last, args=(self._now_ns(), None), name="last")
        with suppress(RuntimeError):  # no thread can be had: the trace is written when the program ends
            thread.start()
            self._early_end = thread

    def _losses(self) -> dict[str, int]:
        parts = self._parts
        return {
            "spool_space": parts.space.failures,
            "rss_processes": self._residents.left_out,
            "marks_left_out": parts.marks.left_out,
            "snapshots_failed": self._failed_snapshots,
            "watcher_off": self._watcher.failures if self._watcher else 0,
        } | (self._gpu.losses if self._gpu else {})

    def _write_snapshot(self) -> Finished:
        from ..convert.finish import snapshot

        with self._drain.held():
            return snapshot(self._parts.folder, self._output, self._now_ns(), self._losses())

    def _write_last(self, wall_ns: int, status: int | None) -> None:
        """Writes the trace; ``status`` None = the program runs on. Whatever goes wrong: the program ran, and its recording
        is there."""
        try:
            self._stop()
            self._written = self._finish(wall_ns, status)
        except Exception as error:
            self._failure = _kept(self._parts.folder, error)
        finally:
            self._parts.space.close()
        if self._written:
            self._told(self._written)

    def _finish(self, wall_ns: int, status: int | None) -> Finished:
        from ..convert.finish import finish, finish_early
        from ..convert.processes import RootEnd

        parts = self._parts
        removed = bring_back(parts.folder, parts.space.descriptor, parts.facts)
        losses = self._losses() | {"spool_removed": int(removed)}
        if status is None:
            return finish_early(parts.folder, self._output, wall_ns, losses)
        return finish(parts.folder, RootEnd(self._pid, status), wall_ns, losses)

    def _stop(self) -> None:
        self._snapshots.close()
        if self._server:
            self._server.stop()
        if self._watcher:
            self._watcher.stop()
        if self._gpu:
            with suppress(OSError):
                self._notice()  # whose ticks these are, where the program was short
            self._gpu.stop()
        self._residents.close()
        self._drain.close()
        self._parts.marks.close()


def _start_gpu(parts: Parts, residents: Residents, settings: Settings) -> GpuTicks | None:
    if not settings.gpu_interval_ns:
        return None
    ticks = GpuTicks(parts.space, parts.folder, residents.pids, settings.gpu_interval_ns / 1e9)
    ticks.start()
    return ticks


class Snapshots:
    """Calls ``write`` in a thread of its own, one call at a time; who asks while one waits to begin gets that one."""

    def __init__(self, write: Callable[[], Finished]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._waiting: Future[Finished] | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def request(self) -> Future[Finished]:
        """A trace of all that happened before this call; cancelled when the recording ends first."""
        with self._lock:
            future = self._waiting or Future()
            if self._closed:
                future.cancel()
            elif not self._waiting:
                self._begin(future)
        return future

    def _begin(self, future: Future[Finished]) -> None:
        self._waiting = future
        if self._thread:
            return
        self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # no thread can be had
            self._thread = self._waiting = None
            future.set_exception(error)

    def close(self) -> None:
        """Waits for the one that is being written, and cancels the one that waits."""
        with self._lock:
            self._closed = True
            waiting, thread, self._waiting = self._waiting, self._thread, None
        if waiting:
            waiting.cancel()
        if thread:
            thread.join()

    def _run(self) -> None:
        while future := self._next():
            try:
                future.set_result(self._write())
            except Exception as error:
                future.set_exception(error)

    def _next(self) -> Future[Finished] | None:
        with self._lock:
            future, self._waiting = self._waiting, None
            if future is None:
                self._thread = None
        return future


def _kept(folder: Path, error: Exception) -> str:
    from ...formats.errors import TraceError

    if not folder.is_dir():
        return f"The folder {folder.parent} was removed while the program ran, and the recording with it."
    reason = str(error) if isinstance(error, TraceError) else f"The trace could not be made: {error!r}"
    return f"{reason.rstrip('.')}. The recording is kept; make the trace with: scalene-record --recover {folder}"
