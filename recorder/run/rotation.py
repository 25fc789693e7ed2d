"""Rotation of a running recording: from time to time it is cut, and what was before the cut becomes a closed trace."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...formats.dataclass import dataclass, replace
from ..folder.facts import Facts
from ..folder.files import GPU_NAME, GPU_STRUCT, MARKS_NAME, RSS_NAME, RSS_STRUCT
from ..folder.marks import MarkFile
from ..folder.output import remove_recording
from ..rights.identity import Rights
from ..rotate.layout import label_folder, remove_older
from ..rotate.segments import Segment, State, copies_path, read_state, write_state
from ..rotate.turns import short_turns
from ..sampling.watcher import Watcher
from ..settings import Settings
from ..spool.drain import Drain

if TYPE_CHECKING:
    from ..convert.convert import Outcome
    from ..convert.finish import Finished

#: Records are published a few microseconds after their time was read.
_SETTLE_S = 0.02
#: Until a rotation that has failed is tried again, at least.
_RETRY_S = 5.0
_ROW_BYTES = {RSS_NAME: RSS_STRUCT.size, GPU_NAME: GPU_STRUCT.size, MARKS_NAME: 1}
#: Fields of the header that are settings of the trace.
_SETTINGS = ("cpu_interval_ns", "memory_threshold_bytes", "copy_threshold_bytes")


@dataclass(frozen=True)
class Recording:
    """What a rotation works on. ``folder``: prefix of the files of the recording; ``root``: the folder of all closed traces;
    ``header``: of the spool; ``losses``: gives the recorder's own counts by name; ``rights``: as in Outcome; ``alloc_interval``:
    gives the interval that holds, as text."""

    folder: Path
    root: Path
    facts: Facts
    header: Any
    drain: Drain
    watcher: Watcher | None
    marks: MarkFile
    losses: Callable[[], dict[str, int]]
    rights: Callable[[], Rights]
    alloc_interval: Callable[[], str]


class Rotation:
    """Rotates the recording of the program ``pid`` at the intervals of ``settings``. ``failures``: how often a trace could not be
    made; it is made later then. ``report`` is called with the first error of them, ``closed`` when a trace is in its place."""

    def __init__(
        self,
        recording: Recording,
        pid: int,
        settings: Settings,
        report: Callable[[Exception], None] = lambda _: None,
        closed: Callable[[], None] = lambda: None,
    ) -> None:
        assert settings.rotate_ns
        self.failures, self._report, self._closed = 0, report, closed
        self._recording, self._labels = recording, settings.labels
        self._every_s, self._keep_ns = settings.rotate_ns / 1e9, settings.keep_ns
        self._due_s = int(recording.header.start_mono_ns) / 1e9 + self._every_s
        self._thread: threading.Thread | None = None
        first = Segment(1, recording.facts.trace_id, start_real_ns=int(recording.header.start_real_ns))
        self._state = State(pid, first)
        with suppress(OSError):  # tried again at the first rotation
            write_state(recording.folder, self._state)

    def turn(self) -> None:
        """Begins a rotation when it is due. Call it often; it takes no time."""
        now_s = time.monotonic()
        if now_s < self._due_s or (self._thread and self._thread.is_alive()):
            return
        self._due_s += self._every_s
        if self._due_s <= now_s:  # the trace before took that long
            self._due_s = now_s + self._every_s
        self._thread = threading.Thread(target=self._rotate, name="rotation", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # cannot start a thread
            self._thread = None
            self._failed(error)

    def finish(self, outcome: Outcome) -> Finished:
        """Makes the traces that are left, when the recording has ended, and removes its files. ``outcome``: of the whole
        recording. Raises TraceError and OSError."""
        from ..rotate.publish import publish_closed, publish_last

        recording = self._recording
        self._read_state()
        publish_closed(recording.folder, recording.root, recording.facts, recording.rights)
        outcome = replace(outcome, losses=outcome.losses | {"rotations_failed": self.failures})
        finished = publish_last(recording.folder, recording.root, recording.facts, outcome)
        remove_recording(recording.folder, rotates=True)
        self._remove_older(finished)
        self._closed()
        return finished

    def stop(self) -> None:
        """Waits for the trace that is being made."""
        if self._thread:
            self._thread.join()

    def _rotate(self) -> None:
        from ..rotate.pieces import release_pieces  # these import numpy and pyarrow
        from ..rotate.publish import publish_closed

        recording = self._recording
        try:
            state = self._read_state()
            if state.closed is None:
                self._cut(state)
            with short_turns():
                finished = publish_closed(recording.folder, recording.root, recording.facts, recording.rights)
            release_pieces(recording.folder, self._state.open)
            self._remove_older(finished)
            self._closed()
        except Exception as error:  # the recording goes on; the next rotation, or the end, makes the trace
            self._failed(error)

    def _read_state(self) -> State:
        """What belongs to which trace. Where the file is gone (the folder was removed, which is a loss), what was known last is
        written again. Raises OSError."""
        folder = self._recording.folder
        if (state := read_state(folder)) is None:
            write_state(folder, self._state)
        return state or self._state

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        if self.failures == 1:
            with suppress(Exception):  # stderr may be closed
                self._report(error)
        self._due_s = max(self._due_s, time.monotonic() + _RETRY_S)

    def _cut(self, state: State) -> None:
        """Closes the segment that is open, and opens the next one. Raises OSError."""
        recording, before = self._recording, state.open
        known: dict[str, Any] = {}

        def begin() -> int:
            # What is appended, or counted, later than this belongs to the next segment.
            known["offsets"] = {name: _whole_bytes(recording.folder / name) for name in _ROW_BYTES}
            known["losses"] = [int(each) for each in recording.header.losses]
            known["counts"] = recording.losses()
            known["settings"] = self._settings()
            now_ns = time.monotonic_ns()
            known["start_real_ns"] = time.time_ns()
            known["start_ns"] = now_ns - int(recording.header.start_mono_ns)
            if recording.watcher:
                recording.watcher.cut()
            time.sleep(_SETTLE_S)
            return now_ns

        def commit(first_part: int, skipped: dict[int, int]) -> None:
            following = Segment(
                before.number + 1,
                os.urandom(16).hex(),
                before.trace_id,
                first_part=first_part,
                skipped=skipped,
                **known,
            )
            write_state(recording.folder, State(state.pid, following, before))
            self._state = State(state.pid, following)
            recording.marks.begin_anew()

        recording.drain.cut(copies_path(recording.folder, before.number), begin, commit)

    def _settings(self) -> dict[str, str]:
        found = {name: str(int(getattr(self._recording.header, name))) for name in _SETTINGS}
        return found | {"alloc_interval": self._recording.alloc_interval()}

    def _remove_older(self, finished: Finished | None) -> None:
        """Removes traces that are too old, but not the one that was just made: the clock may have jumped."""
        if self._keep_ns:
            folder, before_ns = label_folder(self._recording.root, self._labels), time.time_ns() - self._keep_ns
            with suppress(Exception):
                remove_older(folder, before_ns, finished.output if finished else None)


def _whole_bytes(path: Path) -> int:
    """The size of the rows in the file, 0 = there is none."""
    try:
        return path.stat().st_size // _ROW_BYTES[path.name] * _ROW_BYTES[path.name]
    except OSError:
        return 0
