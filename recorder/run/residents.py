"""Resident set sizes of the recorded processes, read while they live."""

from __future__ import annotations

import errno
import os
import resource
import time
from pathlib import Path

from ...formats.spool.layout import constants, ffi
from ..folder.contents import RSS_STRUCT, append_whole
from .space import SpoolSpace, own_pid_namespace

_C = constants()
_SLOT_BYTES = _C["SPOOL_SLOT_BYTES"]
#: A process begins its first chunk with its start record, or nearly so.
_HEAD_LINES = 16
_FIRST_INTERVAL_S = 0.1
_LAST_INTERVAL_S = 1.0
_MOST_PROCESSES = 128
_MOST_PIDS = 4096
#: Left to the rest of the recorder, which imports and writes meanwhile.
_SPARE_DESCRIPTORS = 16
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Residents:
    """Appends samples to the recording's RSS file: every 100 ms at first, every second in the end.

    New processes are seen by the start record near the head of the first chunk that each takes. ``left_out`` counts
    processes beyond the number that is watched at once, or that descriptors are there for, and those whose pid is one of
    another namespace.
    """

    def __init__(self, space: SpoolSpace, path: Path) -> None:
        self.left_out = 0
        self._space = space
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._pending: set[int] = set()
        self._statm: dict[int, tuple[int, int]] = {}  # pid → process id, descriptor of /proc/PID/statm
        self._pids: dict[int, int] = {}
        self._own_namespace = own_pid_namespace()
        self._due_s = time.monotonic()
        self._started_s = self._due_s

    def sample_if_due(self) -> None:
        """Reads all sizes if it is time to."""
        now_s = time.monotonic()
        if now_s < self._due_s:
            return
        interval_s = min(max((now_s - self._started_s) / 100, _FIRST_INTERVAL_S), _LAST_INTERVAL_S)
        self._due_s = now_s + interval_s
        t_ns = time.monotonic_ns() - int(self._space.header.start_mono_ns)
        rows = [RSS_STRUCT.pack(t_ns, *each) for each in self._read_all()]
        if not append_whole(self._file, b"".join(rows)):
            self._due_s = now_s + _LAST_INTERVAL_S  # disk full: events matter more

    def close(self) -> None:
        """Gives up every file."""
        for _, descriptor in self._statm.values():
            os.close(descriptor)
        self._statm.clear()
        os.close(self._file)

    def pids(self) -> dict[int, int]:
        """Pids of the processes that began, the last few thousand, each with the id of its last image. Other threads may
        ask."""
        return self._pids.copy()

    def notice(self, taken: list[int]) -> None:
        """Looks for processes that begin in one of the slots ``taken`` newly."""
        self._pending.update(taken)
        for slot in sorted(self._pending):
            self._look_at(slot)

    def _look_at(self, slot: int) -> None:
        """Looks for a start record among the first records of a chunk, again later if those are not written yet."""
        data = self._space.first_bytes(slot, _HEAD_LINES * _SLOT_BYTES)
        chunk = ffi().from_buffer("struct chunk_header *", data)
        process, line = int(chunk.process), 1
        while process and line < _HEAD_LINES:
            record = ffi().from_buffer("struct record_process_start *", data[line * _SLOT_BYTES :])
            kind, lines = record.head & 0xFFFF, record.head >> 16
            if kind == _C["RECORD_PROCESS_START"]:
                self._watch(int(record.pid), process, int(chunk.pid_namespace))
                break
            if kind == 0 or lines == 0:
                return
            line += lines
        if process:
            self._pending.discard(slot)

    def _watch(self, pid: int, process: int, namespace: int) -> None:
        if namespace not in (0, self._own_namespace):
            self.left_out += 1
            return
        self._pids[pid] = max(process, self._pids.pop(pid, 0))
        if len(self._pids) > _MOST_PIDS:
            del self._pids[next(iter(self._pids))]
        known = self._statm.get(pid)
        if known:  # exec: the same process, a new image
            self._statm[pid] = (max(process, known[0]), known[1])
            return
        if len(self._statm) >= _MOST_PROCESSES:
            self.left_out += 1
            return
        try:
            self._statm[pid] = (process, _open_sparing(f"/proc/{pid}/statm"))
        except OSError as error:  # it has ended, else
            self.left_out += error.errno in (errno.EMFILE, errno.ENFILE)

    def _read_all(self) -> list[tuple[int, int, int]]:
        """Process id, resident and shared bytes of every process that lives."""
        sizes = []
        for pid, (process, descriptor) in list(self._statm.items()):
            try:
                resident, shared = map(int, os.pread(descriptor, 128, 0).split()[1:3])
            except (OSError, ValueError):
                resident = shared = 0
            if resident:
                sizes.append((process, resident * _PAGE_BYTES, shared * _PAGE_BYTES))
            else:  # ended: its memory is gone
                os.close(descriptor)
                del self._statm[pid]
        return sizes


def _open_sparing(path: str) -> int:
    """A descriptor of the file; raises OSError, also where few would be left."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and descriptor + _SPARE_DESCRIPTORS >= limit:
        os.close(descriptor)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return descriptor
