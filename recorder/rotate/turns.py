"""How long a thread that makes a trace keeps the interpreter's lock from the thread that offers chunks to the program."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: So that chunks are offered in time.
_SHORT_S = 0.0002
_users: list[float] = []
_changes = threading.Lock()


@contextmanager
def short_turns() -> Iterator[None]:
    """Threads take turns every 0.2 ms while the block runs, also if several threads are in such blocks."""
    with _changes:
        _users.append(sys.getswitchinterval())
        sys.setswitchinterval(min(_SHORT_S, _users[0]))
    try:
        yield
    finally:
        with _changes:
            before_s = _users[0]
            _users.pop()
            if not _users:
                sys.setswitchinterval(before_s)
