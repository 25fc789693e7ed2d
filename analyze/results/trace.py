"""Results about a trace itself: its samplers and losses, its processes, and the marks that the user set."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .base import Table, table_json, to_json


@dataclass(frozen=True)
class Loss:
    """Something that was not recorded. ``severity``: info, loss or error; ``text``: one sentence about it."""

    name: str
    severity: str
    count: int
    text: str


#: Losses of all Python stacks of a process.
_WITHOUT_STACKS = ("unknown_python", "stacks_off", "python_second", "python_namespace", "python_unseen")


@dataclass(frozen=True)
class TraceInfo:
    """One trace. ``events``: number of samples by sampler; None means that the sampler was off or did not exist yet.
    ``paused_s``: how much of ``wall_s`` the recording was paused, so that figures are of the rest. ``exit_status``: the
    program's, 128 + n for signal n; None = it ran on, or that is unknown."""

    path: str
    trace_id: str
    format_version: str
    started_at: str | None
    wall_s: float | None
    command: list[str] | None
    python: str | None
    processes: int
    threads: int
    events: dict[str, int | None]
    losses: list[Loss]
    paused_s: float = 0.0
    exit_status: int | None = None

    @property
    def recorded_s(self) -> float | None:
        """How long it was recorded; None = unknown."""
        return None if self.wall_s is None else max(self.wall_s - self.paused_s, 0.0)

    @property
    def lacks_stacks(self) -> bool:
        """Whether an interpreter was recorded without Python stacks, so that Python code may be what has none."""
        return any(loss.name in _WITHOUT_STACKS for loss in self.losses)


@dataclass(frozen=True)
class ProcessInfo:
    """A process image; an exec starts a new one. ``cpu_s`` is exact, its three parts are sampled; ``last_rss_bytes``: the
    resident set when the recorder last observed it.

    ``depth``: 0 for the root, 1 for its children, and so on. ``peak_bytes``: highest footprint, including memory inherited
    by fork.
    """

    trace: int
    process: int
    pid: int | None
    parent: int | None
    cause: str | None
    command: list[str] | None
    executable: str | None
    python: str | None
    start_s: float | None
    end_s: float | None
    end: str | None
    exit_status: int | None
    threads: int
    ticks: int
    cpu_s: float
    peak_rss_bytes: int | None
    depth: int
    python_s: float | None
    native_s: float | None
    system_s: float | None
    growth_bytes: int | None
    peak_bytes: int | None
    unclassified_s: float | None = None
    last_rss_bytes: int | None = None


@dataclass(frozen=True)
class MarkInfo:
    """A mark, pause or setting that the user gave while recording.

    ``what``: mark, pause or set. ``end_s``: None for a single moment, or if the end was not recorded. ``pid``: the process
    of the program that set it; None = set from outside of the program.
    """

    trace: int
    what: str
    text: str
    t_s: float
    end_s: float | None
    pid: int | None


@dataclass(frozen=True)
class Info(Table):
    """The metadata of traces, with processes as rows and the user's marks."""

    marks: list[MarkInfo] = field(default_factory=list)


def info_json(info: Info) -> dict[str, Any]:
    """The document of ``scalene-analyze info --json``."""
    return table_json(info) | {"marks": to_json(info.marks)}
