"""Which recorded processes still run: daemons that live on after the program."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .keyed.by_key import Ints
from .survey.images import Images

_NS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
#: A process begins to be recorded at most so long after its start: the loader runs before the shim, perhaps on a busy
#: machine.
_LATEST_NS = 10_000_000_000
_DEAD = frozenset("ZXx")


def running_images(images: Images, still_runs: Callable[[int, int], bool]) -> Ints:
    """Process ids of the images that run now, among those that have written no end. ``still_runs``: :func:`still_runs`.
    Processes of other pid namespaces than ours are not found."""
    rows = images.last()
    rows = rows[(images.namespace[rows] == 0) | (images.namespace[rows] == own_namespace())]
    rows = rows[~images.has_end(rows, "END_EXIT", "END_QUICK", "END_EXEC", "END_FILTER")]
    found = [row for row in rows.tolist() if still_runs(int(images.pid[row]), int(images.t_ns[images.life[row]]))]
    return images.process[np.array(found, np.int64)]


def own_namespace() -> int:
    """The number of our pid namespace, as start records have it; -1 = unknown."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino & 0xFFFFFFFF
    except OSError:
        return -1


def started_ns(ticks: int) -> int:
    """The start time in a /proc/PID/stat, as CLOCK_MONOTONIC."""
    to_boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return ticks * _NS_PER_TICK - to_boot_ns


def still_runs(pid: int, begun_ns: int) -> bool:
    """Does the process still run that began to be recorded at that time (CLOCK_MONOTONIC) under this pid? Another one may
    have its pid since."""
    return _state(pid, begun_ns) not in _DEAD | {""}


def still_there(pid: int, begun_ns: int) -> bool:
    """The same, also of a process that has ended and that nobody has waited for."""
    return _state(pid, begun_ns) != ""


def _state(pid: int, begun_ns: int) -> str:
    """The state of that process as the kernel writes it, "" = it is not there any more."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        state, *fields = text.rpartition(")")[2].split()
        recorded_after_ns = begun_ns - started_ns(int(fields[18]))
    except (OSError, ValueError, IndexError):
        return ""
    return state if -2 * _NS_PER_TICK <= recorded_after_ns <= _LATEST_NS else ""
