"""Runs a program that is attached to from outside from its start."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from support.environments import tool

_PAUSE_S, _PATIENCE_S = 0.02, 60.0


def run_attached(command: Sequence[str], output: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs ``command`` with a recorder (``--pid``) that writes ``output``. It is a stopped shell until the recorder has attached
    to it. Ends the benchmark when the recorder fails."""
    shell = ["/bin/sh", "-c", 'kill -STOP $$; exec "$0" "$@"', *command]
    pipe = subprocess.PIPE
    program = subprocess.Popen(shell, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, env=dict(env))
    until(lambda: _state(program.pid) == "T")
    recorder = subprocess.Popen([tool("scalene-record"), "-o", str(output), "--pid", str(program.pid)])
    until(lambda: recorder.poll() is not None or is_recording(output))
    program.send_signal(18)
    out, err = program.communicate()
    if recorder.wait():
        raise SystemExit("scalene-record --pid has failed")
    return subprocess.CompletedProcess(list(command), program.returncode, out, err)


def until(is_so: Callable[[], object]) -> None:
    """Waits until something is so. Ends the benchmark when that takes too long."""
    end_s = time.monotonic() + _PATIENCE_S
    while not is_so():
        if time.monotonic() > end_s:
            raise SystemExit("waited in vain for a program or its recorder")
        time.sleep(_PAUSE_S)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def is_recording(output: Path) -> bool:
    """Does the recorder that writes ``output`` record a process?"""
    asked = [tool("scalene-record"), "--control", str(output), "status"]
    done = subprocess.run(asked, capture_output=True, text=True)
    return done.returncode == 0 and "processes 0" not in done.stdout
