"""Makes the traces of a recording that rotates: of a segment that was closed, and of the last one."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ...formats.dataclass import replace
from ...formats.errors import TraceError
from ...formats.labels import labels_in
from ...formats.spool.reader import read_header
from ..convert.convert import Outcome
from ..convert.finish import Finished, begin_recovery, recover, write_trace_of
from ..convert.running import still_there
from ..errors import UsageError
from ..folder.facts import Facts, read_facts
from ..folder.files import ROTATION_NAME, SPOOL_NAME
from ..folder.output import remove_recording
from ..rights.identity import Rights
from .carry import Counted, carry_over, read_counted
from .layout import trace_path
from .pieces import carried_marks, counted_losses, marks_of, remove_published, remove_segment, segment_spool
from .segments import Segment, State, carry_facts_path, carry_path, read_state, write_state


def publish_closed(
    folder: Path,
    root: Path,
    facts: Facts,
    rights: Callable[[], Rights],
    is_there: Callable[[int, int], bool] = still_there,
) -> Finished | None:
    """Makes the trace of the closed segment of the recording in ``folder``, puts it in its place below ``root``, and removes what
    only that trace needed. None = no segment is closed. Raises TraceError and OSError; nothing is lost then.

    ``is_there``: as ``still_there`` of :func:`.carry.carry_over`.
    """
    state = read_state(folder)
    if state is None or state.closed is None:
        return None
    segment, end = state.closed, state.open
    counted = read_counted(carry_facts_path(folder, segment.number))
    try:
        made, spool = segment_spool(folder, segment, end, counted)
        start_ns = int(read_header(folder / SPOOL_NAME)["start_mono_ns"])
        carried = carry_over(spool, counted, start_ns + end.start_ns, carry_path(folder, end.number), is_there)
        marks = carried_marks(marks_of(folder, segment, end, counted))
        Counted(carried.threads, carried.processes, carried.gone, marks).write(carry_facts_path(folder, end.number))
        losses = counted_losses(end.counts, segment)
        outcome = Outcome(None, end.start_ns - segment.start_ns, False, losses, "rotation", rights)
        output, known = _output(root, facts, state, segment), _facts(facts, segment)
        finished = write_trace_of(
            made, known, output, _of_segment(outcome, folder, segment), spool=spool, makes_folder=True
        )
    finally:
        remove_segment(folder)
    write_state(folder, replace(state, closed=None))
    remove_published(folder, segment, end)
    return finished


def publish_last(
    folder: Path, root: Path, facts: Facts, outcome: Outcome, step: Callable[[str], None] = lambda _: None
) -> Finished:
    """Makes the trace of the last segment, when no other one is closed. ``outcome``: of the recording; its ``wall_ns`` is the
    length of all of it. Leaves the folder. Raises TraceError and OSError."""
    state = read_state(folder)
    assert state is not None
    segment = state.open
    counted = read_counted(carry_facts_path(folder, segment.number))
    try:
        wall_ns = None if outcome.wall_ns is None else max(outcome.wall_ns - segment.start_ns, 0)
        outcome = replace(outcome, wall_ns=wall_ns, losses=counted_losses(outcome.losses, segment))
        made, spool = segment_spool(folder, segment, None, counted, outcome.until_ns)
        output, known = _output(root, facts, state, segment), _facts(facts, segment)
        return write_trace_of(
            made, known, output, _of_segment(outcome, folder, segment), step, spool=spool, makes_folder=True
        )
    finally:
        with suppress(OSError):
            remove_segment(folder)


def recover_any(folder: Path, output: Path | None, with_sources: bool = False) -> Finished:
    """:func:`..convert.finish.recover`, also for a recording that rotates: makes all traces that are missing, and returns the
    last one. ``output``: the folder of all traces then, None = that in which the recording lies. Raises TraceError."""
    state = read_state(folder)
    is_damaged = state is None and os.path.lexists(folder / ROTATION_NAME) and read_facts(folder).rotates
    if state is None and not is_damaged:  # a file of that name is the user's own
        return recover(folder, output, with_sources)
    facts, found = begin_recovery(folder, with_sources)
    root = output or folder.absolute().parent

    def rights() -> Rights:
        return found

    if not root.is_dir():
        raise TraceError(
            f"{root} is no folder. The recording has rotated: name the folder of its traces, or leave out -o."
        )
    damaged = TraceError(f"{folder / ROTATION_NAME} is damaged: which records belong to which trace is not known.")
    if state is None:
        raise damaged
    try:
        publish_closed(
            folder, root, facts, rights, lambda *_: True
        )  # which processes were there then is not known any more
        finished = publish_last(folder, root, facts, Outcome(None, None, True, {}, "recovery", rights))
    except UsageError as error:  # labels that no recorder takes
        raise damaged from error
    except OSError as error:
        raise TraceError(
            f"The traces below {root} cannot be written: {(error.strerror or 'unknown error').lower()}."
        ) from error
    remove_recording(folder, rotates=True)
    return finished


def _of_segment(outcome: Outcome, folder: Path, segment: Segment) -> Outcome:
    since_ns = int(read_header(folder / SPOOL_NAME)["start_real_ns"])
    return replace(outcome, since_real_ns=since_ns, follows=bool(segment.follows))


def _facts(facts: Facts, segment: Segment) -> Facts:
    follows = {"follows": segment.follows} if segment.follows else {}
    return replace(facts, trace_id=segment.trace_id, host=facts.host | segment.settings | follows)


def _output(root: Path, facts: Facts, state: State, segment: Segment) -> Path:
    """Where the trace of a segment is to be. Raises UsageError."""
    host = facts.host.get("hostname", "") or "host"
    return trace_path(root, labels_in(facts.host.get("labels")), host, state.pid, segment.start_real_ns)
