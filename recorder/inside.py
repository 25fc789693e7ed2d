"""Recording that a program starts itself: its CPU time, waits and tasks, from here to there.

::

    from scalene_trace.recorder import record

    with record("load.parquet"):
        load()

A recorder attaches to this process from outside, as ``scalene-record --pid`` does (docs/design/attach.md): nothing is
preloaded, and memory is not recorded. Under ``scalene-record``, its recording is resumed if it was paused, memory included, and
paused again. Nothing here raises: where recording is not possible, a sentence on standard error says why, and the program
goes on.

This module runs in the program's interpreter, which may be older than the tool's own, and imports as little as :mod:`.api`.
"""

from __future__ import annotations

import _thread
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
#: How often the end of the recorder is looked for besides waiting for the end of its messages.
_CHECK_S = 0.1
_SET_PTRACER = 0x59616D61  # prctl(2)
_NAME = "scalene-record"
#: The recorder is no child of the program, which may wait for its children: the shell that starts it ends at once.
_START = '"$@" & echo $!'


class _Recorder:
    """A recorder that observes this process. ``path``: the trace; ``pid``: of the recorder; ``has_spoken``: it has said
    something, which was passed on."""

    def __init__(self, path: str, pid: int, messages: int) -> None:
        self.path, self.pid, self.has_spoken = path, pid, False
        self._messages, self._pipe = messages, os.fstat(messages).st_ino
        self._before = _identity(path)

    def wait_until_ready(self) -> bool:
        """Waits until it observes this process. False when it has ended instead, or takes too long."""
        import json

        folder, end_s = f"{self.path}.spool", time.monotonic() + _PATIENCE_S
        while time.monotonic() < end_s:
            if self._has_ended(_POLL_S):
                return False
            try:
                if json.loads(api.exchange(folder, {"command": "status"}, 100_000)).get("recorder_pid") == self.pid:
                    return True
            except (OSError, ValueError):
                continue
        return False

    def stop(self) -> str | None:
        """Ends the recording, and waits until the trace is written. Returns its path; None, with a sentence, if there is
        none."""
        import signal

        try:
            _signal(self.pid, signal.SIGTERM)
            while not self._has_ended(_CHECK_S):
                if _is_stopped(self.pid):
                    _say(f"the recorder (process {self.pid}) is stopped. It writes {self.path} when it continues")
                    return None
            _reap(self.pid, 0)  # it has nothing left to do but end
        finally:
            _allow(0)
            self.close()
        if _identity(self.path) not in (None, self._before):
            return self.path
        if os.path.isdir(f"{self.path}.spool"):  # noqa: PTH112 (pathlib is not loaded)
            _say(f"the recorder was killed. Write the trace by: {_NAME} --recover {self.path}.spool")
        return None

    def close(self) -> None:
        """Forgets it; it goes on, and its messages are lost."""
        if self._has_pipe():
            os.close(self._messages)
        _reap(self.pid)

    def _has_pipe(self) -> bool:
        """Is the descriptor still ours? The program may have closed it, as daemons do, and opened another file."""
        try:
            return os.fstat(self._messages).st_ino == self._pipe
        except OSError:
            return False

    def _has_ended(self, timeout_s: float) -> bool:
        """Passes on what it says. It holds the other end of the pipe until it ends; so may a child of this process."""
        import select

        if not self._has_pipe():
            time.sleep(timeout_s)
            return _reap(self.pid) or not _signal(self.pid, 0)
        poll = select.poll()
        poll.register(self._messages, select.POLLIN)
        if not poll.poll(timeout_s * 1000):
            return _reap(self.pid) or not _signal(self.pid, 0)
        said = os.read(self._messages, 65536)
        self.has_spoken |= bool(said)
        _print(said.decode(errors="replace"))
        return not said


