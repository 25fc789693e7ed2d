"""The recorder that :mod:`.inside` attaches to this process: its start, its messages and its end.

It runs in the program's interpreter, and imports as little as :mod:`.api`.
"""

from __future__ import annotations

import os
import sys
import time

from . import api

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

#: How long the recorder may take until it observes this process.
_PATIENCE_S = 30.0
_POLL_S = 0.005
#: How often the end of the recorder is looked for besides waiting for the end of its messages.
_CHECK_S = 0.1
#: How long a recorder that cannot say that it observes this process is given for that, and one that has no spool any more, to
#: end.
_SETTLE_S = 0.3
#: Offset in a spool's header of the word that says that the recording has ended (formats/spool/spool.h).
_ENDED_AT = 52
_YAMA = "/proc/sys/kernel/yama/ptrace_scope"
_SET_PTRACER = 0x59616D61  # prctl(2)
_NAME = "scalene-record"
#: The recorder is no child of the program, which may wait for its children: the shell that starts it ends at once.
_START = '"$@" & echo $!'


class Shared:
    """A recording that blocks share: it ends with the last of them. ``blocks``: how many are open, one for what :func:`start` has
    begun; ``owner``: the process that they are in, since a forked child has copies."""

    def __init__(self) -> None:
        self.owner, self.blocks = os.getpid(), 0

    def has_ended(self) -> bool:
        """Has something else ended it?"""
        raise NotImplementedError

    def end(self) -> str | None:
        """Ends it; returns the path of the trace."""
        raise NotImplementedError


