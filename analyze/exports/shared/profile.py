"""Reads profiles for exports: full stacks with values, which are integers that add up to the report's totals.

Stacks hold all frames, including library code. Below the Python frames are the native functions, from the one that Python
called to the one that ran; then a frame for the kernel or for the reason of a wait. In traces without native stacks, there is
one frame for the function of a library.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ....formats.fleet.schema import OTHER_STACKS
from ...results.report import WAIT_WORDS
from ...results.trace import TraceInfo
from ...trace import queries
from ...trace.info import settings, trace_info
from ...trace.native import NO_FILE, NativeFrames
from ...trace.selection import Selection
from ...trace.traces import REPORT_TABLES, open_traces
from .text import plain

if TYPE_CHECKING:
    from ...trace.connection import Connection

#: Views that are computed once for each trace, because each metric is read by a separate query.
TABLES = REPORT_TABLES | {"charged_ticks"}


@dataclass(frozen=True)
class Metric:
    """A metric of stacks. ``unit``: nanoseconds or bytes; ``event``: the sampler that has to be on."""

    name: str
    title: str
    unit: str
    event: str

    @property
    def scale(self) -> float:
        """The factor from the query's values (seconds or bytes) to ``unit``."""
        return 1e9 if self.unit == "nanoseconds" else 1.0


#: Every metric by its name on the command line.
METRICS = {
    each.name: each
    for each in (
        Metric("cpu", "CPU time", "nanoseconds", "cpu"),
        Metric("wait", "waiting time", "nanoseconds", "wait"),
        Metric("allocated", "allocated", "bytes", "alloc"),
        Metric("live-at-peak", "alive at the peak", "bytes", "alloc"),
        Metric("copies", "copied", "bytes", "copy"),
    )
}

#: The latest moment in nanoseconds since 1970 that 63 bits hold (in 2262).
_LATEST_NS = 2**63 - 1
#: The frame of samples without a Python stack.
NO_STACK = "[no Python stack]"
TRUNCATED = "[outer frames not recorded]"
_PARTS = {
    "system": "[kernel]",
    "unclassified": "[Python or native]",
    **{name: f"[{word}]" for name, word in WAIT_WORDS.items()},
}
#: By the texts of the frames in stacks of CPU time that are no functions: what part of it they say a stack ends in; None = none.
NOTES: dict[str, str | None] = {NO_STACK: None, TRUNCATED: None, OTHER_STACKS: "unclassified"}
NOTES |= {_PARTS[part]: part for part in ("system", "unclassified")}


class Frame(NamedTuple):
    """A frame. ``kind``: python, native, or note (the kernel, a wait, or missing frames). Lines: 0 = none."""

    function: str
    file: str
    first_line: int
    line: int
    kind: str


class Value(NamedTuple):
    """The value of a stack in the metric's unit. ``stack``: index into ``Profile.stacks.stacks``; ``t_ns``: 0 in sums."""

    trace: int
    t_ns: int
    process: int
    thread: int
    stack: int
    part: str | None
    value: int


@dataclass
class Stacks:
    """Frames, and stacks as indices of frames from the outermost; each is stored once for all traces."""

    frames: list[Frame] = field(default_factory=list)
    stacks: list[tuple[int, ...]] = field(default_factory=list)
    _frame_ids: dict[Frame, int] = field(default_factory=dict)
    _stack_ids: dict[tuple[int, ...], int] = field(default_factory=dict)

    def frame(self, frame: Frame) -> int:
        """The index of ``frame``."""
        if frame not in self._frame_ids:
            self._frame_ids[frame] = len(self.frames)
            self.frames.append(frame)
        return self._frame_ids[frame]

    def stack(self, frames: tuple[int, ...]) -> int:
        """The index of the stack of these frames."""
        if frames not in self._stack_ids:
            self._stack_ids[frames] = len(self.stacks)
            self.stacks.append(frames)
        return self._stack_ids[frames]

    def of(self, stack: int) -> list[Frame]:
        """The frames of the stack at this index, outermost first."""
        return [self.frames[index] for index in self.stacks[stack]]


class TraceStacks:
    """The stacks of one opened trace by the trace's own ids."""

    def __init__(self, connection: Connection, stacks: Stacks) -> None:
        self._stacks = stacks
        self._locations = {
            id_: Frame(plain(function or "?"), plain(file or "?"), first_line or 0, line or 0, "python")
            for id_, function, file, first_line, line in queries.run(connection, "location_list")
        }
        rows = queries.run(connection, "stack_list")
        self._whole = {stack: (truncated, locations or []) for stack, truncated, locations in rows}
        self._native = NativeFrames(connection)
        self._known: dict[tuple[object, ...], int] = {}

    def index(
        self,
        stack: int | None,
        part: str | None = None,
        library: str | None = None,
        symbol: str | None = None,
        native: int | None = None,
    ) -> int:
        """The index of a stack together with the frames below it: ``native`` is the innermost native function. Without it
        see :func:`frames_below`."""
        key = (stack, part, library, symbol, native)
        if key not in self._known:
            called = [native_frame(name, library) for name, library in self._native.called(native)]
            below = frames_below(part, library, symbol) if part != "native" or not called else []
            frames = [*self._python(stack), *called, *below]
            self._known[key] = self._stacks.stack(tuple(self._stacks.frame(frame) for frame in frames))
        return self._known[key]

    def _python(self, stack: int | None) -> list[Frame]:
        if stack not in self._whole:
            return [note(NO_STACK)]
        truncated, locations = self._whole[stack]
        frames = [self._locations[id_] for id_ in reversed(locations) if id_ in self._locations]
        return ([note(TRUNCATED)] if truncated else []) + frames or [note(NO_STACK)]


