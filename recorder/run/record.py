"""Makes one recording, from the words of the command line to the trace."""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..folder.facts import Facts
from ..folder.files import RSS_NAME, SPOOL_NAME
from ..folder.output import discard, output_template
from ..processor import check_pages
from ..sampling.rss import RssSampler
from ..sampling.watcher import Watcher
from ..settings import Settings
from ..shim_library import preloadable_shim
from ..spool.drain import Drain
from .load import load_converter, load_the_rest, prepare_converter
from .prepare import host_facts, prepare, within_budget
from .program import Program, resolve_program, start
from .session import Recorded, Session
from .supervise import PYTHON_IGNORES, hold_signals, wait_for
from .unrecorded import unrecorded

if TYPE_CHECKING:
    from ..convert.finish import Finished
    from ..upload.place import Destination
    from ..upload.uploader import Uploader

SPOOL_VARIABLE = b"SCALENE_TRACE_SPOOL"
_PRELOAD_VARIABLE = b"LD_PRELOAD"
_FEW_DESCRIPTORS = 64
#: Of the recorder, whose files name their modes: under a umask of 0777 it could not open the files that it creates.
_UMASK = 0o077


def record(
    settings: Settings,
    report: Callable[[str], None],
    on_trace: Callable[[Finished], None] = lambda _: None,
    destination: Destination | None = None,
) -> Recorded:
    """Runs and records the program. ``report`` gets sentences for the user; ``on_trace`` gets the trace when it has been
    written. With --duration the latter happens while the program still runs, in another thread. ``destination``: where closed
    traces are sent; the output is its folder then.

    Raises RecordError when the program was not started.
    """
    check_pages()
    settings = within_budget(settings)
    umask = os.umask(_UMASK)
    program = resolve_program(settings.command, settings.python)
    template = output_template(settings.output, is_shared=settings.rotate_ns is not None)
    with preloadable_shim(Path(template).parent) as shim:
        prepared = prepare(settings, _facts(settings, program, template), template, report)
        mask = hold_signals()
        try:
            folder = prepared.folder.path
            missed = unrecorded(program.executable, os.environb.get(_PRELOAD_VARIABLE, b""))
            if missed is not None:
                prepared.space.count_loss(missed.loss)
            is_preloaded = missed is None or missed.takes_library
            environment = _environment(shim if is_preloaded else None, prepared.folder.name / SPOOL_NAME)
            if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < _FEW_DESCRIPTORS:
                # An import that fails for lack of descriptors cannot be repeated, so it goes before the samplers open files.
                prepare_converter()
                _load_all(threading.Event())
            rss = RssSampler(prepared.space, folder / RSS_NAME)
            drain = Drain(prepared.space, folder / SPOOL_NAME)
            watcher = Watcher(folder / SPOOL_NAME) if settings.wait else None
            pid = _start(program, environment, mask, umask)
        except BaseException:
            discard(prepared.folder)
            raise
        reason = missed.sentence(program.executable) if missed else ""
        for remark in filter(None, (program.remark, reason)):
            with suppress(OSError, ValueError):  # stderr may be closed
                report(remark)
        prepare_converter()
        uploader = _uploader(destination, settings, report) if destination else None
        session = Session(prepared, rss, drain, watcher, pid, settings, on_trace, report, uploader)
        return _supervise(session, pid, uploader)


def _start(program: Program, environment: dict[bytes, bytes], mask: set[int], umask: int) -> int:
    """Starts the program with the signals and the umask that the recorder got."""
    own = os.umask(umask)
    try:
        return start(program, environment, mask, [signal.Signals(each) for each in PYTHON_IGNORES])
    finally:
        os.umask(own)


def _uploader(destination: Destination, settings: Settings, report: Callable[[str], None]) -> Uploader:
    from ..upload.uploader import Uploader  # here, because few recordings need it

    return Uploader(destination, settings.spool_limit_bytes, report)


def _supervise(session: Session, pid: int, uploader: Uploader | None) -> Recorded:
    """Waits for the program. From here on, no error may end the recorder before the program ends."""
    # In a thread, because the imports take a while in which the program may need hundreds of chunks.
    steps = [session.begin_budget, session.begin_trace, *([uploader.start] if uploader else [])]
    is_over = threading.Event()
    try:
        threading.Thread(target=_load_all, args=(is_over, *steps), name="imports", daemon=True).start()
    except RuntimeError:  # cannot start a thread: the imports happen when the program has ended
        session.begin_budget()
    ended = wait_for(pid, session.turn, session.observe_end)
    is_over.set()
    _load_converter()
    recorded = session.end(ended)
    if uploader:
        uploader.finish()
    return recorded


def _load_all(is_over: threading.Event, *steps: Callable[[], None]) -> None:
    """Imports what every end needs, then the rest, and takes the steps (it begins the trace), unless the program has ended: the
    end would wait for that."""
    _load_converter()
    for step in (load_the_rest, *steps):
        if not is_over.is_set():
            with suppress(Exception):  # as in _load_converter: the snapshot, or the end, reports it
                step()


def _load_converter() -> None:
    with suppress(Exception):  # the same error is raised again, and reported, when the trace is written
        load_converter()


def _environment(shim: Path | None, spool: Path) -> dict[bytes, bytes]:
    """The program's environment: ours as we got it, with the two variables that cause the recording, unless ``shim`` is
    None."""
    environment = {name: value for name, value in os.environb.items() if name}  # execve refuses an empty name in Python
    with suppress(OSError):
        given = Path("/proc/self/environ").read_bytes()
        if b"\0LC_CTYPE=" not in b"\0" + given and environment.get(b"LC_CTYPE", b"").startswith(b"C."):
            del environment[b"LC_CTYPE"]  # our own interpreter has set it, because of the C locale
    if shim is not None:
        preload = [os.fsencode(shim), environment.get(_PRELOAD_VARIABLE, b"")]
        environment[_PRELOAD_VARIABLE] = b":".join(each for each in preload if each)
        environment[SPOOL_VARIABLE] = os.fsencode(spool)
    return environment


def _facts(settings: Settings, program: Program, template: str) -> Facts:
    return Facts(
        trace_id=os.urandom(16).hex(),
        output=template,
        command=settings.command if settings.argv else [],
        command_code=program.code if settings.argv else None,
        cwd=_current_folder(),
        sources=settings.sources,
        argv=settings.argv,
        host=host_facts(settings),
        rotates=settings.rotate_ns is not None,
    )


def _current_folder() -> str:
    """The current folder. If it has been removed, the kernel's name for it, which leads nowhere."""
    try:
        return os.getcwd()  # noqa: PTH109 (as the other texts of the facts)
    except FileNotFoundError:
        return os.readlink("/proc/self/cwd")  # noqa: PTH115
