"""Waits for the program as a shell would, forwards signals to it, reaps orphans, and runs the recorder's periodic work."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .orphans import adopts_orphans, reap_orphans

#: Signals that are sent to the recorder but meant for the program.
_FORWARDED = frozenset(
    {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT}
)
#: Signals that are not forwarded as PID 1: those that no process can handle, faults of the recorder itself, and those that
#: the kernel sends to the process that has used or written something.
_OWN = frozenset(
    {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGTTIN, signal.SIGTTOU, signal.SIGPIPE}
    | {signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV, signal.SIGSYS}
    | {signal.SIGXCPU, signal.SIGXFSZ}
)
#: Signals that Python ignores from its own start on.
PYTHON_IGNORES = [signal.SIGPIPE, signal.SIGXFSZ]
_SI_KERNEL = 0x80
_JOB_STOPS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


class Ended(NamedTuple):
    """How the program has ended: its exit status, 128 + n for signal n, whether a signal has killed it, and the CPU time (ns)
    of it and of the children that it had waited for."""

    status: int
    killed: bool
    user_ns: int
    system_ns: int


def hold_signals() -> set[int]:
    """Blocks the signals that :func:`wait_for` handles; returns the mask from before."""
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, _forwarded() | {signal.SIGCHLD}))


def wait_for(pid: int, each_turn: Callable[[], float], before_reaping: Callable[[], None] = lambda: None) -> Ended:
    """Waits for the program ``pid`` and returns how it has ended.

    ``each_turn`` is called repeatedly and returns the seconds until its next call; ``before_reaping`` is called when the
    program has ended and /proc still knows it. The terminal sends its signals to the program directly, because it is in the
    same process group; signals that were sent to the recorder alone are forwarded.
    """
    own_pid, forwarded, adopts = os.getpid(), _forwarded(), adopts_orphans()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # with SIG_IGN, the kernel would discard the exit status
    while (ended := _ended(pid, before_reaping)) is None:
        if adopts:
            reap_orphans(pid)
        received = signal.sigtimedwait(forwarded | {signal.SIGCHLD}, each_turn())
        if (
            received
            and received.si_signo in forwarded
            and received.si_code != _SI_KERNEL
            and received.si_pid
            != own_pid  # a library's raise() in this process: OpenBLAS when it cannot start a thread
        ):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, received.si_signo)
    return ended


def _forwarded() -> frozenset[int]:
    """The signals that are forwarded: as PID 1 almost all, as an init does. The kernel discards those that PID 1 neither
    blocks nor handles, so a container whose stop signal is not the usual one could not be stopped."""
    return frozenset(signal.valid_signals()) - _OWN if os.getpid() == 1 else _FORWARDED


def _ended(pid: int, before_reaping: Callable[[], None]) -> Ended | None:
    """How the program has ended, None while the program runs. When the program stops as a job, so does the recorder."""
    if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        before_reaping()
    found, status, usage = os.wait4(pid, os.WNOHANG | os.WUNTRACED)
    if found == 0:
        return None
    if os.WIFSTOPPED(status):
        if os.WSTOPSIG(status) in _JOB_STOPS:
            _stop_with(pid)
        return None
    killed = os.WIFSIGNALED(status)
    exit_status = 128 + os.WTERMSIG(status) if killed else os.WEXITSTATUS(status)
    return Ended(exit_status, killed, round(usage.ru_utime * 1e9), round(usage.ru_stime * 1e9))


def _stop_with(pid: int) -> None:
    """Stops the recorder as well: the shell sees only the recorder, and would not notice that the job has stopped.

    After Ctrl-Z and ``fg`` both processes continue at once, and the stop may be reported after that. So check again after
    a moment.
    """
    time.sleep(0.02)
    if _is_stopped(pid):
        os.kill(os.getpid(), signal.SIGSTOP)
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGCONT)


def _is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (OSError, IndexError):
        return False