class Recorder(Shared):
    """A recorder that observes this process. ``path``: the trace; ``pid``: of the recorder; ``has_spoken``: it has said
    something, which was passed on."""

    def __init__(self, path: str, messages: int) -> None:
        super().__init__()
        self.path, self.pid, self.has_spoken, self.folder = path, 0, False, f"{path}.spool"
        self._messages, self._pipe = messages, os.fstat(messages).st_ino
        self._before, self._folder_before = _identity(path), _identity(self.folder)
        self._start: bytes | None = None
        self._is_over = False

    def observe(self, pid: int) -> bool:
        """The process ``pid`` is the recorder. Waits until it observes this process. False when it has ended instead, or takes
        too long."""
        self.pid = pid
        try:
            self._start = _state_of(pid)[1]
        except OSError:  # no descriptor is left
            pass
        _allow(pid)
        return pid > 0 and self._waits_until_ready()

    def _waits_until_ready(self) -> bool:
        import json

        end_s = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end_s:
            if self._ends_within(_POLL_S):
                return False
            try:
                answer = json.loads(api.exchange(self.folder, {"command": "status"}, 100_000))
                if answer.get("recorder_pid") == self.pid:
                    return True
            except FileNotFoundError:
                if _identity(self.folder) not in (None, self._folder_before) and has_no_socket(self.folder):
                    say(
                        "the recording accepts no marks and no pauses: its file system could not hold a socket. Name an output "
                        "elsewhere"
                    )
                    return not self._ends_within(_SETTLE_S)
            except (OSError, ValueError):
                continue
        return False

    def has_ended(self) -> bool:
        """Has it ended? One that writes its trace records nothing any more, so its end is waited for."""
        if self._ends_within(0):
            return True
        patience_s = self._patience_s()
        end_s = time.monotonic() + patience_s
        while time.monotonic() < end_s and not self._is_stopped():
            if self._ends_within(_POLL_S):
                return True
        return patience_s == float("inf")

    def _patience_s(self) -> float:
        """How long its end is worth waiting for: 0 while it records, by the header of its spool, or if that is unknown."""
        try:
            spool = os.open(f"{self.folder}/spool", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:  # its trace is there, or the folder cannot be reached any more
            return _SETTLE_S
        except OSError:
            return 0
        try:
            return float("inf") if any(os.pread(spool, 4, _ENDED_AT)) else 0
        except OSError:
            return 0
        finally:
            os.close(spool)

    def end(self) -> str | None:
        """Ends the recording, and waits until the trace is written. Returns its path; None, with a sentence, if there is
        none."""
        import signal

        if self._is_over:
            return None
        self._is_over = True
        try:
            if not self._signal(signal.SIGTERM):
                say(
                    f"the recorder (process {self.pid}) may not be signalled. It writes {self.path} when this process ends"
                )
                return None
            while not self._ends_within(_CHECK_S):
                if self._is_stopped():
                    say(f"the recorder (process {self.pid}) is stopped. It writes {self.path} when it continues")
                    return None
            self._reap(0)  # it has nothing left to do but end
        finally:
            _allow(0)
            self.close()
        if _identity(self.path) not in (None, self._before):
            return self.path
        if os.path.isdir(self.folder):  # noqa: PTH112 (pathlib is not loaded)
            say(f"the recorder was killed. Write the trace by: {_NAME} --recover {self.folder}")
        return None

    def abandon(self) -> None:
        """Ends a recorder that is of no use."""
        import signal

        self._signal(signal.SIGTERM)
        _allow(0)
        self.close()

    def close(self) -> None:
        """Forgets it; it goes on, and its messages are lost."""
        if self._has_pipe():
            os.close(self._messages)
        self._reap()

    def _has_pipe(self) -> bool:
        """Is the descriptor still ours? The program may have closed it, as daemons do, and opened another file."""
        try:
            return os.fstat(self._messages).st_ino == self._pipe
        except OSError:
            return False

    def _ends_within(self, timeout_s: float) -> bool:
        """Passes on what it says. It holds the other end of the pipe until it ends; so may a child of this process."""
        import select

        if not self._has_pipe():
            time.sleep(timeout_s)
            return self._reap() or not self._runs()
        poll = select.poll()
        poll.register(self._messages, select.POLLIN)
        if not poll.poll(timeout_s * 1000):
            return self._reap() or not self._runs()
        said = os.read(self._messages, 65536)
        self.has_spoken |= bool(said)
        _print(said.decode(errors="replace"))
        return not said

    def _runs(self) -> bool:
        """Does it run? Once it has ended, its pid may be that of another process, which has started later."""
        if self._start is not None:
            try:
                state, start = _state_of(self.pid)
                return start == self._start and state != b"Z"
            except OSError:  # no descriptor is left
                pass
        import select

        poll = select.poll()
        poll.register(self._messages, 0)
        return self._has_pipe() and not poll.poll(0)

    def _signal(self, number: int) -> bool:
        """Signals it if it runs. False when this process may not."""
        import signal

        try:
            process = os.pidfd_open(self.pid)  # if the recorder has the pid now, this stays the recorder
        except (OSError, AttributeError):  # Linux before 5.3, an old C library, or it has ended
            process = -1
        try:
            if self.pid > 0 and self._runs():
                if process >= 0:
                    signal.pidfd_send_signal(process, number)
                else:
                    os.kill(self.pid, number)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        finally:
            if process >= 0:
                os.close(process)
        return True

    def _is_stopped(self) -> bool:
        """Has a signal stopped it? A debugger that stops it lets it go on."""
        try:
            return _state_of(self.pid)[0] == b"T"
        except OSError:
            return False

    def _reap(self, options: int = os.WNOHANG) -> bool:
        """Has it ended, as a child of this process? It is one where this process adopts orphans."""
        try:
            is_it = self._start is not None and _state_of(self.pid)[1] == self._start
            return is_it and os.waitpid(self.pid, options)[0] == self.pid
        except OSError:
            return False


def has_no_socket(folder: str) -> bool:
    """Could no socket be made in the folder of a recording? When one ends, its spool is removed before its socket."""
    return not os.path.lexists(f"{folder}/control") and os.path.lexists(f"{folder}/spool")


def started(path: str, options: list[str]) -> Recorder | None:
    """A recorder that observes this process; None, with a sentence, where there is none. Raises what the system raises."""
    import subprocess

    tool = _tool()
    if tool is None:
        say("not found. Install the package in this program's environment, or put scalene-record on PATH")
        return None
    words = [tool, "--pid", str(os.getpid()), "-o", path, *options]  # with --pid, no option can start a program
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHOME"}
    environment[api.SPOOL_VARIABLE] = ""  # a shim whose recorder has ended would set it again, but leaves others alone
    read, write = os.pipe()
    recorder = Recorder(path, read)
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
        if recorder.observe(_number_said_by(shell)):
            return recorder
        if not recorder.has_spoken:
            say(
                f"the recording did not start, and its recorder says nothing: {' '.join(words)}. Run the command yourself"
            )
    except BaseException:
        recorder.abandon()
        raise
    recorder.abandon()
    return None


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
    """Inode and time of the last change, which tell a file from a later one of the same name; None if there is none. (Without
    the imports of formats/identity.py.)"""
    try:
        found = os.stat(path)  # noqa: PTH116 (pathlib is not loaded)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _state_of(pid: int) -> tuple[bytes, bytes | None]:
    """The state of a process, as the letter of proc(5) ("T" = stopped, "Z" = ended), and when it has started; b"" and None if
    there is no such process. Raises OSError where that cannot be read."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 (pathlib is not loaded)
            words = file.read().rpartition(b")")[2].split()
        return words[0], words[19]
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return b"", None


def _allow(pid: int) -> None:
    """Lets ``pid`` read this process where Yama allows that to parents only; 0 = nobody. That replaces whom the program has
    allowed itself, which cannot be asked, so it is done only there."""
    try:
        with open(_YAMA, "rb") as file:  # noqa: PTH123 (pathlib is not loaded)
            if file.read().strip() != b"1":
                return
        import ctypes

        ctypes.CDLL(None).prctl(_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)
    except (ImportError, OSError, AttributeError):  # the recorder says what is missing
        pass


def say(sentence: str) -> None:
    """Prints a sentence on standard error."""
    _print(f"{_NAME}: {sentence}.\n")


def _print(text: str) -> None:
    try:
        if text and sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()
    except Exception:  # it may be closed, or any object
        pass
