"""What is known of the ends of processes from outside: from their parents' waits, and from the recorder's for the program.

A process cannot say how it was killed, with which status ``exit`` ends it, and what CPU time its end takes (the kernel frees
its memory after its last record). Its parent learns all three when it waits for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ....formats.trace.columns import Coded
from ..keyed.by_key import Ints, last_by_key
from ..survey.images import RECORDER, Flags, Images, sums
from ..survey.lives import Lives


@dataclass(frozen=True)
class RootEnd:
    """The program's end as the recorder has seen it: its pid, its exit status (128 + n for signal n), and what it and the
    children that it had waited for have used (ns; None = unknown)."""

    pid: int
    exit_status: int
    user_ns: int | None = None
    system_ns: int | None = None


@dataclass(frozen=True)
class SeenEnds:
    """A row for each process whose end was seen from outside. ``process``: its last image, distinct; ``t_ns``: when its
    parent learned of it (CLOCK_MONOTONIC); ``status``: 128 + n for signal n; ``killed``: by a signal; ``told``: it has
    written an end itself; ``used``: the next two are known; ``user_ns``, ``system_ns``: CPU time of that image;
    ``late_ns``: (n, 2), user and kernel time of it after the end that it has written itself; ``peak_rss_bytes``: where it
    is known, else 0; ``thread``: its main thread."""

    process: Ints
    t_ns: Ints
    status: Ints
    killed: Flags
    told: Flags
    used: Flags
    user_ns: Ints
    system_ns: Ints
    late_ns: Ints
    peak_rss_bytes: Ints
    thread: Ints

    def cpu_table(self, start_ns: int, lives: Lives) -> dict[str, Any]:
        """Rows of the ``cpu`` table for ``late_ns``, without a stack: the end of a process belongs to no line."""
        rows = np.flatnonzero(self.late_ns.any(axis=1))
        user_ns, system_ns = self.late_ns[rows].T
        no = np.zeros(len(rows), bool)
        nothing = np.ma.masked_array(np.zeros(len(rows), np.int32), mask=True)
        flags = ("eval_found", "vectorcall", "tp_call", "frame_setup", "has_python", "gc", "torn", "system_only")
        return {
            "t_ns": self.t_ns[rows] - start_ns,
            "process": self.process[rows].astype(np.int32),
            "thread": self.thread[rows].astype(np.int32),
            "user_ns": user_ns,
            "system_ns": system_ns,
            "clock_ns": lives.last_clock.of(self.thread[rows]) + user_ns + system_ns,
            "pc_class": Coded(np.zeros(len(rows), np.int32), ["unknown"]),
            **dict.fromkeys(("stack", "native"), nothing),
            "opcode": Coded(np.full(len(rows), -1, np.int32), []),
            **dict.fromkeys(flags, no),
            **{f"{which}_{what}": nothing for which in ("pc", "extension") for what in ("module", "offset")},
        }


def seen_ends(images: Images, lives: Lives, root_end: RootEnd | None, end_ns: int, counts_late: bool) -> SeenEnds:
    """The ends that were seen. ``end_ns``: the end of the recording (CLOCK_MONOTONIC); ``counts_late``: the CPU time of ends
    counts; it does not where the recording has paused, perhaps until such an end."""
    reaped, waiter = lives.reaped.records, images.life_of(lives.reaped.process.astype(np.int64))
    if root_end:
        reaped = np.concatenate([reaped, _of_root(root_end, reaped.dtype)])
        waiter = np.append(waiter, RECORDER)
    image = images.reaped(reaped, waiter)
    last = last_by_key(image[image >= 0], np.flatnonzero(image >= 0))
    at, rows = last.keys, last.values
    life, status = images.life[at], reaped["status"][rows].astype(np.int64)
    both = np.stack([reaped["user_ns"], reaped["system_ns"]], axis=1).astype(np.int64)
    unseen: Flags = np.any(both < 0, axis=1)
    own = both[rows] - sums(np.maximum(both, 0), waiter, len(images.process))[life] - images.earlier_ns(at)
    told, signal = images.has_end(at, "END_EXIT", "END_QUICK"), status & 127
    possible: Flags = np.all(own >= 0, axis=1) & ~images.has_end(at, "END_FILTER")
    used = possible & ~unseen[rows] & ~np.isin(life, waiter[unseen])
    late = np.maximum(own - images.end_ns(at), 0) * (used & told)[:, None] * counts_late
    return SeenEnds(
        process=images.process[at],
        t_ns=np.minimum(reaped["t_ns"][rows], end_ns),
        status=np.where(signal != 0, 128 + signal, status >> 8 & 255),
        killed=signal != 0,
        told=told,
        used=used,
        user_ns=own[:, 0],
        system_ns=own[:, 1],
        late_ns=late,
        # The parent learns the highest of the process and of the children that it has waited for.
        peak_rss_bytes=np.where(used & ~np.isin(life, waiter), reaped["peak_rss_bytes"][rows], 0),
        thread=images.thread[at],
    )


def _of_root(root_end: RootEnd, dtype: npt.DTypeLike) -> npt.NDArray[np.void]:
    row = np.zeros(1, dtype)
    status = root_end.exit_status
    row["pid"], row["t_ns"] = root_end.pid, np.iinfo(np.int64).max
    row["status"] = status - 128 if status > 128 else status << 8
    row["user_ns"] = -1 if root_end.user_ns is None else root_end.user_ns
    row["system_ns"] = -1 if root_end.system_ns is None else root_end.system_ns
    return row
