"""Recording that a program starts itself: its CPU time, waits and tasks, from here to there.

::

    from scalene_trace.recorder import record

    with record("load.parquet"):
        load()

A recorder attaches to this process from outside, as ``scalene-record --pid`` does (docs/design/attach.md): nothing is
preloaded, and memory is not recorded. Under ``scalene-record``, the recording that runs is resumed and paused instead, memory
included. Nothing here raises: where recording is not possible, a sentence on standard error says why, and the program goes on.

This module runs in the program's interpreter, which may be older than the tool's own, and imports as little as :mod:`.api`.
"""

from __future__ import annotations

import os
import sys
import time

from . import api

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

#: How long the recorder may take until it observes this process.
_PATIENCE_S = 30.0
_POLL_S = 0.005
_SET_PTRACER = 0x59616D61  # prctl(2)
_ADVICE = "Install the package in this program's environment, or put scalene-record on PATH."
#: The recorder is no child of the program, which may wait for its children: the shell that starts it ends at once.
_START = '"$@" & echo $!'


class _Recorder:
    """A recorder that observes this process. ``path``: the trace; ``pid``: of the recorder."""

    def __init__(self, path: str, pid: int, messages: int) -> None:
        self.path, self.pid, self._messages = path, pid, messages
        self._owner = os.getpid()

    @property
    def is_ours(self) -> bool:
        """False in a child that this process has forked."""
        return self._owner == os.getpid()

    def wait_until_ready(self) -> bool:
        """Waits until it observes this process. False when it has ended instead; it has said why."""
        folder, end_s = f"{self.path}.spool", time.monotonic() + _PATIENCE_S
        while time.monotonic() < end_s:
            if self._has_ended(_POLL_S):
                return False
            try:
                if b'"ok": true' in api.exchange(folder, {"command": "status"}, 100_000):
                    return True
            except (OSError, ValueError):
                continue
        return False

    def stop(self) -> None:
        """Ends the recording, and waits until the trace is written."""
        import signal

        try:  # contextlib is not loaded
            os.kill(self.pid, signal.SIGTERM)
        except OSError:  # it has ended with an error
            pass
        while not self._has_ended(None):
            pass
        os.close(self._messages)

    def _has_ended(self, timeout_s: float | None) -> bool:
        """Passes on what it says, for as long. It holds the other end of the pipe until it ends."""
        import select

        poll = select.poll()
        poll.register(self._messages, select.POLLIN)
        if not poll.poll(None if timeout_s is None else timeout_s * 1000):
            return False
        said = os.read(self._messages, 65536)
        _print(said.decode(errors="replace"))
        return not said


_running: _Recorder | None = None
_resumed = False


def start(output: str | os.PathLike[str] = "trace.parquet", options: Sequence[str] = ()) -> bool:
    """Starts recording this process to ``output``; returns whether it is recorded when this returns, after 0.2 to 0.5 s.

    ``output``, ``options``: as of ``scalene-record --pid``, for example ``["--cpu-interval", "1ms"]``. Under
    ``scalene-record``, its recording is resumed, and both are ignored. A recording that this process has started goes on.
    """
    global _running, _resumed
    if _running is not None and _running.is_ours:
        return True
    _running = None
    if api.recording():
        api.resume()
        _resumed = True
        return True
    found = _started(_path_of(os.fspath(output)), list(options))
    if found is None:
        return False
    import atexit

    _running, api.attached_folder = found, f"{found.path}.spool"
    atexit.register(stop)
    return True


def stop() -> str | None:
    """Ends what :func:`start` has begun, and writes the trace; returns its path. Under ``scalene-record``, pauses the
    recording. None where nothing was recorded, and in a child that was forked meanwhile. The end of the process stops it too."""
    global _running, _resumed
    if _resumed:
        _resumed = False
        api.pause()
        return api.trace_path()
    found, _running = _running, None
    if found is None or not found.is_ours:
        return None
    api.attached_folder = ""
    found.stop()
    return found.path if os.path.exists(found.path) else None  # noqa: PTH110 (pathlib is not loaded)


class record:  # noqa: N801 (used as a function)
    """``with record("trace.parquet"):`` records the block, by :func:`start` and :func:`stop`.

    ``path``: the trace, once the block has ended; None if there is none.
    """

    def __init__(self, output: str | os.PathLike[str] = "trace.parquet", options: Sequence[str] = ()) -> None:
        self._output, self._options = output, options
        self.path: str | None = None

    def __enter__(self) -> record:
        start(self._output, self._options)
        return self

    def __exit__(self, *error: object) -> None:
        self.path = stop()


def _path_of(output: str) -> str:
    if os.path.isdir(output):  # noqa: PTH112 (pathlib is not loaded)
        output = f"{output}/trace-{time.strftime('%Y%m%d-%H%M%S')}-%p.parquet"
    return os.path.abspath(output.replace("%p", str(os.getpid())))  # noqa: PTH100


def _started(path: str, options: list[str]) -> _Recorder | None:
    """A recorder that observes this process; None, with a message, where there is none."""
    import subprocess

    words = [*_tool(), "-o", path, *options, "--pid", str(os.getpid())]
    read, write = os.pipe()
    try:
        shell = subprocess.Popen(
            ["/bin/sh", "-c", _START, "sh", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=write,
            start_new_session=True,
        )
    except OSError as error:
        os.close(read)
        _print(f"scalene-record: {error}. {_ADVICE}\n")
        return None
    finally:
        os.close(write)
    recorder = _Recorder(path, _number_said_by(shell), read)
    _allow(recorder.pid)
    if recorder.pid and recorder.wait_until_ready():
        return recorder
    recorder.stop()
    return None


def _number_said_by(shell: subprocess.Popen[bytes]) -> int:
    """The first line of its output; 0 if that is no number."""
    assert shell.stdout is not None
    with shell.stdout:
        line = shell.stdout.readline().strip()
    shell.wait()
    return int(line) if line.isdigit() else 0


def _tool() -> list[str]:
    """The command that starts scalene-record: of this environment, else the one on PATH."""
    import importlib.util
    import shutil

    package = __package__.rpartition(".")[0]
    if sys.executable and sys.version_info >= (3, 11) and importlib.util.find_spec(f"{package}.cli"):
        return [sys.executable, "-P", "-c", f"from {package}.cli.record.command import main; main()"]
    return [shutil.which("scalene-record") or "scalene-record"]


def _allow(pid: int) -> None:
    """Lets ``pid`` read this process where Yama allows that to parents only."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)
    except (ImportError, OSError, AttributeError):  # the recorder says what is missing
        pass


def _print(text: str) -> None:
    if text and sys.stderr is not None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):  # it is closed
            pass
