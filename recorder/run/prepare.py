"""Sets up what a recording needs before its program is started, or attached to."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ...formats.version import VERSION
from ..control.server import listen
from ..folder.facts import Facts, write_facts
from ..folder.files import MARKS_NAME, SPOOL_NAME
from ..folder.marks import MarkFile
from ..folder.origin import create_origin
from ..folder.output import create_spool_folder, discard
from ..folder.place import MEMORY_AHEAD, memory_chunks, memory_path, remove_spool, writes_in_place
from ..processor import MACHINE
from ..rights.announced import create_rights
from ..rights.identity import is_privileged
from ..rights.observer import RightsObserver
from ..settings import Settings
from ..spool.spool_file import SpoolFile
from .session import Prepared


def prepare(settings: Settings, facts: Facts, template: str, report: Callable[[str], None]) -> Prepared:
    """Creates the recording's folder with everything that the program needs in it. Raises SetupError."""
    made: list[tuple[Facts, SpoolFile, MarkFile, socket.socket | None]] = []
    inodes: list[int] = []

    def fill(folder: Path) -> int:
        space = _first_space(folder, settings)
        marks = MarkFile(folder / MARKS_NAME)
        if settings.pause_at_start:
            marks.add("pause", 0)
        known = replace(facts, origin=create_origin(folder))
        write_facts(folder, known)
        if is_privileged():
            inodes.append(create_rights(folder))
        made.append((known, space, marks, listen(folder)))
        return space.descriptor

    folder = create_spool_folder(template, fill, report)
    known, space, marks, listener = made[0]
    try:
        rights = RightsObserver(folder.path, inodes[0], space.header) if inodes else None
    except BaseException:  # out of descriptors
        discard(folder)
        raise
    return Prepared(folder, template, known, space, marks, listener, rights)


def _first_space(folder: Path, settings: Settings) -> SpoolFile:
    """The spool with its first chunks. Raises OSError."""
    space = _memory_space(folder, settings) or SpoolFile(folder / SPOOL_NAME, settings)
    if space.chunks == 0:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    space.offer_ahead()
    if space.header.offered == 0:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return space


def _memory_space(folder: Path, settings: Settings) -> SpoolFile | None:
    """A spool in memory, with a link to it in ``folder``; None where it can or must be on the disk."""
    chunks = 0 if writes_in_place(folder) else memory_chunks()
    if not chunks:
        return None
    try:
        (folder / SPOOL_NAME).symlink_to(path := memory_path())
        return SpoolFile(path, settings, chunks, MEMORY_AHEAD)
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
    if settings.labels:
        host["labels"] = json.dumps(settings.labels, ensure_ascii=False)
    return host | ({"command": json.dumps(settings.command)} if settings.argv else {})
