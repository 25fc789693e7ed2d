"""A control group with a limit on memory."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def memory_group(limit_bytes: int) -> Iterator[Path]:
    """The folder of a new control group, which is removed at the end; skips the test where none can be made."""
    root = Path("/sys/fs/cgroup/memory")
    folder = (root if root.is_dir() else Path("/sys/fs/cgroup")) / f"scalene-test-{os.getpid()}"
    try:
        folder.mkdir()
        limit = folder / ("memory.limit_in_bytes" if root.is_dir() else "memory.max")
        limit.write_text(str(limit_bytes))
    except OSError as error:
        pytest.skip(f"no control group for memory can be made here: {error}")
    yield folder
    for _ in range(100):
        try:
            folder.rmdir()
            return
        except OSError:
            time.sleep(0.05)


def joining(group: Path, command: list[str]) -> list[str]:
    """The command that runs ``command`` in the group."""
    return ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh", *command]