def note(text: str) -> Frame:
    """A frame that is no function."""
    return Frame(text, "", 0, 0, "note")


def native_frame(name: str, library: str) -> Frame:
    """The frame of a native function."""
    return Frame(plain(name), plain(library), 0, 0, "native")


def frames_below(part: str | None, library: str | None, symbol: str | None) -> list[Frame]:
    """The frames below those of functions: of the library that was running where no native stack is known, or of the kernel
    or the reason of a wait."""
    if part == "native":
        library = library or NO_FILE
        return [native_frame(symbol or library, library)]
    return [note(_PARTS[part])] if part in _PARTS else []


class Rounder:
    """Rounds a series of fractions to integers whose sum stays within 1 of the sum of the fractions."""

    def __init__(self, scale: float) -> None:
        self._scale, self._sum, self._given = scale, 0.0, 0

    def round(self, value: float) -> int:
        """The integer for the next ``value``, multiplied by the scale; the rounding error is carried over to the next one."""
        self._sum += value * self._scale
        given = round(self._sum) - self._given
        self._given += given
        return given


@dataclass(frozen=True)
class Profile:
    """The selected samples of all traces. ``values`` by metric: sums by thread and stack, or samples in order of time;
    ``settings``: those of each trace, by name; ``thread_names`` by trace and thread, ``pids`` by trace and process, ``tids``
    by trace and thread: those that are known."""

    traces: list[TraceInfo]
    stacks: Stacks
    values: dict[str, list[Value]]
    thread_names: dict[tuple[int, int], str] = field(default_factory=dict)
    settings: list[dict[str, str]] = field(default_factory=list)
    pids: dict[tuple[int, int], int] = field(default_factory=dict)
    tids: dict[tuple[int, int], int] = field(default_factory=dict)


def read_profile(
    paths: Sequence[Path], selection: Selection, metrics: Iterable[str] | None = None, by_time: bool = False
) -> Profile:
    """Reads ``metrics`` (names; None = all that were recorded) of the traces at ``paths``.

    ``by_time``: single samples in order of time instead of sums. Raises the errors of :func:`open_traces`.
    """
    profile = Profile([], Stacks(), {})
    rounders = {name: Rounder(metric.scale) for name, metric in METRICS.items()}
    for index, path in enumerate(paths, start=1):
        with open_traces([path], selection, TABLES) as traces:
            profile.traces.append(trace_info(traces))
            profile.settings.append(settings(traces.connection))
            stacks = TraceStacks(traces.connection, profile.stacks)
            names = queries.run(traces.connection, "thread_names")
            profile.thread_names.update({(index, thread): plain(name) for thread, name in names})
            profile.pids.update(_known(traces.connection, index, "SELECT process, pid FROM processes"))
            profile.tids.update(_known(traces.connection, index, "SELECT thread, tid FROM threads"))
            for name in recorded(profile.traces[-1]) if metrics is None else metrics:
                values = trace_values(traces.connection, name, stacks, index, rounders[name], by_time)
                profile.values.setdefault(name, []).extend(values)
    return profile


def _known(connection: Connection, trace: int, sql: str) -> dict[tuple[int, int], int]:
    """The numbers that the kernel gave, by trace and id; the lowest where the rows of an id have several."""
    rows = connection.execute(f"{sql} ORDER BY ALL DESC").fetchall()
    return {(trace, id_): given for id_, given in rows if id_ is not None and given is not None}


def recorded(info: TraceInfo) -> list[str]:
    """The names of the metrics whose sampler was on."""
    return [name for name, metric in METRICS.items() if info.events[metric.event] is not None]


def trace_values(
    connection: Connection, metric: str, stacks: TraceStacks, trace: int, rounder: Rounder, by_time: bool
) -> Iterator[Value]:
    """The values of a metric in the one opened trace, which gets the number ``trace``; ``rounder`` makes them integers."""
    query = "metric_events" if by_time else "metric_sums"
    rows = queries.run(connection, query, metric=metric)
    for *moment, process, thread, stack, part, library, symbol, native, value in rows:
        index = stacks.index(stack, part, library, symbol, native)
        t_ns = moment[0] if moment else 0
        yield Value(trace, t_ns, process or 0, thread or 0, index, part, rounder.round(value))


def title(profile: Profile) -> str:
    """The command of the first trace, or its file's name."""
    first = profile.traces[0]
    return plain(" ".join(first.command or [first.path]))


def started_ns(info: TraceInfo) -> int:
    """When the recording began, in nanoseconds since 1970; 0 if the trace does not say it."""
    try:
        moment_us = round(datetime.fromisoformat(info.started_at or "").timestamp() * 1e6)
    except (ValueError, OverflowError):
        return 0
    return min(max(moment_us * 1000, 0), _LATEST_NS)


def losses_text(info: TraceInfo) -> list[str]:
    """The losses of a trace, each as a text."""
    return [plain(f"{loss.severity}: {loss.name} x{loss.count}: {loss.text}") for loss in info.losses]
