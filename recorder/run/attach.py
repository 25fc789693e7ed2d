"""Records a process that runs already, from outside (``--pid``)."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ...formats.dataclass import replace
from ...formats.spool.layout import constants
from ...formats.spool.losses import shim_losses
from ..attached.facts import command_of, ended_with, folder_of
from ..attached.follow import Follower
from ..attached.permission import check_attachable
from ..errors import SetupError
from ..folder.facts import Facts
from ..folder.files import RSS_NAME, SPOOL_NAME
from ..folder.output import discard, output_template
from ..processor import check_pages
from ..sampling.rss import RssSampler
from ..sampling.watcher import Watcher
from ..settings import Settings
from ..spool.drain import Drain
from .load import load_converter, load_the_rest, prepare_converter
from .prepare import host_facts, prepare
from .session import AttachedEnd, Prepared, Recorded, Session

if TYPE_CHECKING:
    from ..attached.memory.recording import AttachedMemory
    from ..convert.finish import Finished

_UMASK = 0o077
_GONE = "has ended, or cannot be read any more. Nothing was recorded."
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def attach(
    settings: Settings,
    pid: int,
    report: Callable[[str], None],
    on_trace: Callable[[Finished], None] = lambda _: None,
) -> Recorded:
    """Records the process until it ends, for ``settings.duration_ns``, or until a signal says that it is enough.

    ``report``, ``on_trace``: as in :func:`.record.record`. Unless memory is recorded, nothing runs inside the process; it goes
    on as before. Raises
    RecordError when nothing was recorded.
    """
    check_pages()
    os.umask(_UMASK)
    check_attachable(pid)
    prepare_converter()
    template = output_template(settings.output)
    settings = replace(settings, copy=False, native_alloc=False)
    stop = _Stop()
    prepared = prepare(settings, _facts(settings, pid, template), template, report)
    follower = Follower(pid, settings.children, settings.argv, lambda name: _count(prepared, name))
    memory: AttachedMemory | None = None
    try:
        if settings.memory:
            from ..attached.memory.recording import AttachedMemory

            memory = AttachedMemory(pid, prepared.folder)
        folder = prepared.folder.path
        rss, drain = RssSampler(prepared.space, folder / RSS_NAME), Drain(prepared.space, folder / SPOOL_NAME)
        _begin(follower)
    except BaseException:
        discard(prepared.folder)
        raise
    watcher = Watcher(folder / SPOOL_NAME)
    session = Session(prepared, rss, drain, watcher, pid, replace(settings, duration_ns=None), on_trace)
    if memory and (failure := memory.start()):
        prepared.space.header.features &= ~constants()["FEATURE_MEMORY"]
        report(failure)
    elif memory:
        follower.memory_begins()
    return _supervise(session, settings, follower, stop, memory)


def _begin(follower: Follower) -> None:
    """Attaches to the process and its descendants. Raises SetupError."""
    try:
        follower.attach()
    except (OSError, IndexError, ValueError) as error:
        raise SetupError(f"Process {follower.pid} {_GONE}") from error


def _supervise(
    session: Session, settings: Settings, follower: Follower, stop: _Stop, memory: AttachedMemory | None
) -> Recorded:
    """Waits for the end of the recording. From here on, no error may end it earlier."""
    with suppress(RuntimeError):  # cannot start a thread: the trace is written at the end
        threading.Thread(target=_load_all, args=(session.begin_trace,), name="imports", daemon=True).start()
    end = _wait(settings, follower, stop, session.turn)
    if memory and end.ended_by != "program":
        memory.stop()
    with suppress(Exception):  # the same error is raised again, and reported, when the trace is written
        load_converter()
    return session.end_attached(end)


def _wait(settings: Settings, follower: Follower, stop: _Stop, turn: Callable[[], float]) -> AttachedEnd:
    """Waits for the end of the recording."""
    end_s = time.monotonic() + settings.duration_ns / 1e9 if settings.duration_ns else float("inf")
    process, ended_by, status = _descriptor_of(follower.pid), "", None
    while not ended_by:
        pause_s = turn()
        with suppress(Exception):  # a child that cannot be read must not end the recording
            pause_s = min(pause_s, follower.turn())
        left_s = end_s - time.monotonic()
        has_ended = stop.wait(process, min(pause_s, max(left_s, 0)))
        if stop.is_asked:
            ended_by = "detach"
        elif has_ended or not follower.still_runs(follower.pid, 0):
            ended_by, status = "program", ended_with(follower.pid)
        elif time.monotonic() >= end_s:
            ended_by = "duration"
    if process >= 0:
        os.close(process)
    killed = status is not None and status & 127 != 0
    code = None if status is None else 128 + (status & 127) if killed else status >> 8 & 255
    return AttachedEnd(ended_by, code, killed, follower.still_runs)


class _Stop:
    """Signals that end the recording. ``is_asked``: one has come."""

    def __init__(self) -> None:
        self._reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self.is_asked = False
        for each in _STOPPING:
            if each != signal.SIGHUP or signal.getsignal(each) != signal.SIG_IGN:  # nohup
                signal.signal(each, self._note)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)  # a program that records itself may have blocked them

    def wait(self, process: int, timeout_s: float) -> bool:
        """Waits for a signal, or for the end of the process with this descriptor (-1 = unknown); returns whether it has
        ended."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        if process >= 0:
            poll.register(process, select.POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll(timeout_s * 1000)]
        if self._reader in ready:
            os.read(self._reader, 512)
        return process in ready

    def _note(self, number: int, _: object) -> None:
        self.is_asked = True


def _descriptor_of(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError:  # Linux before 5.3, or it has ended
        return -1


def _load_all(begin_trace: Callable[[], None]) -> None:
    for step in (load_converter, load_the_rest, begin_trace):
        with suppress(Exception):  # the end, which does the same, reports it
            step()


def _count(prepared: Prepared, name: str) -> None:
    numbers = {each.name: number for number, each in enumerate(shim_losses())}
    prepared.space.count_loss(numbers[name])


def _facts(settings: Settings, pid: int, template: str) -> Facts:
    """Raises SetupError when the process has ended."""
    try:
        folder, words = folder_of(pid), [os.fsdecode(each) for each in command_of(pid).split(b"\0")[:-1]]
    except OSError as error:
        raise SetupError(f"Process {pid} {_GONE}") from error
    known = replace(settings, command=words)
    return Facts(
        trace_id=os.urandom(16).hex(),
        output=template,
        command=words if settings.argv else [],
        command_code=None,
        cwd=folder,
        sources=settings.sources,
        argv=settings.argv,
        host=host_facts(known),
    )
