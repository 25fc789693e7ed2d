"""What is known of the ends of processes from outside: from their parents' waits, and from the recorder's for the program.

A process cannot say how it was killed, with which status ``exit`` ends it, and what CPU time its end takes (the kernel frees
its memory after its last record). Its parent learns all three when it waits for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ....formats.dataclass import dataclass
from ....formats.trace.columns import Coded, Masked
from ..keyed.by_key import Ints, last_by_key
from ..survey.images import Flags, Images
from ..survey.lives import Lives

#: Longer times do not occur.
_LONGEST_NS = 2**60
Records = npt.NDArray[np.void]


@dataclass(frozen=True)
class RootEnd:
    """The program's end as the recorder has seen it: its pid, its exit status (128 + n for signal n), whether a signal has
    killed it, and what it and the children that it had waited for have used (ns; -1 = unknown)."""

    pid: int
    exit_status: int
    killed: bool = False
    user_ns: int = -1
    system_ns: int = -1


@dataclass(frozen=True)
class SeenEnds:
    """A row for each process whose end was seen from outside. ``process``: its last image, distinct; ``t_ns``
    (CLOCK_MONOTONIC): its own end record's time, or when its parent learned of the end; ``status``: 128 + n for signal n;
    ``killed``: by a signal; ``told``: it has written an end itself; ``end_ns``, ``late_ns``: (n, 2), user and kernel time in
    that record, and after it; ``peak_rss_bytes``: where it is known from outside, else 0; ``thread``: its main thread."""

    process: Ints
    t_ns: Ints
    status: Ints
    killed: Flags
    told: Flags
    end_ns: Ints
    late_ns: Ints
    peak_rss_bytes: Ints
    thread: Ints

    def cpu_table(self, start_ns: int, lives: Lives) -> dict[str, Any]:
        """Rows of the ``cpu`` table for ``late_ns``, without a stack: the end of a process belongs to no line."""
        rows = np.flatnonzero(self.late_ns.any(axis=1))
        user_ns, system_ns = self.late_ns[rows].T
        no = np.zeros(len(rows), bool)
        nothing = Masked(np.zeros(len(rows), np.int32), np.ones(len(rows), bool))
        of_stack = ("eval_found", "vectorcall", "tp_call", "frame_setup", "type_call")
        flags = (*of_stack, "has_python", "gc", "torn", "system_only")
        return {
            "t_ns": np.maximum(self.t_ns[rows] - start_ns, 0),
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
    reaped, waiter = lives.reaped.records, images.row_of(lives.reaped.process.astype(np.int64))
    image = np.where(reaped["pid"] > 0, images.reaped(reaped, waiter), -1)
    if root_end:
        reaped = np.concatenate([reaped, _of_root(root_end, reaped.dtype)])
        waiter, image = np.append(waiter, -1), np.append(image, images.root(root_end.pid))
    of_images = np.flatnonzero(image >= 0)
    at, first = np.unique(image[of_images], return_index=True)  # a later child with the pid may be unrecorded
    rows = of_images[first]
    status = reaped["status"][rows].astype(np.int64)
    told, signal = images.has_end(at, "END_EXIT", "END_QUICK"), status & 127
    is_parent = np.isin(images.life[at], images.life[waiter[(waiter >= 0) & (reaped["pid"] > 0)]])
    return SeenEnds(
        process=images.process[at],
        t_ns=np.where(told, images.ended_at(at), np.minimum(reaped["t_ns"][rows], end_ns)),
        status=np.where(signal != 0, 128 + signal, status >> 8 & 255),
        killed=signal != 0,
        told=told,
        end_ns=images.end_ns(at),
        late_ns=_late_ns(at, reaped, rows, waiter) * (told & counts_late)[:, None],
        # The parent learns the highest of the process and of the children that it has waited for.
        peak_rss_bytes=np.where(told | is_parent, 0, reaped["peak_rss_bytes"][rows]),
        thread=images.thread[at],
    )


def _late_ns(at: Ints, reaped: Records, rows: Ints, waiter: Ints) -> Ints:
    """User and kernel time (n, 2) that the images ``at`` have used after what they have said of themselves, according to the
    records ``rows`` of their parents; 0 where one of both is unknown."""
    used = np.stack([reaped["user_ns"], reaped["system_ns"]], axis=1).astype(np.int64)
    of_self = np.flatnonzero((reaped["pid"] == 0) & (waiter >= 0))
    said = last_by_key(waiter[of_self], of_self)
    own = said.of(at, -1)
    known = (own >= 0) & (used[rows] >= 0).all(axis=1) & (used[rows] < _LONGEST_NS).all(axis=1)
    late = np.maximum(used[rows] - used[np.maximum(own, 0)], 0) if len(used) else used[rows]
    found: Ints = np.where(known[:, None], late, 0)
    return found


def _of_root(root_end: RootEnd, dtype: npt.DTypeLike) -> Records:
    row = np.zeros(1, dtype)
    row["pid"], row["t_ns"] = root_end.pid, np.iinfo(np.int64).max
    row["status"] = root_end.exit_status - 128 if root_end.killed else root_end.exit_status << 8
    row["user_ns"], row["system_ns"], row["peak_rss_bytes"] = root_end.user_ns, root_end.system_ns, -1
    return row
