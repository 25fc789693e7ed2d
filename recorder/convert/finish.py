"""Writes the trace of a recording's folder: when the program has ended, while it runs, or by ``--recover``."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ...formats.dataclass import dataclass
from ...formats.errors import NothingRecorded, TraceError, TraceWriteError
from ...formats.spool.chunks import View
from ...formats.spool.layout import struct_dtype
from ...formats.spool.reader import Spool, read_header
from ...formats.spool.regular import is_plain_file
from ...formats.trace import temporary
from ...formats.trace.integrity import check_trace, stored_trace_id
from ..folder.facts import Facts, default_output, read_facts
from ..folder.files import MARKS_NAME, RSS_NAME, SPOOL_NAME, TRACE_NAME
from ..folder.origin import is_original
from ..folder.output import is_live, output_path, put_in_place, remove_recording
from ..folder.place import is_gone_from_memory, spool_of
from ..rights.identity import OWN_RIGHTS, Rights
from ..rights.observer import recovered_rights
from .convert import Conversion, Outcome
from .kinds.ends import RootEnd
from .kinds.gpu import GpuRows
from .known import Known
from .progress import Progress

if TYPE_CHECKING:
    from .begun import BegunTrace

#: Records are published a few microseconds after their time was read, so wait before reading those of a running program.
SETTLE_S = 0.02


@dataclass(frozen=True)
class Finished:
    """A written trace: path, number of samples, size in bytes, and a sentence for each loss with severity "error"."""

    output: Path
    events: int
    size_bytes: int
    errors: list[str]


def finish(
    folder: Path,
    root_end: RootEnd,
    wall_ns: int,
    losses: dict[str, int],
    rights: Callable[[], Rights] = Rights,
    facts: Facts | None = None,
    begun: BegunTrace | None = None,
) -> Finished:
    """Writes the trace of the recording in ``folder`` after the program has ended, and removes the folder.

    ``wall_ns``: length of the recording in nanoseconds; ``losses``: the recorder's counts by name; ``rights``: gives
    the rights with which files of the program are read (Outcome); ``facts``: None = those in the
    folder; ``begun``: what was written while the program ran. Raises TraceError; the folder is then kept.
    """
    facts = facts or read_facts(folder)
    output = output_path(facts.output, root_end.pid)
    return _finish(folder, facts, output, Outcome(root_end, wall_ns, False, losses, rights=rights), begun)


def finish_early(
    folder: Path,
    facts: Facts,
    output: Path,
    wall_ns: int,
    losses: dict[str, int],
    rights: Callable[[], Rights],
    begun: BegunTrace | None = None,
) -> Finished:
    """Like :func:`finish`, but while the program runs on, up to the moment ``wall_ns``. Shows no progress, because the
    terminal is the program's."""
    outcome = Outcome(None, wall_ns, False, losses, "duration", rights)
    finished = write_trace_of(folder, facts, output, outcome, begun=begun)
    remove_recording(folder)
    return finished


def finish_attached(
    folder: Path, facts: Facts, output: Path, outcome: Outcome, begun: BegunTrace | None = None
) -> Finished:
    """Like :func:`finish`, for a process that was attached to: it may run on, and its end may be unknown."""
    return _finish(folder, facts, output, outcome, begun)


def snapshot(
    folder: Path,
    facts: Facts,
    output: Path,
    wall_ns: int,
    losses: dict[str, int],
    view: View,
    rights: Callable[[], Rights],
) -> Finished:
    """Writes the trace of a recording that continues, up to the moment ``wall_ns``, from the chunks of ``view``, which was
    taken at least SETTLE_S later. Raises TraceError."""
    outcome = Outcome(None, wall_ns, False, losses, "snapshot", rights)
    return write_trace_of(folder, facts, output, outcome, view=view)


def recover(folder: Path, output: Path | None, with_sources: bool = False) -> Finished:
    """Writes the trace of a recording whose recorder has died. ``output``: None = the path that the recording was started
    with; ``with_sources``: read all files that the recording names, whoever may have written it. Raises TraceError.
    """
    facts, rights = begin_recovery(folder, with_sources)
    if output is None:
        output = _recovery_output(folder)
    return _finish(folder, facts, output, Outcome(None, None, True, {}, "recovery", lambda: rights))


def begin_recovery(folder: Path, with_sources: bool) -> tuple[Facts, Rights]:
    """Ends the recording in ``folder``, whose recorder has died. Returns its facts, and the rights with which files are read.
    Raises TraceError."""
    if is_gone_from_memory(folder):
        raise TraceError(
            f"The spool of {folder} was in memory and is gone: the machine or the container was restarted, or is another "
            "one than this. Remove the folder when nothing records to it any more."
        )
    if not is_plain_file(spool_of(folder)):
        raise TraceError(f"{folder} contains no spool. Name the folder that ends in .spool, beside the output.")
    if is_live(folder):
        raise TraceError(f"{folder} is still being recorded. Wait until that scalene-record has ended.")
    facts = read_facts(folder)
    rights = OWN_RIGHTS if with_sources else recovered_rights(folder, is_original(folder, facts))
    end_recording(folder / SPOOL_NAME)
    return facts, rights


