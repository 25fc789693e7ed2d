"""The files of this process's control groups, which tell limits and their effects."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_GROUPS = Path("/proc/self/cgroup")
#: Where control groups are mounted: version 2, and those of version 1 in folders named after their controllers.
_MOUNTED = Path("/sys/fs/cgroup")


def files(controller: str, unified: str, separate: str) -> Iterator[Path]:
    """The files of the process's control groups and of those above them: ``unified`` of version 2, and ``separate`` of the
    ``controller`` of version 1. They need not exist.

    A line of the list of groups is ``number:controllers:path``; version 2 has no controllers. In a container, the path may
    lie outside what is mounted.
    """
    try:
        lines = os.fsdecode(_GROUPS.read_bytes()).splitlines()
    except OSError:
        lines = []
    for line in ["::/", f":{controller}:/", *lines]:
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        root, name = (_MOUNTED / controller, separate) if controllers else (_MOUNTED, unified)
        folder = root if ".." in group.split("/") else root / group.lstrip("/")
        while folder.is_relative_to(root):
            yield folder / name
            folder = folder.parent
