"""The interface for a recorded program: pause and resume its recording, and set marks in its own trace.

::

    from scalene_trace.recorder import mark, pause, resume

    pause()
    with mark("load"):
        load()
    resume()
    mark("loaded")

Without a recorder, every function is a cheap no-op, and none of them raises. This module runs in the program's
interpreter, which may be older than the tool's own: any CPython from 3.10 on. It imports only the standard library, and
most of that only when a request is sent.
"""

from __future__ import annotations

import os
import time
from itertools import count

TYPE_CHECKING = False  # typing is not imported: the program would pay for it
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

SPOOL_VARIABLE = "SCALENE_TRACE_SPOOL"
_CONTROL_NAME = "control"
#: How long each step of a call waits for a recorder that is busy or stopped.
_TIMEOUT_US = 1_000_000
_LONGEST_SOCKET_NAME = 107
_LONGEST_TEXT = 1000
#: In one request: a character takes up to 12 bytes.
_MOST_MARKS = 5
#: A recorder accepts 64 KiB.
_LONGEST_REQUEST_BYTES = 65_000
_LONGEST_ANSWER_BYTES = 1 << 20
_numbers = count(1)
#: The folder of a recording that the program has started itself (:mod:`.inside`), or of one whose environment may go.
attached_folder = ""
#: Maxima since other moments than the last call of :func:`memory`, which brings them up to date: each a list of one number.
peaks: list[list[int]] = []


def pause() -> None:
    """Stops all samplers. After it has returned, nothing is recorded until :func:`resume`."""
    _ask({"command": "pause"}, True)


def resume() -> bool:
    """Starts the samplers again after :func:`pause`. Without such a pause, a recording of a part of the time (``--sample``,
    ``--cpu-budget``) is on until the next one. Did that change anything?"""
    return b'"changed": true' in _ask({"command": "resume"}, True)


def recording() -> bool:
    """Is this program being recorded, and does its recorder still answer? True also while paused."""
    return b'"ok": true' in _ask({"command": "status"}, True)


def memory() -> tuple[int, int] | None:
    """Bytes that this process has allocated and not freed, and the most that they were since the last call (the first one:
    since the start, or the fork). Of other threads, 1/64 of the memory threshold each may be missing (160 KiB by default). The most may
    lack as much of any thread: what was allocated and soon freed again. None where memory is not recorded, as before the
    first :func:`resume` of a recording that began paused."""
    if not recording_folder():
        return None
    try:
        import ctypes

        ask = ctypes.CDLL(None).scalene_program_memory
    except (OSError, AttributeError, ImportError):  # the recorder attached, or its library is not preloaded here
        return None
    now, most = ctypes.c_int64(), ctypes.c_int64()
    if not ask(ctypes.byref(now), ctypes.byref(most)):
        return None
    for peak in peaks:
        peak[0] = max(peak[0], most.value)
    return now.value, most.value


def set_marks(marks: Sequence[tuple[object, int, int]]) -> None:
    """Sets marks of blocks that have ended, many in one message: text, begin and end (``time.monotonic_ns()``) of each."""
    if recording_folder():
        told = [[_as_text(text), begin_ns, end_ns] for text, begin_ns, end_ns in marks]
        for first in range(0, len(told), _MOST_MARKS):
            _ask({"command": "marks", "pid": os.getpid(), "marks": told[first : first + _MOST_MARKS]}, False)


def tell_source(file: str, title: str, text: str) -> None:
    """Tells the recorder the text of code that no file holds, such as a cell of a notebook: ``file`` is the name that it was
    compiled with, ``title`` the name that reports show. If they are longer than 65 KB together (as JSON), the text is left out, and
    counted if the code is on a stack."""
    if recording_folder():
        import json

        names = {"file": file[:_LONGEST_TEXT], "title": title[:_LONGEST_TEXT]}
        request: dict[str, object] = {"command": "source", **names, "text": text}
        if len(json.dumps(request)) > _LONGEST_REQUEST_BYTES:
            request["text"] = ""
        _ask(request, False)


def snapshot() -> bool:
    """Has the trace of what is recorded so far written, and waits for it. Was it written?"""
    folder = recording_folder()
    if not folder:
        return False
    try:
        return b'"ok": true' in exchange(folder, {"command": "snapshot"}, 0)
    except Exception:  # as in _ask
        return False


