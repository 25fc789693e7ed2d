"""Samples the resident set sizes of the recorded processes from /proc while they run."""

from __future__ import annotations

import errno
import os
import resource
import time
from collections import deque
from pathlib import Path

from ...formats.spool.chunks import SLOT_BYTES
from ...formats.spool.layout import constants, ffi
from ..folder.files import RSS_STRUCT, append_whole
from ..spool.pid_namespaces import own_pid_namespace
from ..spool.spool_file import SpoolFile

_C = constants()
#: A process writes its start record within the first slots of its first chunk.
_HEAD_SLOTS = 16
_FIRST_INTERVAL_S = 0.1
_LAST_INTERVAL_S = 1.0
_MOST_PROCESSES = 128
_MOST_PIDS = 4096
#: Descriptors that are left to the rest of the recorder, which imports modules and writes files at the same time.
_SPARE_DESCRIPTORS = 16
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class RssSampler:
    """Appends samples to the recording's RSS file: every 100 ms at first, and up to every second in a long recording.

    A new process is noticed by the start record near the beginning of its first chunk. ``left_out`` counts processes that
    are not sampled: too many at once, no descriptors, or a pid of another namespace.
    """

    def __init__(self, space: SpoolFile, path: Path) -> None:
        self.left_out = 0
        self._space = space
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._pending: set[int] = set()
        self._statm: dict[int, tuple[int, int]] = {}  # pid → process id, descriptor of /proc/PID/statm
        self._pids: dict[int, int] = {}
        self._started: deque[int] = deque(maxlen=_MOST_PIDS)
        self._own_namespace = own_pid_namespace()
        self._due_s = time.monotonic()
        self._started_s = self._due_s

    def sample_if_due(self) -> None:
        """Reads all sizes if the next sample is due."""
        now_s = time.monotonic()
        if now_s < self._due_s:
            return
        interval_s = min(max((now_s - self._started_s) / 100, _FIRST_INTERVAL_S), _LAST_INTERVAL_S)
        self._due_s = now_s + interval_s
        t_ns = time.monotonic_ns() - int(self._space.header.start_mono_ns)
        rows = [RSS_STRUCT.pack(t_ns, *each) for each in self._read_all()]
        if not append_whole(self._file, b"".join(rows)):
            self._due_s = now_s + _LAST_INTERVAL_S  # the disk is full: leave what frees up to the events

    def close(self) -> None:
        """Closes all files."""
        for _, descriptor in self._statm.values():
            os.close(descriptor)
        self._statm.clear()
        os.close(self._file)

    def pids(self) -> dict[int, int]:
        """The pids of the last few thousand processes that started, each with the id of its last image. May be called in
        any thread."""
        return self._pids.copy()

    def started(self) -> list[int]:
        """The pids of the processes that were noticed since the last call."""
        found = list(self._started)
        self._started.clear()
        return found

    def notice(self, taken: list[int]) -> None:
        """Finds processes that start in one of the chunks ``taken``, which were taken since the last call."""
        self._pending.update(taken)
        for chunk in sorted(self._pending):
            self._find_start(chunk)

    def _find_start(self, chunk: int) -> None:
        """Searches the first records of a chunk for a start record, again later if they are not written yet."""
        data = self._space.first_bytes(chunk, _HEAD_SLOTS * SLOT_BYTES)
        header = ffi().from_buffer("struct chunk_header *", data)
        process, slot = int(header.process), 1
        while process and slot < _HEAD_SLOTS:
            record = ffi().from_buffer("struct record_process_start *", data[slot * SLOT_BYTES :])
            kind, slots = record.head & 0xFFFF, record.head >> 16
            if kind == _C["RECORD_PROCESS_START"] and record.cause not in (
                _C["START_OF_PYTHON"],
                _C["START_OF_MEMORY"],
            ):
                self._watch(int(record.pid), process, int(header.pid_namespace))
                break
            if kind == 0 or slots == 0:
                return
            slot += slots
        if process:
            self._pending.discard(chunk)

    def _watch(self, pid: int, process: int, namespace: int) -> None:
        if namespace not in (0, self._own_namespace):
            self.left_out += 1
            return
        self._pids[pid] = max(process, self._pids.pop(pid, 0))
        self._started.append(pid)
        if len(self._pids) > _MOST_PIDS:
            del self._pids[next(iter(self._pids))]
        known = self._statm.get(pid)
        if known:  # after exec it is the same process with a new image
            self._statm[pid] = (max(process, known[0]), known[1])
            return
        if len(self._statm) >= _MOST_PROCESSES:
            self.left_out += 1
            return
        try:
            self._statm[pid] = (process, _open_sparing(f"/proc/{pid}/statm"))
        except OSError as error:  # any other error means that it has ended
            self.left_out += error.errno in (errno.EMFILE, errno.ENFILE)

    def _read_all(self) -> list[tuple[int, int, int]]:
        """Process id, resident bytes and shared bytes of every process that is alive."""
        sizes = []
        for pid, (process, descriptor) in list(self._statm.items()):
            try:
                resident, shared = map(int, os.pread(descriptor, 128, 0).split()[1:3])
            except (OSError, ValueError):
                resident = shared = 0
            if resident:
                sizes.append((process, resident * _PAGE_BYTES, shared * _PAGE_BYTES))
            else:  # it has ended: a zombie has no memory
                os.close(descriptor)
                del self._statm[pid]
        return sizes


def _open_sparing(path: str) -> int:
    """Opens the file. Raises OSError; EMFILE also when few descriptors would be left."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and descriptor + _SPARE_DESCRIPTORS >= limit:
        os.close(descriptor)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return descriptor
