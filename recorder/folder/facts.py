"""Facts about a recording that are known when it starts, kept in its folder as JSON for whoever writes the trace."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...formats.dataclass import asdict, dataclass
from ...formats.spool.regular import read_regular
from .files import FACTS_NAME, SPOOL_NAME
from .held import HeldFolder

_TRACE_ID = "[0-9a-f]{32}"


@dataclass(frozen=True)
class Facts:
    """What is known of a recording when it starts.

    ``output``: absolute path template of the trace (``%p`` = pid); ``command``: as given, empty with --no-argv;
    ``command_code``: the code of ``-c``, else None; ``cwd``: the folder in which the program started; ``sources``,
    ``argv``: whether source files and the command may be stored; ``host``: settings of the trace by name; ``origin``: what
    identifies the folder (origin.py), "" = unknown; ``rotates``: it becomes many traces.
    """

    trace_id: str
    output: str
    command: list[str]
    command_code: str | None
    cwd: str
    sources: bool
    argv: bool
    host: dict[str, str]
    origin: str = ""
    rotates: bool = False


def write_facts(folder: Path, facts: Facts) -> None:
    """Writes the facts into the recording's folder. Raises OSError, FileExistsError among them."""
    descriptor = os.open(folder / FACTS_NAME, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        json.dump(asdict(facts), file)


def read_facts(folder: Path) -> Facts:
    """The facts of a recording's folder; neutral ones where the file is missing or damaged."""
    with suppress(ValueError, TypeError, RecursionError):
        stored: Any = json.loads(read_regular(folder / FACTS_NAME).decode("utf-8", errors="surrogateescape"))
        facts = Facts(**stored)
        if _are_valid(facts):
            return facts
    return Facts(os.urandom(16).hex(), default_output(folder), [], None, "/", False, False, {})


def restore_folder(folder: HeldFolder, spool: Path, descriptor: int, facts: Facts) -> bool:
    """Restores a folder, or a spool in memory, that was removed while the program ran. ``spool``: where the spool was
    created; ``descriptor``: the open spool file.

    Returns whether one of the two was missing. Raises OSError.
    """
    if folder.is_removed():
        folder.create_again()
    link = folder.path / SPOOL_NAME
    if link.exists():
        return False
    link.unlink(missing_ok=True)  # a link to a spool in memory that is gone
    link.symlink_to(spool if spool.exists() else f"/proc/self/fd/{descriptor}")
    if not (folder.path / FACTS_NAME).exists():
        write_facts(folder.path, facts)
    return True


def default_output(folder: Path) -> str:
    """The output that a spool folder belongs to by its name: ``x.parquet.spool.1`` → ``x.parquet``."""
    name = folder.absolute().name
    head, _, _ = name.rpartition(".spool")
    return str(folder.absolute().with_name(head or f"{name}.parquet"))


def _are_valid(facts: Facts) -> bool:
    """Could :func:`write_facts` have written all of this? (No text of a command line or a path holds a NUL.)"""
    if not isinstance(facts.command, list) or not isinstance(facts.host, dict):
        return False
    texts = [facts.trace_id, facts.output, facts.cwd, facts.origin, *facts.command, *facts.host, *facts.host.values()]
    texts += [] if facts.command_code is None else [facts.command_code]
    if not all(isinstance(text, str) and "\0" not in text for text in texts):
        return False
    flags = (facts.sources, facts.argv, facts.rotates)
    return re.fullmatch(_TRACE_ID, facts.trace_id) is not None and all(isinstance(flag, bool) for flag in flags)
