"""Recording that a program starts itself: its CPU time, waits and tasks, from here to there.

::

    from scalene_trace.recorder import record

    with record("load.parquet"):
        load()

A recorder attaches to this process from outside, as ``scalene-record --pid`` does (docs/design/attach.md): nothing is
preloaded, and memory is not recorded. Under ``scalene-record``, its recording is resumed if it was paused, memory included, and
paused again. Blocks that overlap share one recording, which ends with the last of them. Nothing here raises: where recording
is not possible, a sentence on standard error says why, and the program goes on.

This module runs in the program's interpreter, which may be older than the tool's own, and imports as little as :mod:`.api`.
"""

from __future__ import annotations

import _thread
import os
import time

from . import api
from .own_recorder import Recorder, Shared, has_no_socket, say, started

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: How long a recorder that this process runs under may take for an answer.
_ANSWER_US = 1_000_000
#: Options that name another process, recording or output, or print something instead; and those that are for a program that the
#: recorder starts, or for memory, which is not recorded from here.
_REFUSED = (
    *("--pid", "--output", "--control", "--recover", "--doctor", "--json"),
    *("--rotate", "--keep", "--spool", "--spool-limit"),
    *("--help", "--version", "--install-completion", "--show-completion"),
    *("--python", "--cpu-engine", "--cpu-budget", "--native-alloc", "--copy-threshold", "--no-copy", "--no-wait"),
    *("--memory", "--no-memory", "--memory-threshold", "--alloc-interval"),
)


class _Held(Shared):
    """The recording that this process runs under, in ``folder``. It is paused when no process holds it any more. ``is_sure``: its
    recorder has said that it is resumed; otherwise it resumes as soon as it can."""

    def __init__(self, folder: str, is_sure: bool) -> None:
        super().__init__()
        self.folder, self.is_sure = folder, is_sure

    def has_ended(self) -> bool:
        found = _hold(self.folder)
        self.is_sure = found == "held"
        return found not in ("held", "silent")

    def end(self) -> str | None:
        try:
            api.exchange(self.folder, {"command": "pause", "hold": True}, _ANSWER_US)
        except Exception:  # it has ended, or it serves this as soon as it can
            pass
        return api.trace_path() or None


