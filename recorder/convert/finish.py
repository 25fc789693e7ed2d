"""From the recording's folder to the trace: after the program has ended, or by ``--recover``."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...formats.errors import TraceError, TraceWriteError
from ..folder.contents import MARKS_NAME, RSS_NAME, SPOOL_NAME, TRACE_NAME, default_output, read_facts
from ..folder.output import is_recording, output_path, put_in_place, remove_recording
from .processes import RootEnd

if TYPE_CHECKING:
    from .convert import Outcome

_QUIET_S = 1.0
#: A record is published a few microseconds after its time was read.
_SETTLE_S = 0.02


@dataclass(frozen=True)
class Finished:
    """A written trace: path, number of samples, size, and what was lost in it with severity "error" (sentences)."""

    output: Path
    events: int
    size_bytes: int
    errors: list[str]


def finish(folder: Path, root_end: RootEnd, wall_ns: int, losses: dict[str, int]) -> Finished:
    """Writes the trace of the recording in ``folder`` and removes the folder. Raises TraceError; the spool is then
    kept."""
    from .convert import Outcome

    output = output_path(read_facts(folder).output, root_end.pid)
    return _finish(folder, output, Outcome(root_end, wall_ns, False, losses))


def finish_early(folder: Path, output: Path, wall_ns: int, losses: dict[str, int]) -> Finished:
    """The same while the program runs on, up to the moment ``wall_ns``; says nothing on its terminal."""
    from .convert import Outcome

    finished = write_trace_of(folder, output, Outcome(None, wall_ns, False, losses, "duration"))
    remove_recording(folder)
    return finished


def snapshot(folder: Path, output: Path, wall_ns: int, losses: dict[str, int]) -> Finished:
    """Writes the trace of a recording that goes on, up to the moment ``wall_ns``. Raises TraceError."""
    from .convert import Outcome

    return write_trace_of(folder, output, Outcome(None, wall_ns, False, losses, "snapshot"))


def recover(folder: Path, output: Path | None) -> Finished:
    """Writes the trace of a recording whose recorder is gone. ``output``: None = where it was meant to be.

    Raises TraceError.
    """
    from .convert import Outcome

    if not (folder / SPOOL_NAME).is_file():
        raise TraceError(f"{folder} holds no spool. Name the folder that ends in .spool, beside the output.")
    if is_recording(folder):
        raise TraceError(f"{folder} is still being recorded. Wait until that scalene-record has ended.")
    if output is None:
        output = _recovery_output(folder)
    end_recording(folder / SPOOL_NAME)
    return _finish(folder, output, Outcome(None, None, True, {}, "recovery"))


def end_recording(spool: Path) -> None:
    """Tells processes that outlived their recorder to stop recording."""
    from ...formats.spool.layout import struct_dtype
    from ...formats.spool.reader import read_header

    read_header(spool)
    fields = struct_dtype("spool_header").fields
    assert fields is not None
    dtype, offset = fields["ended"][:2]
    with suppress(OSError), spool.open("r+b", buffering=0) as file:
        os.pwrite(file.fileno(), (1).to_bytes(dtype.itemsize, "little"), offset)


def _recovery_output(folder: Path) -> Path:
    """The name without ``.spool*``; the recording's pid where the output has one in it."""
    from ...formats.spool.reader import Spool

    template = Path(read_facts(folder).output)
    plain = Path(default_output(folder))
    if "%p" not in template.name:
        return plain
    starts = next(Spool(folder / SPOOL_NAME).batches()).process_starts
    return plain.with_name(template.name.replace("%p", str(starts[0].record["pid"]))) if starts else plain


def _finish(folder: Path, output: Path, outcome: Outcome) -> Finished:
    progress = _Progress()
    try:
        finished = write_trace_of(folder, output, outcome, progress.step)
    finally:
        progress.end()
    remove_recording(folder)
    return finished


def write_trace_of(
    folder: Path, output: Path, outcome: Outcome, step: Callable[[str], None] = lambda _: None
) -> Finished:
    """Writes the trace of what the recording in ``folder`` holds, and leaves the folder as it is: it may go on.
    ``step`` is told what goes on. Raises TraceError."""
    from ...formats.spool.reader import Spool
    from ...formats.trace.writer import write_trace
    from .convert import Conversion
    from .kinds.gpu import GpuRows

    step("reading events")
    facts = read_facts(folder)
    if outcome.until_ns is not None:
        time.sleep(_SETTLE_S)
    spool = Spool(folder / SPOOL_NAME, until_ns=outcome.until_ns)
    gpu = GpuRows(folder, outcome.until_ns)
    conversion = Conversion(spool, facts, outcome, folder / RSS_NAME, folder / MARKS_NAME, gpu)
    step("writing the trace")
    written = folder / TRACE_NAME
    write_trace(written, facts.trace_id, conversion.tables())
    size_bytes = written.stat().st_size
    _put_in_place(written, output, facts.trace_id)
    return Finished(output, conversion.events, size_bytes, conversion.errors)


def _put_in_place(written: Path, output: Path, trace_id: str) -> None:
    replaces = _is_of(output, trace_id)
    try:
        put_in_place(written, output, replaces)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise TraceError(
                f"The trace cannot be put at {output}: {(error.strerror or 'unknown error').lower()}."
            ) from error
        _copy_in_place(written, output, replaces)


def _copy_in_place(written: Path, output: Path, replaces: bool) -> None:
    """The same to another file system. Raises TraceWriteError."""
    beside = output.with_name(f".{output.name}.{secrets.token_hex(6)}.tmp")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as target, written.open("rb") as source:
            shutil.copyfileobj(source, target)
        put_in_place(beside, output, replaces)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise TraceWriteError(output, os.strerror(error.errno or errno.EIO)) from error


def _is_of(output: Path, trace_id: str) -> bool:
    """Is there a snapshot of this very recording?"""
    from ...formats.trace.integrity import check_trace

    try:
        return check_trace(output).trace_id == trace_id
    except (TraceError, OSError):
        return False


class _Progress:
    """One line on a terminal that says what goes on, once that has taken more than a second."""

    def __init__(self) -> None:
        self._what = ""
        self._over = threading.Event()
        self._shown = False
        self._thread = threading.Thread(target=self._show, daemon=True)
        if sys.stderr.isatty():
            self._thread.start()

    def step(self, what: str) -> None:
        self._what = what

    def end(self) -> None:
        self._over.set()
        if self._thread.ident:
            self._thread.join()  # what it writes last is wiped out
        if self._shown:
            self._write("")

    def _show(self) -> None:
        while not self._over.wait(_QUIET_S):
            self._shown = True
            self._write(f"scalene-record: {self._what} …")

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
