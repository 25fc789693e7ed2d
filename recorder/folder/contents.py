"""A recording's own folder, ``OUT.spool/``: the spool, what the recorder knows, RSS samples and GPU ticks.

Everything that the trace needs lies in it while the program runs, so that ``--recover`` can do what a killed recorder
could not.
"""

from __future__ import annotations

import json
import os
import re
import struct
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...formats.spool.regular import stored_bytes

SPOOL_NAME = "spool"
FACTS_NAME = "recording.json"
RSS_NAME = "rss"
MARKS_NAME = "marks"
#: GPU ticks, and the devices that they are about (JSON); absent where there is no GPU.
GPU_NAME = "gpu"
GPU_DEVICES_NAME = "gpu.json"
#: The socket that takes commands; the program's side of it (api.py) has the name too.
CONTROL_NAME = "control"
#: The trace until it is in its place; hidden, because a recording may be recovered among somebody's own files.
TRACE_NAME = ".trace.parquet"
_TRACE_ID = re.compile("[0-9a-f]{32}")

#: One RSS sample: nanoseconds from the start of the recording, process id, resident bytes, shared bytes among them.
RSS_STRUCT = struct.Struct("<qqqq")
#: One GPU tick: start and length in nanoseconds from the start of the recording, busy nanoseconds (-1 = a row about
#: memory), bytes (-1 = a row about utilisation), process id (0 = not known), device, whole (not of one process), charged.
GPU_STRUCT = struct.Struct("<qqqqih??")


@dataclass(frozen=True)
class Facts:
    """What is known of a recording when it starts. ``output``: path template of the trace, absolute (``%p`` = pid);
    ``command``: as given, empty with --no-argv; ``command_code``: the code of ``-c``; ``cwd``: where the program
    started; ``host``: settings of the trace by name."""

    trace_id: str
    output: str
    command: list[str]
    command_code: str | None
    cwd: str
    sources: bool
    argv: bool
    host: dict[str, str]


def write_facts(folder: Path, facts: Facts) -> None:
    """Writes the facts into the recording's folder."""
    descriptor = os.open(folder / FACTS_NAME, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        json.dump(asdict(facts), file)


def bring_back(folder: Path, spool: int, facts: Facts) -> bool:
    """Makes a folder whole that somebody removed while the program ran: ``spool`` is the open file. True when it was
    gone. Raises OSError."""
    if (folder / SPOOL_NAME).exists():
        return False
    folder.mkdir(0o700, exist_ok=True)
    (folder / SPOOL_NAME).symlink_to(f"/proc/self/fd/{spool}")
    if not (folder / FACTS_NAME).exists():
        write_facts(folder, facts)
    return True


def read_facts(folder: Path) -> Facts:
    """The facts of a recording's folder; neutral ones where the file is gone or damaged."""
    with suppress(ValueError, TypeError, RecursionError):
        stored: Any = json.loads(stored_bytes(folder / FACTS_NAME).decode("utf-8", errors="surrogateescape"))
        facts = Facts(**stored)
        if _are_sound(facts):
            return facts
    return Facts(os.urandom(16).hex(), default_output(folder), [], None, "/", False, False, {})


def _are_sound(facts: Facts) -> bool:
    """Is all of it what :func:`write_facts` may have written? (None of the texts can hold a zero.)"""
    if not isinstance(facts.command, list) or not isinstance(facts.host, dict):
        return False
    texts = [facts.trace_id, facts.output, facts.cwd, *facts.command, *facts.host, *facts.host.values()]
    texts += [] if facts.command_code is None else [facts.command_code]
    if not all(isinstance(text, str) and "\0" not in text for text in texts):
        return False
    flags = (facts.sources, facts.argv)
    return _TRACE_ID.fullmatch(facts.trace_id) is not None and all(isinstance(flag, bool) for flag in flags)


def append_whole(descriptor: int, data: bytes) -> bool:
    """Appends ``data`` to a file, all of it or, where the disk is full, nothing: what follows a piece would be read wrong."""
    try:
        written = os.write(descriptor, data)
    except OSError:
        return False
    if written < len(data):
        with suppress(OSError):
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
    return written == len(data)


def default_output(folder: Path) -> str:
    """The output that a spool folder belongs to by its name: ``x.parquet.spool.1`` → ``x.parquet``."""
    name = folder.absolute().name
    head, _, _ = name.rpartition(".spool")
    return str(folder.absolute().with_name(head or f"{name}.parquet"))
