"""Waits for the program as a shell would, passes signals on, and does the recorder's periodic work meanwhile."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

#: Signals that somebody may send to the recorder and mean the program.
_PASSED_ON = frozenset(
    {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT}
)
_WAITED_FOR = _PASSED_ON | {signal.SIGCHLD}
#: Signals that Python has set to be ignored at its own start.
PYTHON_IGNORES = [signal.SIGPIPE, signal.SIGXFSZ]
_SI_KERNEL = 0x80
_JOB_STOPS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


def hold_signals() -> set[int]:
    """Keeps the signals for :func:`wait_for` from now on; returns the mask that was in force."""
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR))


def wait_for(pid: int, each_turn: Callable[[], float]) -> int:
    """Waits for the program ``pid`` and returns its exit status, 128 + n for signal n.

    ``each_turn`` runs again and again and tells how many seconds later it wants to. Signals of the terminal reach the program by themselves, being in the same
    process group; signals that others sent to the recorder alone are passed on.
    """
    own_pid = os.getpid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it was ignored, the status would be lost
    while (status := _ended(pid)) is None:
        received = signal.sigtimedwait(_WAITED_FOR, each_turn())
        if (
            received
            and received.si_signo in _PASSED_ON
            and received.si_code != _SI_KERNEL
            and received.si_pid != own_pid  # a library's raise(SIGINT) in ours (OpenBLAS without a thread)
        ):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, received.si_signo)
    return status


def _ended(pid: int) -> int | None:
    """The exit status, None while the program lives; stops with it when it stops as a job."""
    found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
    if found == 0:
        return None
    if os.WIFSTOPPED(status):
        if os.WSTOPSIG(status) in _JOB_STOPS:
            _stop_with(pid)
        return None
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _stop_with(pid: int) -> None:
    """The shell sees only the recorder: where the program alone has stopped, the job stops.

    After Ctrl-Z and ``fg`` both go on at once, and the program may be read as stopped a moment too long: look twice.
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
