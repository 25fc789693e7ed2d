"""For the program that is recorded, if it wants to: pause, resume, and mark moments and passages in its own trace.

::

    from scalene_trace.recorder import mark, pause, resume

    pause()
    with mark("load"):
        load()
    resume()
    mark("loaded")

Everything here is a cheap no-op where nobody records, and nothing here raises. It runs in the program's interpreter,
which may be older than the tool's own: any CPython from 3.10 on. Only the standard library is imported, and most of that
only once there is something to say.
"""

from __future__ import annotations

import os
import time
from itertools import count

TYPE_CHECKING = False  # of typing, which is not loaded
if TYPE_CHECKING:
    from collections.abc import Callable

_SPOOL_VARIABLE = "SCALENE_TRACE_SPOOL"
_CONTROL_NAME = "control"
#: How long a call waits for a recorder that is busy or stopped.
_PATIENCE_US = 1_000_000
_LONGEST_SOCKET_NAME = 107
_LONGEST_TEXT = 1000
_numbers = count(1)


def pause() -> None:
    """Lets the samplers stand still. When it returns, nothing more is recorded."""
    _ask({"command": "pause"}, True)


def resume() -> None:
    """Lets them go on."""
    _ask({"command": "resume"}, True)


def recording() -> bool:
    """Is this program being recorded, by a recorder that lives? True also while paused."""
    return b'"ok": true' in _ask({"command": "status"}, True)


class mark:  # noqa: N801 (used as a function)
    """``mark("loaded")`` marks this moment; ``with mark("load"):`` marks how long the block takes."""

    def __init__(self, text: object) -> None:
        self._text = text
        self._number = 0
        self._begin()

    def __enter__(self) -> mark:
        if not self._number:  # a second time round
            self._begin()
        return self

    def __exit__(self, *error: object) -> None:
        if _SPOOL_VARIABLE in os.environ:
            _ask({"command": "end", "id": self._number, "t_ns": time.monotonic_ns()}, False)
        self._number = 0

    def _begin(self) -> None:
        self._number = next(_numbers)
        if _SPOOL_VARIABLE in os.environ:
            text = _as_text(self._text)
            _ask({"command": "mark", "id": self._number, "text": text, "t_ns": time.monotonic_ns()}, False)


def _as_text(value: object) -> str:
    try:
        return str(value)[:_LONGEST_TEXT]
    except Exception:
        return object.__repr__(value)


def _ask(request: dict[str, object], wants_answer: bool) -> bytes:
    """Sends a request to the recorder. Its answer; empty when there is none."""
    spool = os.environ.get(_SPOOL_VARIABLE)
    if not spool:
        return b""
    try:
        return exchange(os.path.dirname(spool), request, _PATIENCE_US, wants_answer)  # noqa: PTH120 (pathlib is not loaded)
    except (OSError, ValueError, ImportError):
        return b""


def exchange(folder: str, request: dict[str, object], patience_us: int, wants_answer: bool = True) -> bytes:
    """Sends one request to the recorder of the recording in ``folder``. Its answer, a line; empty where it hung up, or none
    is wanted. ``patience_us``: for each step, 0 = without end. Raises OSError, BlockingIOError when that is over."""
    import json
    import socket
    import struct

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(None)  # the kernel's own timeouts wait for a place in the queue, too
        patience = struct.pack("ll", *divmod(patience_us, 1_000_000))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, patience)
        with_socket_name(folder, connection.connect)
        # a recorder that has just hung up must not end a program that leaves SIGPIPE as it is
        connection.sendall(json.dumps(request).encode() + b"\n", socket.MSG_NOSIGNAL)
        answer = b""
        while wants_answer and not answer.endswith(b"\n") and (part := connection.recv(65536)):
            answer += part
        return answer


def with_socket_name(folder: str, use: Callable[[str], object]) -> None:
    """Calls ``use`` with a name of the recording's socket. Names of sockets have at most 107 bytes: longer paths are
    reached through an open descriptor of their folder. Raises OSError."""
    path = folder + "/" + _CONTROL_NAME
    if len(os.fsencode(path)) <= _LONGEST_SOCKET_NAME:
        use(path)
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        use(f"/proc/self/fd/{descriptor}/{_CONTROL_NAME}")
    finally:
        os.close(descriptor)
