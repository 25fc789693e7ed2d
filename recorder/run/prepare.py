"""Sets up what a recording needs before its program is started, or attached to."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

from ...formats.dataclass import replace
from ...formats.version import VERSION
from ..control.budget import FIRST_ALLOC_INTERVAL_BYTES, WATCH_PERIOD_NS, WHOLE_MEMORY, Budget, tick_interval_ns
from ..control.cycle import Cycle
from ..control.pauses import Pauses
from ..control.server import listen
from ..folder.facts import Facts, write_facts
from ..folder.files import MARKS_NAME, SPOOL_NAME
from ..folder.marks import MarkFile
from ..folder.origin import create_origin
from ..folder.output import create_spool_folder, discard
from ..folder.place import MEMORY_AHEAD, memory_chunks, memory_path, remove_spool, writes_in_place
from ..option_values import percent_text, sample_text
from ..processor import MACHINE
from ..rights.announced import create_rights
from ..rights.identity import is_privileged
from ..rights.observer import RightsObserver
from ..settings import Settings
from ..spool.spool_file import SpoolFile
from .session import Prepared

_Made = tuple[Facts, SpoolFile, MarkFile, Pauses, Cycle | None, Budget | None, socket.socket | None]


def prepare(settings: Settings, facts: Facts, template: str, report: Callable[[str], None]) -> Prepared:
    """Creates the recording's folder with everything that the program needs in it. Raises SetupError."""
    made: list[_Made] = []
    inodes: list[int] = []

    def fill(folder: Path) -> int:
        space = _first_space(folder, settings)
        marks = MarkFile(folder / MARKS_NAME)
        budget = _budget(settings)
        cycle = _cycle(settings, budget, int(space.header.start_mono_ns) / 1e9)
        pauses = _pauses(settings, space, marks, cycle)
        known = replace(facts, origin=create_origin(folder))
        write_facts(folder, known)
        if is_privileged():
            inodes.append(create_rights(folder))
        made.append((known, space, marks, pauses, cycle, budget, listen(folder)))
        return space.descriptor

    folder = create_spool_folder(template, fill, report)
    known, space, marks, pauses, cycle, budget, listener = made[0]
    try:
        rights = RightsObserver(folder.path, inodes[0], space.header) if inodes else None
    except BaseException:  # out of descriptors
        discard(folder)
        raise
    return Prepared(folder, template, known, space, marks, pauses, cycle, budget, listener, rights)


def within_budget(settings: Settings) -> Settings:
    """The settings of a recording with --cpu-budget: samples and observations are further apart."""
    share = settings.cpu_budget
    if not share:
        return settings
    settings = replace(settings, cpu_interval_ns=tick_interval_ns(share, settings.cpu_interval_ns))
    if share >= WHOLE_MEMORY:
        return settings
    if settings.alloc_interval_bytes is None:
        settings = replace(settings, alloc_interval_bytes=FIRST_ALLOC_INTERVAL_BYTES)
    return replace(settings, copy=False, arenas_only=settings.memory, watch_period_ns=WATCH_PERIOD_NS)


def _budget(settings: Settings) -> Budget | None:
    if not settings.cpu_budget:
        return None
    return Budget(settings.cpu_budget, settings.cpu_interval_ns / 1e9, settings.alloc_interval_bytes or 0)


def _cycle(settings: Settings, budget: Budget | None, start_s: float) -> Cycle | None:
    if budget:
        return Cycle(f"cpu-budget {percent_text(budget.share)}", budget.next_period, start_s)
    if not settings.sample:
        return None
    window_s, period_s = (each / 1e9 for each in settings.sample)
    return Cycle(f"sample {sample_text(settings.sample)}", lambda: (period_s, window_s), start_s)


def _pauses(settings: Settings, space: SpoolFile, marks: MarkFile, cycle: Cycle | None) -> Pauses:
    start_s = int(space.header.start_mono_ns) / 1e9
    cause = None if cycle is None or cycle.is_on(start_s) else cycle.name
    return Pauses(space.header, marks, settings.pause_at_start, cycle is not None, cause)


def _first_space(folder: Path, settings: Settings) -> SpoolFile:
    """The spool with its first chunks. Raises OSError."""
    # In the pauses of a cycle, the recorder looks seldom, and processes that start in between need room.
    times = 2 if settings.cpu_budget or settings.sample else 1
    space = _memory_space(folder, settings, times) or SpoolFile(folder / SPOOL_NAME, settings, times=times)
    if space.chunks == 0:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    space.offer_ahead()
    if space.header.offered == 0:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return space


def _memory_space(folder: Path, settings: Settings, times: int) -> SpoolFile | None:
    """A spool in memory, with a link to it in ``folder``; None where it can or must be on the disk. ``times``: as many chunks ahead as
    usual."""
    chunks = 0 if writes_in_place(folder) else memory_chunks()
    if not chunks:
        return None
    try:
        (folder / SPOOL_NAME).symlink_to(path := memory_path())
        return SpoolFile(path, settings, chunks, MEMORY_AHEAD, times)
    except OSError:
        remove_spool(folder)
        return None


def host_facts(settings: Settings) -> dict[str, str]:
    """What is known of the host, and the initial settings, by name."""
    system = os.uname()
    host = {
        "recorder_version": VERSION,
        "hostname": system.nodename,
        "kernel": system.release,
        "machine": MACHINE,
        "cpu_count": str(len(os.sched_getaffinity(0))),
        # Settings hold the initial values; the spool's header also has what --control has set since then.
        "cpu_interval_ns": str(settings.cpu_interval_ns),
        "memory_threshold_bytes": str(settings.memory_threshold_bytes),
        "copy_threshold_bytes": str(settings.copy_threshold_bytes),
        "gpu_interval_ns": str(settings.gpu_interval_ns),
    }
    if settings.sample:
        host["sample"] = sample_text(settings.sample)
    if settings.cpu_budget:
        host["cpu_budget"] = percent_text(settings.cpu_budget)
    if settings.labels:
        host["labels"] = json.dumps(settings.labels, ensure_ascii=False)
    return host | ({"command": json.dumps(settings.command)} if settings.argv else {})
