"""One recording, from the command line's words to the trace."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scalene_trace.formats.version import VERSION

from .folders import create_spool_folder, output_template
from .program import Program, resolve_program, start
from .recording import RSS_NAME, SPOOL_NAME, Facts, bring_back, write_facts
from .residents import Residents
from .settings import Settings
from .shimfile import preloadable_shim
from .space import SpoolSpace
from .supervise import PYTHON_IGNORES, hold_signals, wait_for

if TYPE_CHECKING:
    from .finish import Finished

SPOOL_VARIABLE = b"SCALENE_TRACE_SPOOL"
_PRELOAD_VARIABLE = b"LD_PRELOAD"


@dataclass(frozen=True)
class Recorded:
    """``exit_status``: the program's, 128 + n for signal n; ``finished``: the trace, None when it could not be
    written; ``failure``: then why, in a sentence or two."""

    exit_status: int
    finished: Finished | None
    failure: str


def record(settings: Settings, tell: Callable[[str], None]) -> Recorded:
    """Runs and records the program. ``tell`` takes sentences for the user.

    Raises RecordError when the program was not started.
    """
    program = resolve_program(settings.command, settings.python)
    template = output_template(settings.output)
    with preloadable_shim(Path(template).parent) as shim:
        return _record(settings, program, template, shim, tell)


def _record(settings: Settings, program: Program, template: str, shim: Path, tell: Callable[[str], None]) -> Recorded:
    spaces: list[SpoolSpace] = []
    facts = _facts(settings, program, template)

    def fill(folder: Path) -> int:
        spaces.append(_first_space(folder, settings))
        write_facts(folder, facts)
        return spaces[0].descriptor

    folder = create_spool_folder(template, fill, tell)
    space = spaces[0]
    mask = hold_signals()
    try:
        residents = Residents(space, folder / RSS_NAME)
        environment = _environment(shim, folder / SPOOL_NAME)
        pid = start(program, environment, mask, [signal.Signals(each) for each in PYTHON_IGNORES])
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    status = _supervise(pid, space, residents)
    losses = {"spool_space": space.failures, "rss_processes": residents.left_out}
    return _finish(folder, space, facts, pid, status, losses)


def _first_space(folder: Path, settings: Settings) -> SpoolSpace:
    """The spool with its first chunks. Raises OSError."""
    space = SpoolSpace(folder / SPOOL_NAME, settings)
    if space.slots == 0:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    space.offer_ahead()
    if space.header.offered == 0:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return space


def _supervise(pid: int, space: SpoolSpace, residents: Residents) -> int:
    """Waits for the program and returns its exit status. From here on nothing may end the recorder before it."""
    with suppress(Exception):  # what is broken there is told when it is needed
        _load_converter()

    def each_turn() -> None:
        with suppress(OSError):
            space.offer_ahead()
            residents.sample_if_due()

    status = wait_for(pid, each_turn)
    residents.close()
    return status


def _load_converter() -> None:
    """Imports what the end needs while the program runs: numpy and pyarrow take a while."""
    from scalene_trace.formats import writer  # noqa: F401

    from . import convert, finish  # noqa: F401


def _finish(folder: Path, space: SpoolSpace, facts: Facts, pid: int, status: int, losses: dict[str, int]) -> Recorded:
    space.header.ended = 1
    wall_ns = time.monotonic_ns() - int(space.header.start_mono_ns)
    try:
        from .finish import finish
        from .processes import RootEnd

        losses |= {"spool_removed": int(bring_back(folder, space.descriptor, facts))}
        finished = finish(folder, RootEnd(pid, status), wall_ns, losses)
    except Exception as error:  # whatever it is: the program ran, and its recording is there
        return Recorded(status, None, _kept(folder, error))
    finally:
        space.close()
    return Recorded(status, finished, "")


def _kept(folder: Path, error: Exception) -> str:
    from scalene_trace.formats.errors import TraceError

    if not folder.is_dir():
        return f"The folder {folder.parent} was removed while the program ran, and the recording with it."

    reason = str(error) if isinstance(error, TraceError) else f"The trace could not be made: {error!r}"
    return f"{reason.rstrip('.')}. The recording is kept; make the trace with: scalene-record --recover {folder}"


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
    }
    return host | ({"command": json.dumps(settings.command)} if settings.argv else {})