class mark:  # noqa: N801 (used as a function)
    """``mark("loaded")`` marks this moment; ``with mark("load"):`` marks the time that the block takes.

    ``text``: any object, stored as ``str(text)``, at most 1,000 characters.
    """

    def __init__(self, text: object) -> None:
        self._text = text
        self._number = 0
        self._begin()

    def __enter__(self) -> mark:
        if not self._number:  # the same mark is entered again
            self._begin()
        return self

    def __exit__(self, *error: object) -> None:
        if recording_folder():
            _ask({"command": "end", "id": self._number, "pid": os.getpid(), "t_ns": time.monotonic_ns()}, False)
        self._number = 0

    def _begin(self) -> None:
        self._number = next(_numbers)
        if recording_folder():
            whose = {"id": self._number, "pid": os.getpid()}
            _ask({"command": "mark", **whose, "text": _as_text(self._text), "t_ns": time.monotonic_ns()}, False)


def _as_text(value: object) -> str:
    try:
        return str(value)[:_LONGEST_TEXT]
    except Exception:
        return object.__repr__(value)


def trace_path() -> str:
    """The trace that this process is recorded to, as its recorder says: with ``%p``, the folder has another name. "" if it is
    not recorded, or the recorder does not answer."""
    folder = recording_folder()
    if not folder:
        return ""
    try:
        return output_of(folder, _TIMEOUT_US)
    except Exception:  # as in _ask
        return ""


def output_of(folder: str, timeout_us: int) -> str:
    """The trace that the recording in ``folder`` writes, as its recorder says. Raises OSError, ValueError, KeyError and
    TypeError where that is no answer of a recorder."""
    import json

    return str(json.loads(exchange(folder, {"command": "status"}, timeout_us))["output"])


def recording_folder() -> str:
    """The folder of the recording; "" if there is none."""
    spool = os.environ.get(SPOOL_VARIABLE)
    return attached_folder or (os.path.dirname(spool) if spool else "")  # noqa: PTH120 (pathlib is not loaded)


def _ask(request: dict[str, object], wants_answer: bool) -> bytes:
    """Sends a request to the recorder and returns its answer, b"" when there is none."""
    folder = recording_folder()
    if not folder:
        return b""
    try:
        return exchange(folder, request, _TIMEOUT_US, wants_answer)
    except Exception:  # a program may have replaced what sockets are made of
        return b""


def exchange(folder: str, request: dict[str, object], timeout_us: int, wants_answer: bool = True) -> bytes:
    """Sends one request to the recorder of the recording in ``folder`` and returns its answer: one line of JSON, or b""
    when the recorder closed the connection or no answer is wanted.

    ``timeout_us``: microseconds for each step and for the whole answer, 0 = no limit. Raises OSError: BlockingIOError when
    the time is over, PermissionError when another user's process listens there; ValueError for an answer that is too long.
    """
    import json
    import socket
    import struct

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(None)  # the kernel's timeouts also cover the wait for a place in the listen queue
        timeout = struct.pack("ll", *divmod(timeout_us, 1_000_000))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)
        with_socket_name(folder, connection.connect)
        _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if not _may_answer(user, folder):
            raise PermissionError
        # Without MSG_NOSIGNAL, a recorder that has just ended would end a program that keeps SIGPIPE's default.
        connection.sendall(json.dumps(request).encode() + b"\n", socket.MSG_NOSIGNAL)
        return _answer(connection, timeout_us) if wants_answer else b""


def _answer(connection: socket.socket, timeout_us: int) -> bytes:
    """One line, or what came before the connection was closed. Raises as :func:`exchange` does."""
    answer, end_s = b"", time.monotonic() + timeout_us / 1e6
    while not answer.endswith(b"\n") and (part := connection.recv(65536)):
        answer += part
        if len(answer) > _LONGEST_ANSWER_BYTES:
            raise ValueError("the answer is too long")
        if timeout_us and time.monotonic() > end_s:
            raise BlockingIOError
    return answer


def _may_answer(user: int, folder: str) -> bool:
    """May a process of ``user`` speak for the recording in ``folder``? A recorder runs as the user of the program, or as
    root if the program has given up root's rights. Root controls the recordings of others: then, as their owner."""
    own = os.geteuid()
    return user in (0, own) or (own == 0 and user == os.stat(folder).st_uid)  # noqa: PTH116 (pathlib is not loaded)


def with_socket_name(folder: str, use: Callable[[str], object]) -> None:
    """Calls ``use`` with a name of the recording's socket. Socket names have at most 107 bytes, so a longer path is
    replaced by one through an open descriptor of its folder. Raises OSError."""
    path = folder + "/" + _CONTROL_NAME
    if len(os.fsencode(path)) <= _LONGEST_SOCKET_NAME:
        use(path)
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        use(f"/proc/self/fd/{descriptor}/{_CONTROL_NAME}")
    finally:
        os.close(descriptor)
