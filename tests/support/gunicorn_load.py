"""A gunicorn with four workers, bare or recorded, and clients that load it over the loopback."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.paths import PATIENCE_S, TARGETS
from tests.support.recording import environment

WORKERS = 4


@dataclass
class Load:
    """Results of clients: answered requests by worker pid, and a description of each failure."""

    answered: dict[int, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    took_s: float = 0.0

    @property
    def count(self) -> int:
        """Answered requests."""
        return sum(self.answered.values())


def free_port() -> int:
    """A free port of the loopback interface."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def gunicorn(port: int, application: str = "web", log_level: str = "warning") -> list[str]:
    """Arguments of the interpreter that start the server of a module of ``targets``."""
    where = ["--chdir", str(TARGETS), "-b", f"127.0.0.1:{port}", "-w", str(WORKERS), "--log-level", log_level]
    return ["-m", "gunicorn", *where, "--graceful-timeout", "20", f"{application}:application"]


@contextmanager
def serving(command: Sequence[str | Path], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The server, from its first answer on; SIGTERM ends it."""
    process = subprocess.Popen(
        [*map(str, command)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(None)
    )
    try:
        wait_for_answer(process, port)
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(timeout=PATIENCE_S)


def wait_for_answer(process: subprocess.Popen[bytes], port: int) -> None:
    """Returns when the server answers; fails when it ends or takes longer than a minute."""
    for _ in range(600):
        assert process.poll() is None, f"the server has ended with status {process.returncode}"
        try:
            ask(port, 0)
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the server does not answer")


def ask(port: int, number: int) -> int:
    """Pid of the worker that answered. Raises OSError or HTTPException without an answer, ValueError for a wrong one."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", f"/work/{number}")
        answer = connection.getresponse()
        words = answer.read().split()
    finally:
        connection.close()
    if answer.status != 200 or len(words) < 3 or int(words[1]) != number:
        raise ValueError(f"{answer.status} {words[:3]!r}")
    return int(words[0])


def clients(port: int, requests: int, many: int = 4) -> Load:
    """``requests`` requests from each of ``many`` threads."""
    load, lock = Load(), threading.Lock()

    def run(who: int) -> None:
        for number in range(requests):
            try:
                worker = ask(port, 1000 * who + number)
            except (OSError, http.client.HTTPException, ValueError) as error:
                load.failures.append(repr(error))
                continue
            with lock:
                load.answered[worker] = load.answered.get(worker, 0) + 1

    threads = [threading.Thread(target=run, args=(who,)) for who in range(many)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    load.took_s = time.monotonic() - start
    return load
