"""The threads of this process that a test begins; those that tests before it left are not its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ends_its_threads() -> Iterator[None]:
    """Asserts that each thread that begins in the block has ended with it."""
    before = set(threading.enumerate())
    yield
    assert not set(threading.enumerate()) - before
