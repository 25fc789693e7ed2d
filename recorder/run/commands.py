"""The commands that a running recording accepts: pause, resume, mark, marks, end, source, set, snapshot, status.

The samplers read the spool's header, which is shared memory: a value that is written there takes effect at each thread's
next tick or observation, without a signal. Every change is also appended to the recording's marks for the analysis.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...formats.dataclass import dataclass
from ...formats.spool.chunks import CHUNK_BYTES
from ...formats.spool.layout import constants
from ...formats.trace.text import LONGEST_MARK
from ..control.pauses import Pauses
from ..control.server import Answer, Reply
from ..errors import RecordError, UsageError
from ..folder.marks import MarkFile
from ..option_values import alloc_interval_bytes, interval_ns, threshold_bytes
from ..spool.spool_file import SpoolFile, alloc_control, alloc_text

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ..convert.finish import Finished

_C = constants()

#: What ``set`` can change: the parser of its text, the header's field, and the feature that must be recorded.
_SETTABLE: dict[str, tuple[Callable[[str, str], int | None], str, str]] = {
    "cpu-interval": (interval_ns, "cpu_interval_ns", "cpu"),
    "memory-threshold": (threshold_bytes, "memory_threshold_bytes", "memory"),
    "alloc-interval": (alloc_interval_bytes, "alloc_control", "memory"),
    "copy-threshold": (threshold_bytes, "copy_threshold_bytes", "copy"),
}


@dataclass(frozen=True)
class Target:
    """The recording that commands work on. ``snapshot``: requests a trace of everything so far."""

    space: SpoolFile
    marks: MarkFile
    pauses: Pauses
    output: Path
    pid: int
    snapshot: Callable[[], Future[Finished]]


class Commands:
    """Carries out the commands on one recording; requests come from one thread."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._header = target.space.header
        self._lock = threading.Lock()
        self._commands: dict[str, Callable[[Mapping[str, Any], int], Answer]] = {
            "pause": partial(self._pause, True),
            "resume": partial(self._pause, False),
            "mark": self._mark,
            "marks": self._marks,
            "end": self._end,
            "source": self._source,
            "set": self._set,
            "status": self._status,
        }

    def handle(self, request: Mapping[str, Any], pid: int, reply: Reply) -> None:
        """Carries out ``request`` of process ``pid`` and passes the answer to ``reply``: {"ok": true, …} or {"error":
        sentences}."""
        command = request.get("command")
        if command == "snapshot":
            self._target.snapshot().add_done_callback(lambda future: reply(_snapshot_answer(future)))
            return
        carry_out = self._commands.get(command) if isinstance(command, str) else None
        if carry_out is None:
            reply({"error": f"Unknown command {str(command)[:40]!r}."})
            return
        try:
            with self._lock:
                reply({"ok": True} | carry_out(request, pid))
        except RecordError as error:
            reply({"error": str(error)})

    def now_ns(self) -> int:
        """Nanoseconds from the start of the recording."""
        return time.monotonic_ns() - int(self._header.start_mono_ns)

    def _pause(self, is_paused: bool, request: Mapping[str, Any], pid: int) -> Answer:
        """With ``hold``, a process resumes the recording, if it is paused, until it takes that back by a pause with ``hold``, or
        ends: it is paused when the last one does. ``held``: such processes keep it on, this one among them."""
        pauses = self._target.pauses
        if request.get("hold") is not True:  # an explicit command replaces what processes have asked for
            changed = pauses.pause() if is_paused else pauses.resume()
            if not is_paused and pauses.cannot_resume():
                raise UsageError(
                    "The recording cannot be resumed yet: there are too many pauses and marks, or the disk is full."
                )
            state = {"paused": (cause := pauses.cause()) is not None, "cause": cause or "", "kept": pauses.is_kept()}
            return {"changed": changed} | state
        if is_paused:
            return {"changed": pauses.leave(pid), "held": False}
        changed, is_held = pauses.hold(pid)
        return {"changed": changed, "held": is_held}

    def _mark(self, request: Mapping[str, Any], pid: int) -> Answer:
        text = str(request.get("text", ""))[:LONGEST_MARK]
        whose = {"id": request["id"], "pid": _own_pid(request, pid)} if type(request.get("id")) is int else {}
        if not self._target.marks.add("mark", self._time_of(request), text=text, **whose):
            raise UsageError("The mark could not be stored: there are too many marks, or the disk is full.")
        return {}

    def _end(self, request: Mapping[str, Any], pid: int) -> Answer:
        if type(request.get("id")) is not int:
            raise UsageError("The command end needs the id of its mark.")
        self._target.marks.add("end", self._time_of(request), id=request["id"], pid=_own_pid(request, pid))
        return {}

    def _marks(self, request: Mapping[str, Any], pid: int) -> Answer:
        """``marks``: text, begin and end of blocks that have ended."""
        marks = request.get("marks")
        if not isinstance(marks, list) or not all(isinstance(each, list) and len(each) == 3 for each in marks):
            raise UsageError("The command marks needs a list of [text, t_ns, end_ns].")
        whose = _own_pid(request, pid)
        for text, begin_ns, end_ns in marks:
            times = {"t_ns": self._moment(begin_ns), "end_ns": self._moment(end_ns)}
            if not self._target.marks.add("mark", text=str(text)[:LONGEST_MARK], pid=whose, **times):
                raise UsageError("A mark could not be stored: there are too many marks, or the disk is full.")
        return {}

    def _source(self, request: Mapping[str, Any], pid: int) -> Answer:
        """``file``, ``title``, ``text``: of code that the program has compiled from no file."""
        told = {name: str(request.get(name, "")) for name in ("file", "title", "text")}
        if not self._target.marks.add("source", self.now_ns(), **told):
            raise UsageError("The source could not be stored: there are too many marks, or the disk is full.")
        return {}

    def _time_of(self, request: Mapping[str, Any]) -> int:
        """The time of the request in nanoseconds from the start. The program reads the same clock as the recorder; an
        impossible time is moved to the nearest possible one."""
        return self._moment(request.get("t_ns"))

    def _moment(self, given: object) -> int:
        now_ns = self.now_ns()
        if type(given) is not int:
            return now_ns
        return min(max(given - int(self._header.start_mono_ns), 0), now_ns)

    def _set(self, request: Mapping[str, Any], pid: int) -> Answer:
        values = request.get("values")
        if not isinstance(values, dict) or not values:
            raise UsageError("Name a setting and its value, for example cpu-interval=1ms.")
        read = {name: self._read(name, str(text)) for name, text in values.items()}
        for name, (field, number) in read.items():
            setattr(self._header, field, number)
            self._target.marks.add("set", self.now_ns(), text=f"{name}={values[name]}")
        return {"settings": self._settings()}

    def _read(self, name: str, text: str) -> tuple[str, int]:
        if name not in _SETTABLE:
            raise UsageError(f"{name} cannot be set while recording. These can: {', '.join(_SETTABLE)}.")
        parse, field, feature = _SETTABLE[name]
        if not int(self._header.features) & _C[f"FEATURE_{feature.upper()}"]:
            raise UsageError(f"{name} cannot be set: the recording was started with --no-{feature}.")
        number = parse(name, text)
        return field, alloc_control(number) if field == "alloc_control" else int(number or 0)

    def _settings(self) -> dict[str, str]:
        header = self._header
        return {
            "cpu-interval": f"{int(header.cpu_interval_ns) / 1e6:g}ms",
            "memory-threshold": str(header.memory_threshold_bytes),
            "alloc-interval": alloc_text(header),
            "copy-threshold": str(header.copy_threshold_bytes),
        }

    def _status(self, request: Mapping[str, Any], pid: int) -> Answer:
        header = self._header
        return {
            "output": str(self._target.output),
            "pid": self._target.pid,
            "recorder_pid": os.getpid(),
            "recorded_s": self.now_ns() / 1e9,
            "paused_s": self._target.pauses.paused_ns() / 1e9,
            "paused": bool(header.paused),
            "paused_by": self._target.pauses.cause() or "",
            "processes": int(header.processes),
            "threads": int(header.threads),
            "spool_bytes": int(header.chunks_used) * CHUNK_BYTES,
            "settings": self._settings(),
        }


def _own_pid(request: Mapping[str, Any], pid: int) -> int:
    """The pid of the process in its own pid namespace, as its records have it, if the request says it; else the recorder's
    number for it."""
    said = request.get("pid")
    return said if type(said) is int and 0 < said < 2**31 else pid


def _snapshot_answer(future: Future[Finished]) -> Answer:
    if future.cancelled():
        return {"error": "The program has ended; its trace is being written."}
    error = future.exception()
    if error is not None:
        return {"error": str(error) or repr(error)}
    finished = future.result()
    return {"ok": True, "output": str(finished.output), "events": finished.events, "size_bytes": finished.size_bytes}
