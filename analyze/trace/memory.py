"""How much memory DuckDB may take: beyond that it writes to the temporary folder, and then gives up with an error.

By its own default DuckDB takes four fifths of the machine, whatever the rest of this process and other programs hold.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

#: The part of the machine's memory (or of the control group's) that the tables of DuckDB may take. Rows that Python holds,
#: and vectors that DuckDB does not count, come on top.
SHARE = 0.6
#: DuckDB needs about this much for a small trace.
LEAST_BYTES = 128 << 20
#: The most that DuckDB may write to its temporary folder, in multiples of its memory.
SPILL = 4

_GROUPS = Path("/proc/self/cgroup")
#: Where control groups are mounted, and the file with a group's limit: version 2, version 1.
_UNIFIED = (Path("/sys/fs/cgroup"), "memory.max")
_OF_MEMORY = (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes")


def limit_bytes(threads: int | None = None) -> int:
    """The most memory of one DuckDB; of one with fewer ``threads`` than cores, its part, since others run beside it."""
    part = min((threads or _cores()) / _cores(), 1.0)
    return max(int(_memory() * SHARE * part), LEAST_BYTES)


def setting(size: int) -> str:
    """So many bytes, as DuckDB reads them."""
    return f"{size >> 20}MiB"


def _cores() -> int:
    return os.cpu_count() or 1


def _memory() -> int:
    """Bytes of memory that this process may use."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _limit_files():
        try:
            text = path.read_text()
        except OSError:
            continue
        if text.strip().isdigit():
            found = min(found, int(text))
    return found


def _limit_files() -> Iterator[Path]:
    """The files with the limits of this process's control groups and of those above them. (A line of the list of groups is
    ``number:controllers:path``; version 2 has no controllers. In a container, the path may lie outside what is mounted.)"""
    try:
        lines = os.fsdecode(_GROUPS.read_bytes()).splitlines()
    except OSError:
        lines = []
    for line in ["::/", ":memory:/", *lines]:
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        root, name = _OF_MEMORY if controllers else _UNIFIED
        folder = root if ".." in group.split("/") else root / group.lstrip("/")
        while folder.is_relative_to(root):
            yield folder / name
            folder = folder.parent