def end_recording(spool: Path) -> None:
    """Makes processes that outlived their recorder stop recording, by a flag in the header of ``spool``."""
    read_header(spool)
    fields = struct_dtype("spool_header").fields
    assert fields is not None
    dtype, offset = fields["ended"][:2]
    with suppress(OSError), spool.open("r+b", buffering=0) as file:
        os.pwrite(file.fileno(), (1).to_bytes(dtype.itemsize, "little"), offset)


def _recovery_output(folder: Path) -> Path:
    """The folder's name without ``.spool*``; with the program's pid where the output's name has one."""
    template = Path(read_facts(folder).output)
    plain = Path(default_output(folder))
    if "%p" not in template.name:
        return plain
    starts = next(Spool(folder / SPOOL_NAME).batches()).process_starts
    return plain.with_name(template.name.replace("%p", str(starts[0].record["pid"]))) if starts else plain


def _finish(folder: Path, facts: Facts, output: Path, outcome: Outcome, begun: BegunTrace | None = None) -> Finished:
    progress = Progress()
    try:
        finished = write_trace_of(folder, facts, output, outcome, progress.step, begun=begun)
    except NothingRecorded:
        remove_recording(folder)
        raise
    finally:
        progress.end()
    remove_recording(folder)
    return finished


def write_trace_of(
    folder: Path,
    facts: Facts,
    output: Path,
    outcome: Outcome,
    step: Callable[[str], None] = lambda _: None,
    view: View | None = None,
    begun: BegunTrace | None = None,
    spool: Spool | None = None,
    makes_folder: bool = False,
) -> Finished:
    """Writes the trace of the recording in ``folder`` and leaves the folder unchanged, because the recording may continue.

    ``step`` is called with the name of each step; ``view``: the chunks that are read, None = all; ``begun``: the trace with
    the rows that were written while the program ran; ``spool``: None = the spool of the folder; ``makes_folder``: that of the trace is created. Raises TraceError.
    """
    from ...formats.trace.writer import write_trace  # imports pyarrow, which must follow load.prepare_converter()

    step("reading events")
    if outcome.until_ns is not None and view is None:
        time.sleep(SETTLE_S)
    takes_rest = begun is not None and begun.takes_rest()  # from here on, only this thread uses what is known
    known = begun.known if begun else Known()
    spool = spool or Spool(folder / SPOOL_NAME, until_ns=outcome.until_ns, view=view, before=known.records)
    gpu = GpuRows(folder, outcome.until_ns)
    written = folder / TRACE_NAME
    with closing(known.names):
        conversion = Conversion(spool, facts, outcome, folder / RSS_NAME, folder / MARKS_NAME, gpu, known)
        if outcome.root_end and conversion.why_nothing_ran and _is_earlier(output, facts.trace_id):
            raise NothingRecorded(f"{conversion.why_nothing_ran}, so {output.name} of an earlier recording was kept.")
        step("writing the trace")
        if begun and takes_rest:
            begun.complete(conversion.tables())
        else:
            write_trace(written, facts.trace_id, conversion.tables())
    size_bytes = written.stat().st_size
    _put_in_place(written, output, facts.trace_id, makes_folder)
    return Finished(output, conversion.events, size_bytes, conversion.errors)


def _put_in_place(written: Path, output: Path, trace_id: str, makes_folder: bool) -> None:
    replaces = _is_snapshot(output, trace_id)
    try:
        if makes_folder:
            output.parent.mkdir(parents=True, exist_ok=True)
        put_in_place(written, output, replaces)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise TraceError(
                f"The trace cannot be put at {output}: {(error.strerror or 'unknown error').lower()}."
            ) from error
        _copy_in_place(written, output, replaces)


def _copy_in_place(written: Path, output: Path, replaces: bool) -> None:
    """Puts the trace in its place on another file system. Raises TraceWriteError."""
    from shutil import copyfileobj  # here, because few recordings need it

    beside = temporary.new(output)
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as target, written.open("rb") as source:
            copyfileobj(source, target)
        put_in_place(beside, output, replaces)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise TraceWriteError(output, os.strerror(error.errno or errno.EIO)) from error


def _is_earlier(output: Path, trace_id: str) -> bool:
    """Is there something at ``output`` that is not of this recording?"""
    return os.path.lexists(output) and not _is_snapshot(output, trace_id)


def _is_snapshot(output: Path, trace_id: str) -> bool:
    """Is the file at ``output`` a snapshot of this recording?"""
    try:
        return stored_trace_id(output) == trace_id and check_trace(output).trace_id == trace_id  # a check takes longer
    except (TraceError, OSError):
        return False
