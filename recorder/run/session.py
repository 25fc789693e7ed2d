"""A recording while its program runs: periodic work, commands, snapshots, and the end.

There are four threads: one waits for the program and must never block for long, one serves the control socket
(:mod:`..control.server`), one writes snapshots (:mod:`.snapshots`), and one begins the trace (:mod:`..convert.begun`).
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...formats.dataclass import dataclass
from ...formats.errors import NothingRecorded, TraceError
from ..control.budget import Budget
from ..control.cycle import Cycle
from ..control.pauses import Pauses
from ..control.server import ControlServer
from ..errors import RecordError
from ..folder.facts import Facts, restore_folder
from ..folder.files import SPOOL_NAME, TRACE_NAME
from ..folder.held import HeldFolder
from ..folder.marks import MarkFile
from ..folder.output import output_path
from ..rights.identity import OWN_RIGHTS, Rights
from ..rights.observer import RightsObserver

# Imported now: once the program runs, there may be no descriptor left to read a module with.
from ..sampling.gpu_sampler import GpuSampler
from ..sampling.idle import IdleProcessors
from ..sampling.kept_budget import KeptBudget
from ..sampling.rss import RssSampler
from ..sampling.spending import Spending
from ..sampling.watcher import Watcher
from ..settings import Settings
from ..spool.drain import Drain, fewest_chunks
from ..spool.spool_file import SpoolFile, alloc_text
from .commands import Commands, Target
from .snapshots import Snapshots

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ..convert.begun import BegunTrace
    from ..convert.finish import Finished
    from ..upload.uploader import Uploader
    from .rotation import Rotation
    from .supervise import Ended

#: Writes the trace: length of the recording (ns), losses by name, what was written while the program ran.
Finish = Callable[[int, dict[str, int], "BegunTrace | None"], "Finished"]
_NEVER_S = float("inf")
#: From one turn to the next; where nothing happens.
_TURN_S, _QUIET_S = 0.05, 0.1
#: The same with a budget, and between windows: 20 turns in a second cost 0.8 % of a slow processor, and 4 still 0.2 %.
_RELAXED_S, _BETWEEN_S = 0.25, 0.5
#: A process that has just been started may soon give up its rights.
_NEW_S = 1.0
#: The next turn comes sooner when chunks are taken so fast (a pool that forks a process for each task) that half of those
#: that are offered ahead would last for less than four pauses.
_HURRY_S = 0.005
_HURRY_PAUSES = 4
#: Parts of the trace are made while the program runs if so much of a processor is idle, and at most so many more chunks are in
#: use than stay in the spool, or half of a small one.
_IDLE_PROCESSORS, _MANY_CHUNKS = 0.25, 512


@dataclass(frozen=True)
class Recorded:
    """The result of a recording. ``exit_status``: the program's, 128 + n for signal n; ``finished``: the trace, None when
    it could not be written; ``failure``: the reason, in one or two sentences, "" when there is a trace."""

    exit_status: int
    finished: Finished | None
    failure: str


@dataclass(frozen=True)
class AttachedEnd:
    """How the recording of a process that was attached to ends. ``ended_by``: program, duration or detach; ``status``: the
    exit status of the process, 128 + n for signal n, None = it runs on, or its status is unknown; ``killed``: by a
    signal; ``still_runs``: as in Outcome."""

    ended_by: str
    status: int | None
    killed: bool
    still_runs: Callable[[int, int], bool]


@dataclass(frozen=True)
class Prepared:
    """Everything that is set up before the program starts. ``template``: path of the trace, ``%p`` = pid; ``cycle``: when the
    recording is on, None = all the time; ``budget``: decides that, None = there is none; ``listener``: None where no control socket could be made; ``rights``: None where no process can have less rights than the recorder."""

    folder: HeldFolder
    template: str
    facts: Facts
    space: SpoolFile
    marks: MarkFile
    pauses: Pauses
    cycle: Cycle | None
    budget: Budget | None
    listener: socket.socket | None
    rights: RightsObserver | None


class Session:
    """The recording of the program ``pid``, which has just started. ``on_trace`` is called with the trace when it has been
    written, ``report`` with sentences for the user; ``uploader`` learns of closed traces."""

    def __init__(
        self,
        prepared: Prepared,
        rss: RssSampler,
        drain: Drain,
        watcher: Watcher | None,
        pid: int,
        settings: Settings,
        on_trace: Callable[[Finished], None],
        report: Callable[[str], None] = lambda _: None,
        uploader: Uploader | None = None,
    ) -> None:
        self._prepared, self._rss, self._drain, self._pid, self._on_trace = prepared, rss, drain, pid, on_trace
        self._uploader = uploader
        self._watcher, self._with_sources = watcher, settings.with_sources
        if watcher:
            watcher.start()
            prepared.pauses.on_change = watcher.wake
        self._gpu = _start_gpu(prepared, rss, settings)
        self._header = prepared.space.header
        self._output = output_path(prepared.template, pid)
        self._snapshots = Snapshots(self._write_snapshot)
        self._every_s = settings.snapshot_every_ns / 1e9 if settings.snapshot_every_ns else _NEVER_S
        start_s = int(self._header.start_mono_ns) / 1e9
        self._snapshot_s = start_s + self._every_s
        self._end_s = start_s + settings.duration_ns / 1e9 if settings.duration_ns else _NEVER_S
        self._taken, self._turned_s = 0, start_s
        self._early_end: threading.Thread | None = None
        self._written: Finished | None = None
        self._failure = ""
        self._failed_snapshots = 0
        self._begun: BegunTrace | None = None
        self._end_is_near = False
        self._begins, self._is_over = threading.Lock(), False
        self._cycle, self._report = prepared.cycle, report
        self._spending = Spending(prepared.space, rss.pids) if prepared.budget else None
        self._budget = _kept(prepared, self._spending)
        self._noticed_s, self._whole_s = start_s, start_s
        self._has_arenas_only = settings.arenas_only
        target = Target(prepared.space, prepared.marks, prepared.pauses, self._output, pid, self._snapshots.request)
        self._commands = Commands(target)
        self._rotation = self._rotate(settings, report) if settings.rotate_ns else None
        self._server = self._start_server()

    def _rotate(self, settings: Settings, report: Callable[[str], None]) -> Rotation:
        from .rotation import Recording, Rotation  # here, because few recordings need it

        prepared = self._prepared
        folder, root, interval = prepared.folder.path, Path(prepared.template).parent, partial(alloc_text, self._header)
        facts, known = prepared.facts, (self._losses, self._rights, interval)
        parts = (self._header, self._drain, self._watcher, prepared.marks)
        told = Recording(folder, root, facts, *parts, *known)
        closed = self._uploader.closed if self._uploader else lambda: None
        return Rotation(told, self._pid, settings, lambda error: report(_late_text(prepared.folder, error)), closed)

    def begin_budget(self) -> None:
        """Call when the converter was imported, or will not be as long as the program runs."""
        if self._budget:
            self._budget.allow()

    def begin_trace(self) -> None:
        """Begins the trace, unless the end has come. Call it in another thread, when the converter was imported."""
        from ..convert.ahead import Ahead  # as in _write_snapshot
        from ..convert.begun import BegunTrace

        prepared, idle = self._prepared, IdleProcessors()
        folder = prepared.folder.path
        with self._begins:
            # What is read ahead would belong to several traces, or be in a budget.
            if not self._is_over and not self._rotation and not self._budget:
                may_work = partial(_may_work, idle, prepared.space, self._pid)
                ahead = Ahead(folder / SPOOL_NAME, prepared.facts, self._drain.pinned, self._rights, may_work)
                self._begun = BegunTrace(folder / TRACE_NAME, prepared.facts.trace_id, ahead)

    def turn(self) -> float:
        """Does the periodic work, which takes about 30 ms at most. Returns the seconds until the next turn."""
        if self._early_end:
            return _TURN_S
        now_s = time.monotonic()
        if now_s >= self._end_s:
            self._end_early()
            return _TURN_S
        for step in self._steps(now_s):
            with suppress(Exception):  # a step that fails must stop neither the other steps nor the program
                step()
        if now_s >= self._snapshot_s:
            self._snapshot_s = _NEVER_S
            self._snapshots.request().add_done_callback(lambda future: self._schedule(now_s, future))
        since_s, self._turned_s = now_s - self._turned_s, now_s
        pause_s = self._pause_s(now_s)
        hurry_chunks_per_s = self._prepared.space.full_ahead / 2 / (_HURRY_PAUSES * pause_s)
        if self._taken > hurry_chunks_per_s * since_s:
            return _HURRY_S
        edge_s = self._cycle.left_s(time.monotonic()) if self._cycle else _NEVER_S
        return max(min(pause_s, edge_s, min(self._end_s, self._snapshot_s) - time.monotonic()), _HURRY_S)

    def _steps(self, now_s: float) -> Iterator[Callable[[], object]]:
        """What a turn does. Where nothing happens, drained is little, and rights are observed a few times a second: the two take
        most of a turn."""
        prepared = self._prepared
        yield from (self._follow_cycle, self._keep_budget, self._notice)
        is_whole = not self._is_quiet(now_s) or now_s >= self._whole_s
        if is_whole:
            self._whole_s = now_s + _RELAXED_S
            yield self._drain.turn
        yield partial(prepared.space.offer_ahead, is_often=self._cycle is None and not self._is_quiet(now_s))
        yield self._rss.sample_if_due
        if is_whole:
            yield self._observe_rights
        yield from (prepared.pauses.turn, self._notice_end)
        if self._rotation:
            yield self._rotation.turn

    def _pause_s(self, now_s: float) -> float:
        """The time to the next turn, if nothing is to happen at a certain moment before."""
        rights = self._prepared.rights
        if self._budget and not self._taken and not (rights and now_s < self._noticed_s + _NEW_S):
            return _BETWEEN_S if self._header.paused else _RELAXED_S
        if self._header.paused and not self._taken and not rights:  # there is little to do
            return _BETWEEN_S if self._cycle else _QUIET_S
        return _QUIET_S if self._is_quiet(now_s) else _TURN_S

    def _is_quiet(self, now_s: float) -> bool:
        """No process has just started, and none has taken a chunk since the last turn."""
        return not self._taken and now_s >= self._noticed_s + _NEW_S

    def _follow_cycle(self) -> None:
        if self._cycle:
            self._prepared.pauses.follow_cycle(None if self._cycle.is_on(time.monotonic()) else self._cycle.name)

    def _keep_budget(self) -> None:
        if self._budget:
            self._budget.turn()

    def _notice(self) -> None:
        taken = self._prepared.space.notice_taken()
        self._taken = len(taken)
        self._rss.notice(taken)
        if taken and self._spending:
            self._spending.count_records()  # before chunks are drained

    def _notice_end(self) -> None:
        """The interpreter of a large program takes a moment to finalize, in which the other processors are idle."""
        if self._begun and not self._end_is_near and _is_finalizing(self._header, self._pid):
            self._end_is_near = True
            self._begun.end_is_near()

    def _observe_rights(self) -> None:
        if self._prepared.rights:
            if started := self._rss.started():
                self._noticed_s = time.monotonic()
            self._prepared.rights.turn(started)

    def observe_end(self) -> None:
        """Call when the program has ended, but was not reaped yet: what became of its rights is still known."""
        if self._prepared.rights and not self._early_end:
            self._prepared.rights.observe(self._pid)

    def _rights(self) -> Rights:
        """With which rights files are read that the program has named."""
        observer = self._prepared.rights
        return OWN_RIGHTS if self._with_sources or not observer else observer.rights()

    def end(self, ended: Ended) -> Recorded:
        """Call when the program has ended. Writes the trace, unless --duration has done so."""
        if self._early_end:
            self._early_end.join()
        else:
            self._set_ended()
            self._write_last(self._now_ns(), partial(self._finish, ended))
        return Recorded(ended.status, self._written, self._failure)

    def end_attached(self, end: AttachedEnd) -> Recorded:
        """Call when the recording of a process that was attached to is to end. Writes the trace."""
        self._set_ended()
        self._write_last(self._now_ns(), partial(self._finish_attached, end))
        return Recorded(0 if self._written else RecordError.exit_status, self._written, self._failure)

    def _start_server(self) -> ControlServer | None:
        prepared = self._prepared
        if prepared.listener is None:
            return None
        with suppress(Exception):  # without a thread or descriptors the recording goes on, but nobody can control it
            server = ControlServer(prepared.listener, self._commands.handle)
            server.start()
            return server
        prepared.listener.close()
        return None

    def _now_ns(self) -> int:
        return time.monotonic_ns() - int(self._header.start_mono_ns)

    def _schedule(self, requested_s: float, future: Future[Finished]) -> None:
        """Schedules the next snapshot, after a pause of at least the time that this one took."""
        if not future.cancelled():
            self._failed_snapshots += future.exception() is not None
            now_s = time.monotonic()
            self._snapshot_s = max(requested_s + self._every_s, 2 * now_s - requested_s)

    def _set_ended(self) -> None:
        with self._begins:
            self._is_over = True
        self._header.ended = 1
        if self._begun:
            self._begun.end()

    def _end_early(self) -> None:
        """After --duration: processes stop their samplers at the next tick, and the trace is written while they run on."""
        self._set_ended()
        self._end_s = _NEVER_S
        thread = threading.Thread(target=self._write_last, args=(self._now_ns(), self._finish_early), name="last")
        with suppress(RuntimeError):  # cannot start a thread: the trace is written when the program ends
            thread.start()
            self._early_end = thread

    def _losses(self) -> dict[str, int]:
        prepared = self._prepared
        return {
            "spool_space": prepared.space.failures,
            "rss_processes": self._rss.left_out,
            "marks_left_out": prepared.marks.left_out,
            "snapshots_failed": self._failed_snapshots,
            "budget_exceeded": int(prepared.budget is not None and prepared.budget.is_exceeded()),
            "arenas_only": int(self._has_arenas_only),
            "watcher_off": self._watcher.failures if self._watcher else 0,
            "traces_given_up": self._uploader.given_up if self._uploader else 0,
        } | (self._gpu.losses if self._gpu else {})

    def _write_snapshot(self) -> Finished:
        from ..convert.finish import SETTLE_S, snapshot  # numpy and pyarrow are loaded after the program was started

        if self._rotation:
            raise TraceError(
                "A recording with --rotate has no snapshots: its closed traces are below the folder of -o."
            )
        prepared, wall_ns, losses = self._prepared, self._now_ns(), self._losses()
        time.sleep(SETTLE_S)
        with self._drain.pinned() as view:
            try:
                return snapshot(prepared.folder.path, prepared.facts, self._output, wall_ns, losses, view, self._rights)
            except TraceError as error:
                raise TraceError(prepared.folder.text(error)) from error

    def _write_last(self, wall_ns: int, finish: Finish) -> None:
        """Writes the trace by ``finish``. An error of any kind is reported, not raised: the program has run, and its
        recording is kept."""
        nothing = False
        try:
            self._stop()
            self._written = finish(wall_ns, *self._restored())
        except NothingRecorded as error:
            self._failure, nothing = str(error), True
        except Exception as error:
            self._failure = _failure_text(self._prepared.folder, error)
        finally:
            if self._begun:
                self._begun.give_up()
            self._prepared.space.close()
        if self._written or nothing:
            self._prepared.folder.remove()
        if self._written:
            self._on_trace(self._written)

    def _restored(self) -> tuple[dict[str, int], BegunTrace | None]:
        """The losses, and what was written while the program ran, when everything that was removed is there again."""
        prepared = self._prepared
        removed = restore_folder(prepared.folder, prepared.space.path, prepared.space.descriptor, prepared.facts)
        losses = self._losses() | {"spool_removed": int(removed)}
        return losses, None if removed else self._begun  # a removed folder has taken it along

    def _finish(self, ended: Ended, wall_ns: int, losses: dict[str, int], begun: BegunTrace | None) -> Finished:
        from ..convert.convert import Outcome  # as in _write_snapshot
        from ..convert.finish import finish
        from ..convert.kinds.ends import RootEnd

        prepared, end = self._prepared, RootEnd(self._pid, *ended)
        if self._rotation:
            return self._rotation.finish(Outcome(end, wall_ns, False, losses, rights=self._rights))
        return finish(prepared.folder.path, end, wall_ns, losses, self._rights, prepared.facts, begun)

    def _finish_early(self, wall_ns: int, losses: dict[str, int], begun: BegunTrace | None) -> Finished:
        from ..convert.convert import Outcome  # as in _write_snapshot
        from ..convert.finish import finish_early

        prepared = self._prepared
        if self._rotation:
            return self._rotation.finish(Outcome(None, wall_ns, False, losses, "duration", self._rights))
        return finish_early(prepared.folder.path, prepared.facts, self._output, wall_ns, losses, self._rights, begun)

    def _finish_attached(
        self, end: AttachedEnd, wall_ns: int, losses: dict[str, int], begun: BegunTrace | None
    ) -> Finished:
        from ..convert.convert import Outcome  # as in _write_snapshot
        from ..convert.finish import finish_attached
        from ..convert.kinds.ends import RootEnd

        prepared = self._prepared
        root = None if end.status is None else RootEnd(self._pid, end.status, end.killed)
        outcome = Outcome(root, wall_ns, False, losses, end.ended_by, self._rights, end.still_runs)
        return finish_attached(prepared.folder.path, prepared.facts, self._output, outcome, begun)

    def _stop(self) -> None:
        if self._budget:
            with suppress(Exception):  # stderr may be closed
                if said := self._budget.end():
                    self._report(said)
        if self._rotation:
            self._rotation.stop()
        self._snapshots.close()
        if self._server:
            self._server.stop()
        if self._watcher:
            self._watcher.stop()
        with suppress(OSError):  # a short process may not have been noticed: its GPU samples need its process id
            self._notice()
        with suppress(Exception):  # as in turn()
            self._observe_rights()
        if self._gpu:
            self._gpu.stop()
        self._rss.close()
        self._drain.close()
        self._prepared.marks.close()


def _may_work(idle: IdleProcessors, space: SpoolFile, pid: int) -> bool:
    """Is there something to do and time for it: no pause, few chunks to be drained, and a processor idle for long enough,
    or the program ``pid`` about to end?"""
    is_idle = idle.since_last() >= _IDLE_PROCESSORS or _is_finalizing(space.header, pid)
    most = min(fewest_chunks(space) + _MANY_CHUNKS, space.chunks // 2)
    return is_idle and not space.header.paused and len(space.in_use) < most


def _is_finalizing(header: Any, pid: int) -> bool:
    """Has the interpreter of the program ``pid`` begun to finalize? In another pid namespace it has another number there."""
    return bool(header.finalizing == pid)


def _kept(prepared: Prepared, spending: Spending | None) -> KeptBudget | None:
    if not prepared.budget or not spending:
        return None
    return KeptBudget(prepared.budget, prepared.space.header, prepared.marks, spending.look)


def _start_gpu(prepared: Prepared, rss: RssSampler, settings: Settings) -> GpuSampler | None:
    if not settings.gpu_interval_ns:
        return None
    sampler = GpuSampler(prepared.space.header, prepared.folder.path, rss.pids, settings.gpu_interval_ns / 1e9)
    sampler.start()
    return sampler


def _late_text(folder: HeldFolder, error: Exception) -> str:
    """That a trace could not be closed in time."""
    reason = (
        (error.strerror or repr(error)).lower() if isinstance(error, OSError) else folder.text(error) or repr(error)
    )
    return f"A trace could not be closed in time: {reason.rstrip('.')}. The recording goes on, and tries it again."


def _failure_text(folder: HeldFolder, error: Exception) -> str:
    if folder.is_removed():
        return f"The folder {folder.name.parent} was removed while the program ran, and the recording with it."
    reason = folder.text(error) if isinstance(error, TraceError) else f"The trace could not be made: {error!r}"
    kept = f"The recording is kept; make the trace with: scalene-record --recover {folder.current_name()}"
    return f"{reason.rstrip('.')}. {kept}"
