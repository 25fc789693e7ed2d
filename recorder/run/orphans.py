"""Reaps orphans where they are given to the recorder: it is PID 1 of a container, or was made a subreaper before its exec.

Without the recorder, the program would be PID 1 and could wait for them itself. Recorded, it is a child of PID 1, as below
any other init.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

_PR_GET_CHILD_SUBREAPER = 37
#: Orphans that are reaped at once at most: between two calls, the recorder keeps the spool ahead of the program.
_MOST_AT_ONCE = 1000


def adopts_orphans() -> bool:
    """Does the kernel make this process the parent of processes whose own parent has ended?"""
    if os.getpid() == 1:
        return True
    is_subreaper = ctypes.c_int(0)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(is_subreaper), 0, 0, 0)
    return is_subreaper.value != 0


def reap_orphans(program: int) -> None:
    """Reaps the children that have ended, except ``program``, whose status is read elsewhere. All others are orphans, or
    processes that read mangled names, whose status nobody needs."""
    with suppress(ChildProcessError):
        for _ in range(_MOST_AT_ONCE):
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None or ended.si_pid == program:
                return
            os.waitpid(ended.si_pid, os.WNOHANG)
