"""A program that runs without the recorder, obeys commands on its standard input, and is attached to."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from tests.support.interpreters import Interpreter
from tests.support.paths import PATIENCE_S
from tests.support.recording import Finished, Recording, environment, run, target, tool


class Observed:
    """targets/observed.py, bare; ``process`` is the program itself."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process, self.pid = process, process.pid

    def begin(self, word: str) -> None:
        """Sends a command."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n".encode())
        self.process.stdin.flush()

    def end(self, word: str) -> Any:
        """Waits for the answer to a command."""
        assert self.process.stdout is not None
        said = json.loads(self.process.stdout.readline())
        assert said["done"] == word
        return said["said"]

    def tell(self, *words: str) -> Any:
        """Sends commands one after the other; returns the answer to the last one."""
        said: Any = None
        for word in words:
            self.begin(word)
            said = self.end(word)
        return said

    def quit(self) -> tuple[int, bytes]:
        """Ends the program; returns its status and the rest of its output."""
        rest, _ = self.process.communicate(b"quit\n", timeout=PATIENCE_S)
        return self.process.returncode, rest


class Attached:
    """scalene-record --pid; ``process`` is the recorder."""

    def __init__(self, trace: Path, process: subprocess.Popen[bytes]) -> None:
        self.trace, self.process = trace, process

    def stop(self) -> Finished:
        """Ends the recording as Ctrl-C does, unless it has ended."""
        if self.process.poll() is None:
            self.process.send_signal(2)
        return self.wait()

    def wait(self) -> Finished:
        """Waits for the recorder."""
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return Finished(self.process.returncode, out, err)


def observed_by(python: Interpreter, **more: Any) -> AbstractContextManager[Observed]:
    """targets/observed.py under this interpreter."""
    return observed([str(python.path), str(target("observed"))], **more)


@contextmanager
def observed(command: Sequence[str], **more: Any) -> Iterator[Observed]:
    """A running program, which has answered once. ``more`` goes to Popen."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(None), start_new_session=True, **more
    )
    try:
        found = Observed(process)
        found.tell("pid")
        yield found
    finally:
        for stream in (process.stdin, process.stdout):
            if stream:
                stream.close()
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait(timeout=PATIENCE_S)


@contextmanager
def attached(trace: Path, pid: int, *options: str, prefix: Sequence[str] = ()) -> Iterator[Attached]:
    """The recorder, which has attached to the process. ``prefix``: words before its command."""
    command = [*prefix, *tool("scalene-record"), "-o", str(trace), "--pid", str(pid), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        until(lambda: process.poll() is not None or is_recording(trace))
        yield Attached(trace, process)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE_S)


def is_recording(trace: Path) -> bool:
    """Has the recorder attached to at least one process?"""
    done = run([*tool("scalene-record"), "--control", trace, "status"])
    return done.status == 0 and b"processes 0" not in done.stdout


def until(is_so: Callable[[], object]) -> None:
    """Waits until something is so."""
    end_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end_s, "waited in vain"
        time.sleep(0.02)


def record_attached(trace: Path, program: Sequence[str | Path], python: Interpreter, *options: str) -> Recording:
    """Runs a program of Python and records it from outside from its first instruction on: it is a stopped shell until the
    recorder has attached to it. So its stopwatches may be held against the trace."""
    words = ["/bin/sh", "-c", 'kill -STOP $$; exec "$0" "$@"', str(python.path), *map(str, program)]
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(None)
    )
    try:
        until(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        with attached(trace, process.pid, *options) as recorder:
            process.send_signal(18)
            out, err = process.communicate(timeout=PATIENCE_S)
            done = recorder.wait()
        assert done.status == 0, done.stderr.decode()
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate(timeout=PATIENCE_S)
    return Recording(process.returncode, out, err, trace)
