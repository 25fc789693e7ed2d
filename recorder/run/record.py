"""One recording, from the command line's words to the trace."""

from __future__ import annotations

import errno
import json
import os
import resource
import secrets
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ...formats.version import VERSION
from ..control.server import listen
from ..folder.contents import MARKS_NAME, RSS_NAME, SPOOL_NAME, Facts, write_facts
from ..folder.marks import MarkFile
from ..folder.output import create_spool_folder, output_template, remove_recording
from .drain import Drain
from .live import Live, Parts, Recorded
from .load import load_converter, prepare_converter
from .program import Program, resolve_program, start
from .residents import Residents
from .settings import Settings
from .shim_library import preloadable_shim
from .space import SpoolSpace
from .supervise import PYTHON_IGNORES, hold_signals, wait_for
from .watcher import Watcher

if TYPE_CHECKING:
    from ..convert.finish import Finished

SPOOL_VARIABLE = b"SCALENE_TRACE_SPOOL"
_PRELOAD_VARIABLE = b"LD_PRELOAD"
_FEW_DESCRIPTORS = 64


def record(
    settings: Settings, tell: Callable[[str], None], told: Callable[[Finished], None] = lambda _: None
) -> Recorded:
    """Runs and records the program. ``tell`` takes sentences for the user, ``told`` the trace once it is there: with
    --duration that is while the program still runs, and in another thread.

    Raises RecordError when the program was not started.
    """
    program = resolve_program(settings.command, settings.python)
    template = output_template(settings.output)
    with preloadable_shim(Path(template).parent) as shim:
        parts = _prepare(settings, program, template, tell)
        mask = hold_signals()
        try:
            residents = Residents(parts.space, parts.folder / RSS_NAME)
            drain = Drain(parts.space, parts.folder / SPOOL_NAME)
            watcher = Watcher(parts.folder / SPOOL_NAME) if settings.wait else None
            environment = _environment(shim, parts.folder / SPOOL_NAME)
            pid = start(program, environment, mask, [signal.Signals(each) for each in PYTHON_IGNORES])
        except BaseException:
            remove_recording(parts.folder)
            raise
        prepare_converter()
        if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < _FEW_DESCRIPTORS:
            _load_converter()  # an import that finds no descriptor free cannot be done again: before others open files
        return _supervise(Live(parts, residents, drain, watcher, pid, settings, told), pid)


def _prepare(settings: Settings, program: Program, template: str, tell: Callable[[str], None]) -> Parts:
    """The recording's folder with all that the program must find there. Raises SetupError."""
    facts = _facts(settings, program, template)
    made: list[tuple[SpoolSpace, MarkFile, socket.socket | None]] = []

    def fill(folder: Path) -> int:
        space = _first_space(folder, settings)
        marks = MarkFile(folder / MARKS_NAME)
        if settings.pause_at_start:
            marks.add("pause", 0)
        write_facts(folder, facts)
        made.append((space, marks, listen(folder)))
        return space.descriptor

    folder = create_spool_folder(template, fill, tell)
    return Parts(folder, template, facts, *made[0])


def _first_space(folder: Path, settings: Settings) -> SpoolSpace:
    """The spool with its first chunks. Raises OSError."""
    space = SpoolSpace(folder / SPOOL_NAME, settings)
    if space.slots == 0:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    space.offer_ahead()
    if space.header.offered == 0:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return space


def _supervise(live: Live, pid: int) -> Recorded:
    """Waits for the program. From here on nothing may end the recorder before it."""
    with suppress(RuntimeError):  # no thread can be had: at the end, then
        # takes a while, in which the program may want hundreds of chunks
        threading.Thread(target=_load_converter, name="imports", daemon=True).start()
    status = wait_for(pid, live.turn)
    _load_converter()
    return live.end(status)


def _load_converter() -> None:
    with suppress(Exception):  # what is broken there is told when it is needed
        load_converter()


def _environment(shim: Path, spool: Path) -> dict[bytes, bytes]:
    """The program's environment: ours as it was given, and the two variables that make it be recorded."""
    environment = dict(os.environb)
    with suppress(OSError):
        given = Path("/proc/self/environ").read_bytes()
        if b"\0LC_CTYPE=" not in b"\0" + given and environment.get(b"LC_CTYPE", b"").startswith(b"C."):
            del environment[b"LC_CTYPE"]  # set by our own interpreter in the C locale
    preload = [os.fsencode(shim), environment.get(_PRELOAD_VARIABLE, b"")]
    environment[_PRELOAD_VARIABLE] = b":".join(each for each in preload if each)
    environment[SPOOL_VARIABLE] = os.fsencode(spool)
    return environment


def _facts(settings: Settings, program: Program, template: str) -> Facts:
    return Facts(
        trace_id=secrets.token_hex(16),
        output=template,
        command=settings.command if settings.argv else [],
        command_code=program.code if settings.argv else None,
        cwd=os.getcwd(),  # noqa: PTH109 (output_template has found that it exists)
        sources=settings.sources,
        argv=settings.argv,
        host=_host(settings),
    )


def _host(settings: Settings) -> dict[str, str]:
    system = os.uname()
    host = {
        "recorder_version": VERSION,
        "hostname": system.nodename,
        "kernel": system.release,
        "machine": system.machine,
        "cpu_count": str(len(os.sched_getaffinity(0))),
        # what is in force first; the spool's header holds what --control has set since
        "cpu_interval_ns": str(settings.cpu_interval_ns),
        "memory_threshold_bytes": str(settings.memory_threshold_bytes),
        "copy_threshold_bytes": str(settings.copy_threshold_bytes),
        "gpu_interval_ns": str(settings.gpu_interval_ns),
    }
    return host | ({"command": json.dumps(settings.command)} if settings.argv else {})