class _State:
    """What this process records. ``recording``: it is shared by blocks; ``started``: what :func:`start` has begun; ``owner``: the
    process that this is about: a forked child begins anew. A lock is held while that changes."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._lock, self._holder = _thread.allocate_lock(), 0
        self.recording: Shared | None = None
        self.started: Shared | None = None

    def enter(self) -> bool:
        """Takes the lock. False where this thread has it: a signal handler has interrupted it."""
        if self._holder == _thread.get_ident():
            say("a signal handler cannot start or stop a recording that is being started or stopped")
            return False
        self._lock.acquire()
        self._holder = _thread.get_ident()
        return True

    def leave(self) -> None:
        """Gives the lock back."""
        self._holder = 0
        self._lock.release()

    def forget(self) -> None:
        """The next block begins a new recording."""
        if isinstance(self.recording, Recorder):
            api.attached_folder = ""
        self.recording = None


_state = _State()
_ends_at_exit = False


def start(output: str | os.PathLike[str] = "trace.parquet", options: Sequence[str] = ()) -> bool:
    """Starts recording this process to ``output``; returns whether it is recorded when this returns, after 0.1 to 0.3 s.

    ``output``, ``options``: as of ``scalene-record --pid``, for example ``["--cpu-interval", "1ms"]``. Under
    ``scalene-record``, its recording is resumed, and both are ignored. A recording that this process has started goes on.
    """
    return _begin(output, options, True)[0]


def stop() -> str | None:
    """Ends what :func:`start` has begun, and writes the trace; returns its path. Under ``scalene-record``, pauses the
    recording again if it was paused before; the trace is written later. None where nothing was begun, in a child that was
    forked since then, and while blocks of :class:`record` are open: the last of them ends the recording. The end of the process
    stops it too."""
    return _leave(None)


class record:  # noqa: N801 (used as a function)
    """``with record("trace.parquet"):`` records the block, as :func:`start` and :func:`stop` do. A block that begins while
    another one is open, or within what :func:`start` has begun, is part of that recording, which ends with the last of them.

    ``path``: the trace, once the block has ended that ends the recording; under ``scalene-record``, the one that will be
    written. None if there is none, or if the recording goes on. ``is_own``: it has begun with a recorder of its own.
    """

    def __init__(self, output: str | os.PathLike[str] = "trace.parquet", options: Sequence[str] = ()) -> None:
        self._output, self._options = output, options
        self._shared: list[Shared | None] = []
        self.path: str | None = None
        self.is_own = False

    def __enter__(self) -> record:
        self.path = None
        is_recorded, shared, is_new = _begin(self._output, self._options, False)
        self._shared.append(shared)
        self.is_own = is_new and isinstance(shared, Recorder)
        if is_recorded and shared is None:
            self.path = api.trace_path() or None  # recorded anyway
        return self

    def __exit__(self, *error: object) -> None:
        shared = self._shared.pop()
        if shared:
            self.path = _leave(shared)


def _begin(output: str | os.PathLike[str], options: Sequence[str], is_start: bool) -> tuple[bool, Shared | None, bool]:
    """Is this process recorded now; what is to be left later; and was that begun here? ``is_start``: for :func:`start`, which
    counts once."""
    global _state, _ends_at_exit
    if _state.owner != os.getpid():  # forked from a process that records itself
        parent, _state = _state, _State()
        api.attached_folder = ""
        if isinstance(parent.recording, Recorder):
            parent.recording.close()
    state = _state
    if not state.enter():
        return False, None, False
    try:
        if state.recording and state.recording.has_ended():
            state.forget()
        is_new = state.recording is None
        if is_new:
            is_recorded, state.recording = _recording(output, options)
            if state.recording is None:
                return is_recorded, None, False
        shared = state.recording
        assert shared is not None
        if not (is_start and state.started is shared):
            shared.blocks += 1
        if is_start and state.started is not shared:
            before, state.started = state.started, shared
            if before:
                _drop(before)
        if not _ends_at_exit:
            import atexit

            _ends_at_exit = True
            atexit.register(_end)
        return not isinstance(shared, _Held) or shared.is_sure, shared, is_new
    except Exception as error:  # nothing of this may end the program
        say(f"the recording did not start: {error}")
        return False, None, False
    finally:
        state.leave()


def _leave(shared: Shared | None) -> str | None:
    """A block of this recording has ended; None = :func:`stop`. Returns the trace if that ends the recording."""
    state = _state
    if state.owner != os.getpid() or not state.enter():
        return None
    try:
        if shared is None:
            shared, state.started = state.started, None
        return _drop(shared) if shared else None
    except Exception as error:  # nothing of this may end the program
        say(f"the recording could not be ended: {error!r}")
        return None
    finally:
        state.leave()


def _drop(shared: Shared) -> str | None:
    """One block less; the last one ends the recording."""
    if shared.owner != os.getpid():
        return None
    shared.blocks -= 1
    if shared.blocks > 0:
        return None
    if _state.recording is shared:
        _state.forget()
    return shared.end()


def _end() -> None:
    """The process ends: whatever blocks are still open, their recording ends."""
    recording = _state.recording
    if recording and recording.owner == os.getpid():
        recording.blocks = 1
        _leave(recording)


def _recording(output: str | os.PathLike[str], options: Sequence[str]) -> tuple[bool, Shared | None]:
    """Is this process recorded now, and by a recording that is to be ended? Raises what the system raises."""
    folder = api.recording_folder()
    found = _hold(folder) if folder else "none"
    if found == "silent":
        say("the recorder does not answer. It resumes the recording when it continues")
    elif found == "deaf":
        say(
            "the recording that this program runs under accepts no commands: its file system could not hold a socket. If it is "
            "paused, it stays so"
        )
    if found in ("held", "silent"):
        return True, _Held(folder, found == "held")
    if found != "none":
        return True, None
    recorder = started(_path_of(output), _words_of(options))
    if recorder:
        api.attached_folder = recorder.folder
    return recorder is not None, recorder


def _hold(folder: str) -> str:
    """Asks the recording in ``folder`` to go on until this process lets it pause again or ends. "held": it does, and was paused
    before; "on": it was not paused; "silent": its recorder does not answer in time, and may do that later; "deaf": it takes
    no commands; "none": there is no recorder."""
    try:
        answer = api.exchange(folder, {"command": "resume", "hold": True}, _ANSWER_US)
    except (BlockingIOError, TimeoutError):
        return "silent"
    except FileNotFoundError:
        return "deaf" if has_no_socket(folder) and _is_locked(f"{folder}/spool") else "none"
    except Exception:  # a program may have replaced what sockets are made of
        return "none"
    if b'"ok": true' not in answer:
        return "none"
    return "held" if b'"held": true' in answer else "on"


def _is_locked(spool: str) -> bool:
    """Does its recorder live? As :func:`.folder.output.is_live`, whose imports the program would pay for."""
    import fcntl

    try:
        descriptor = os.open(spool, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _words_of(options: Sequence[str]) -> list[str]:
    """The options as words. Raises ValueError if they are no list, or would record or write something else than asked for."""
    if isinstance(options, (str, bytes)):
        raise ValueError(f'options is a list of words, like ["--cpu-interval", "1ms"], but {options!r} was given')
    words = [str(each) for each in options]
    for word in words:
        is_short = word[:1] == "-" and word[:2] != "--" and word != "-v"
        if is_short or word == "--" or word.partition("=")[0] in _REFUSED:
            raise ValueError(f"the option {word} cannot be given here. Leave it out")
    return words


def _path_of(output: str | os.PathLike[str]) -> str:
    path = os.fsdecode(output)
    if os.path.isdir(path):  # noqa: PTH112 (pathlib is not loaded)
        path = f"{path}/trace-{time.strftime('%Y%m%d-%H%M%S')}-%p.parquet"
    folder, name = os.path.split(path)
    return os.path.abspath(os.path.join(folder, name.replace("%p", str(os.getpid()))))  # noqa: PTH100, PTH118
