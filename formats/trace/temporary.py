"""Names of files that become traces when they are complete: hidden, and beside them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def new(path: Path) -> Path:
    """A name that is not taken for what becomes ``path``."""
    return path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")


def existing(path: Path) -> Iterator[Path]:
    """The files that were to become ``path``; none where the folder cannot be read."""
    with suppress(OSError):
        yield from path.parent.glob(f".{path.name}.*.tmp")
