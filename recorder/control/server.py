"""The recorder's end of the control socket: JSON lines in, JSON lines out, in a thread of its own.

Only the user and root can connect (the folder has mode 0700, and the peer's user id is checked), but clients may still
misbehave. The length of a line is limited, answers that nobody reads are dropped, silent clients are disconnected, and
when there are too many clients the one that has been silent longest is disconnected. None of this can delay the thread
that waits for the program.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...formats.dataclass import dataclass, field
from ..api import with_socket_name

Answer = dict[str, Any]
Reply = Callable[[Answer], None]
#: Serves one request. Arguments: the request, the peer's pid, and a function that takes the answer, at once or later, in
#: any thread.
Handler = Callable[[dict[str, Any], int, Reply], None]

LONGEST_LINE_BYTES = 65_536
MOST_CLIENTS = 64
#: A client that sends nothing for so long, and waits for no answer, is disconnected.
_SILENCE_S = 10.0
#: How often that is checked.
_CHECK_S = 1.0
#: How long requests that were sent before the end may take.
_LAST_S = 0.5
_CREDENTIALS = struct.Struct("3i")


def listen(folder: Path) -> socket.socket | None:
    """A listening socket in the recording's folder; None where none can be made, so that nobody can control it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(listener.fileno(), 0o600)  # bind() gives the file the mode of the socket
        with_socket_name(str(folder), listener.bind)
        listener.listen(128)
    except OSError:
        listener.close()
        return None
    listener.setblocking(False)
    return listener


@dataclass(eq=False)
class _Client:
    """``heard_s``: when it last sent something; ``awaited``: requests without an answer so far; ``is_done``: it has shut
    down its side and sends no more."""

    connection: socket.socket
    pid: int
    heard_s: float
    received: bytearray = field(default_factory=bytearray)
    awaited: int = 0
    is_done: bool = False


class ControlServer:
    """Serves ``listener`` from :meth:`start` to :meth:`stop`."""

    def __init__(self, listener: socket.socket, handle: Handler) -> None:
        self._listener = listener
        self._handle = handle
        self._clients: list[_Client] = []
        self._answers: deque[tuple[_Client, Answer]] = deque()
        self._selector = selectors.DefaultSelector()
        self._bell, self._ringer = socket.socketpair()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)

    def start(self) -> None:
        for each in (self._listener, self._bell, self._ringer):
            each.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._bell, selectors.EVENT_READ, self._hear_bell)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after it has served what was sent until now, and sent the answers that are there. Later answers are
        dropped."""
        self._stopping = True
        self._ring()
        self._thread.join()

    def _ring(self) -> None:
        with suppress(OSError):  # the buffer is full, so that the thread wakes up anyway
            self._ringer.send(b".")

    def _hear_bell(self) -> None:
        with suppress(OSError):
            self._bell.recv(4096)

    def _run(self) -> None:
        while not self._stopping:
            self._serve_ready(_CHECK_S if self._clients else None)
            self._drop_silent()
        end_s = time.monotonic() + _LAST_S
        while self._serve_ready(0) and time.monotonic() < end_s:
            pass
        for client in list(self._clients):
            self._drop(client)
        for each in (self._listener, self._bell, self._ringer, self._selector):
            each.close()

    def _serve_ready(self, timeout_s: float | None) -> bool:
        """Serves what is there, or comes within this time; None = waits for it. Was there anything?"""
        ready = self._selector.select(timeout_s)
        for key, _ in ready:
            with suppress(OSError):
                key.data()
        self._send_answers()
        return bool(ready)

    # ---- clients

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError:  # out of descriptors: try again later
            time.sleep(0.1)
            return
        pid, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if not is_trusted(uid):
            connection.close()
            return
        while len(self._clients) >= MOST_CLIENTS:
            self._drop(min(self._clients, key=lambda each: (each.awaited > 0, each.heard_s)))
        client = _Client(connection, pid, time.monotonic())
        connection.setblocking(False)
        self._clients.append(client)
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._receive(client))

    def _drop(self, client: _Client) -> None:
        if client not in self._clients:
            return
        self._clients.remove(client)
        if not client.is_done:
            self._selector.unregister(client.connection)
        client.connection.close()

    def _drop_silent(self) -> None:
        limit_s = time.monotonic() - _SILENCE_S
        for client in [each for each in self._clients if each.heard_s < limit_s and not each.awaited]:
            self._drop(client)

    # ---- requests

    def _receive(self, client: _Client) -> None:
        try:
            data = client.connection.recv(LONGEST_LINE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self._drop(client)
            return
        client.heard_s = time.monotonic()
        client.received += data
        *lines, rest = client.received.split(b"\n")
        client.received = rest
        is_sane = all(len(line) <= LONGEST_LINE_BYTES and self._serve(client, bytes(line)) for line in lines)
        if not is_sane or len(rest) > LONGEST_LINE_BYTES:
            self._answer(client, {"error": "Not a command. Send one JSON object per line, at most 64 KiB."})
            self._send_answers()
            self._drop(client)
        elif not data:
            self._hang_up(client)

    def _hang_up(self, client: _Client) -> None:
        """The client sends no more, but it may wait for an answer."""
        if not client.awaited:
            self._drop(client)
            return
        client.is_done = True
        self._selector.unregister(client.connection)

    def _serve(self, client: _Client, line: bytes) -> bool:
        """Serves one line. False when it is not a request."""
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            return False
        if not isinstance(request, dict):
            return False
        client.awaited += 1
        try:
            self._handle(request, client.pid, lambda answer: self._answer(client, answer))
        except Exception as error:  # a command that fails must not end the recording
            self._answer(client, {"error": f"The recorder could not carry out the command: {error!r}."})
        return True

    # ---- answers

    def _answer(self, client: _Client, answer: Answer) -> None:
        """Queues an answer; may be called in any thread."""
        self._answers.append((client, answer))
        if threading.current_thread() is not self._thread:
            self._ring()

    def _send_answers(self) -> None:
        while self._answers:
            client, answer = self._answers.popleft()
            client.awaited = max(0, client.awaited - 1)
            if client not in self._clients:
                continue
            data = json.dumps(answer).encode() + b"\n"
            try:
                is_sent = client.connection.send(data, socket.MSG_NOSIGNAL) == len(data)
            except OSError:
                is_sent = False
            if not is_sent or (client.is_done and not client.awaited):
                self._drop(client)


def is_trusted(uid: int) -> bool:
    """May the user ``uid`` control the recording? Only its own user and root, who could signal or trace it anyway."""
    return uid in (0, os.geteuid())