class _State:
    """What this process records. ``recorder``: its own; ``is_resumed``: the recording that it runs under was paused before;
    ``owner``: the process that this is about: a forked child begins anew. A lock is held while that changes."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._lock, self._holder = _thread.allocate_lock(), 0
        self.recorder: _Recorder | None = None
        self.is_resumed = False

    def enter(self) -> bool:
        """Takes the lock. False where this thread has it: a signal handler has interrupted it."""
        if self._holder == _thread.get_ident():
            _say("a signal handler cannot start or stop a recording that is being started or stopped")
            return False
        self._lock.acquire()
        self._holder = _thread.get_ident()
        return True

    def leave(self) -> None:
        """Gives the lock back."""
        self._holder = 0
        self._lock.release()


_state = _State()
_ends_at_exit = False


def start(output: str | os.PathLike[str] = "trace.parquet", options: Sequence[str] = ()) -> bool:
    """Starts recording this process to ``output``; returns whether it is recorded when this returns, after 0.1 to 0.3 s.

    ``output``, ``options``: as of ``scalene-record --pid``, for example ``["--cpu-interval", "1ms"]``. Under
    ``scalene-record``, its recording is resumed, and both are ignored. A recording that this process has started goes on.
    """
    return _start(output, options)[0]


def stop() -> str | None:
    """Ends what :func:`start` has begun, and writes the trace; returns its path. Under ``scalene-record``, pauses the
    recording again if it was paused before; the trace is written later. None where nothing was begun, and in a child that was
    forked since then. The end of the process stops the recording too."""
    state = _state
    if state.owner != os.getpid() or not state.enter():
        return None
    try:
        if state.is_resumed:
            state.is_resumed = False
            api.pause()
            return api.trace_path() or None
        recorder, state.recorder = state.recorder, None
        if recorder is None:
            return None
        api.attached_folder = ""
        return recorder.stop()
    except Exception as error:  # nothing of this may end the program
        _say(f"the recording could not be ended: {error!r}")
        return None
    finally:
        state.leave()


class record:  # noqa: N801 (used as a function)
    """``with record("trace.parquet"):`` records the block, as :func:`start` and :func:`stop` do. A block within another one, or
    within what :func:`start` has begun, is part of that recording.

    ``path``: once the block has ended, the trace; under ``scalene-record``, the one that will be written. None if there is
    none, or if the block is part of another one's. ``is_own``: it has a recorder of its own.
    """

    def __init__(self, output: str | os.PathLike[str] = "trace.parquet", options: Sequence[str] = ()) -> None:
        self._output, self._options, self._begun = output, options, False
        self.path: str | None = None
        self.is_own = False

    def __enter__(self) -> record:
        self.path = None
        is_recorded, self._begun = _start(self._output, self._options)
        self.is_own = self._begun and _state.recorder is not None
        if is_recorded and not (self._begun or _state.recorder or _state.is_resumed):
            self.path = api.trace_path() or None  # recorded anyway
        return self

    def __exit__(self, *error: object) -> None:
        if self._begun:
            self.path = stop()


def _start(output: str | os.PathLike[str], options: Sequence[str]) -> tuple[bool, bool]:
    """Is this process recorded now, and was that begun here?"""
    global _state, _ends_at_exit
    if _state.owner != os.getpid():  # forked from a process that records itself
        parent, _state = _state, _State()
        api.attached_folder = ""
        if parent.recorder:
            parent.recorder.close()
    state = _state
    if not state.enter():
        return False, False
    try:
        if state.recorder or state.is_resumed:
            return True, False
        if api.recording():
            state.is_resumed = api.resume()
            return True, state.is_resumed
        state.recorder = _started(_path_of(output), [str(each) for each in options])
        if state.recorder is None:
            return False, False
        api.attached_folder = f"{state.recorder.path}.spool"
        if not _ends_at_exit:
            import atexit

            _ends_at_exit = True
            atexit.register(stop)
    except Exception as error:  # nothing of this may end the program
        _say(f"the recording did not start: {error}")
        return False, False
    finally:
        state.leave()
    return True, True


def _path_of(output: str | os.PathLike[str]) -> str:
    path = os.fsdecode(output)
    if os.path.isdir(path):  # noqa: PTH112 (pathlib is not loaded)
        path = f"{path}/trace-{time.strftime('%Y%m%d-%H%M%S')}-%p.parquet"
    return os.path.abspath(path.replace("%p", str(os.getpid())))  # noqa: PTH100


def _started(path: str, options: list[str]) -> _Recorder | None:
    """A recorder that observes this process; None, with a sentence, where there is none. Raises what the system raises."""
    import subprocess

    tool = _tool()
    if tool is None:
        _say("not found. Install the package in this program's environment, or put scalene-record on PATH")
        return None
    words = [tool, *options, "-o", path, "--pid", str(os.getpid())]
    left_out = ("PYTHONHOME", "SCALENE_TRACE_SPOOL")  # the latter of a recorder that has ended
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    read, write = os.pipe()
    recorder = _Recorder(path, 0, read)
    try:
        try:
            shell = subprocess.Popen(
                ["/bin/sh", "-c", _START, "sh", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=write,
                start_new_session=True,
                env=environment,
            )
        finally:
            os.close(write)
        recorder.pid = _number_said_by(shell)
        _allow(recorder.pid)
        if recorder.pid and recorder.wait_until_ready():
            return recorder
        if not recorder.has_spoken:
            _say(
                f"the recording did not start, and its recorder says nothing: {' '.join(words)}. Run the command yourself"
            )
    except BaseException:
        _end(recorder)
        raise
    _end(recorder)
    return None


def _end(recorder: _Recorder) -> None:
    """Ends a recorder that is of no use."""
    import signal

    _signal(recorder.pid, signal.SIGTERM)
    _allow(0)
    recorder.close()


def _number_said_by(shell: subprocess.Popen[bytes]) -> int:
    """The first line of its output; 0 if that is no number."""
    assert shell.stdout is not None
    with shell.stdout:
        line = shell.stdout.readline().strip()
    shell.wait()
    return int(line) if line.isdigit() else 0


def _tool() -> str | None:
    """scalene-record of this program's environment, else the one on PATH; None if there is none."""
    import shutil

    own = f"{os.path.dirname(sys.executable)}/{_NAME}" if sys.executable else ""  # noqa: PTH120
    return own if own and os.access(own, os.X_OK) else shutil.which(_NAME)


def _identity(path: str) -> tuple[int, int] | None:
    """What tells a file from a later one of the same name; None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 (pathlib is not loaded)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _signal(pid: int, number: int) -> bool:
    """Signals a process; 0 only looks for it. False when there is none. (0 and less would mean groups of processes.)"""
    try:
        if pid > 0:
            os.kill(pid, number)
    except OSError:
        return False
    return pid > 0


def _reap(pid: int, options: int = os.WNOHANG) -> bool:
    """Has the process ended, as a child of this one? It is one where this process adopts orphans."""
    try:
        return pid > 0 and os.waitpid(pid, options)[0] == pid
    except OSError:
        return False


def _is_stopped(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 (pathlib is not loaded)
            return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
    except (OSError, IndexError):
        return False


def _allow(pid: int) -> None:
    """Lets ``pid`` read this process where Yama allows that to parents only; 0 = nobody."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)
    except (ImportError, OSError, AttributeError):  # the recorder says what is missing
        pass


def _say(sentence: str) -> None:
    _print(f"{_NAME}: {sentence}.\n")


def _print(text: str) -> None:
    try:
        if text and sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()
    except Exception:  # it may be closed, or any object
        pass
