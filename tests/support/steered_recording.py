"""A recorded program that obeys commands on its standard input, and commands to its recording."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.interpreters import Interpreter
from tests.support.paths import PATIENCE_S
from tests.support.recording import Finished, Json, environment, record_command, run, target, tool


class Steered:
    """The recording of targets/steered.py into ``trace``; ``process`` is scalene-record."""

    def __init__(self, trace: Path, process: subprocess.Popen[bytes]) -> None:
        self.trace, self.process = trace, process

    def tell(self, *words: str) -> Json:
        """Sends commands to the program; returns its answer to the last one."""
        assert self.process.stdin is not None and self.process.stdout is not None
        said: Json = {}
        for word in words:
            self.process.stdin.write(f"{word}\n".encode())
            self.process.stdin.flush()
            said = json.loads(self.process.stdout.readline())
            assert said["done"] == word
        return said

    def control(self, *words: str) -> Finished:
        """Sends a command to the recording; it must succeed."""
        done = control(self.trace, *words)
        assert done.status == 0, done.stderr.decode()
        return done

    def quit(self) -> int:
        """Ends the program; returns the recorder's status."""
        self.process.communicate(b"quit\n", timeout=PATIENCE_S)
        return self.process.returncode


def control(target: Path, *words: str) -> Finished:
    """``scalene-record --control``."""
    return run([*tool("scalene-record"), "--control", target, *words])


@contextmanager
def steered(trace: Path, python: Interpreter, *options: str, program: Sequence[str | Path] = ()) -> Iterator[Steered]:
    """A running recording, in a session of its own; its remaining processes are killed at the end."""
    command = record_command(trace, program or [target("steered")], python, options)
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(None), start_new_session=True
    )
    try:
        yield Steered(trace, process)
    finally:
        for stream in (process.stdin, process.stdout):
            if stream:
                stream.close()
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait(timeout=PATIENCE_S)
