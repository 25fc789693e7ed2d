"""Empties the spool while the program runs, so that it stays small however long that takes.

A finished chunk is copied into a part file, then its slot is offered again: whoever dies between the two leaves it twice,
which the reader knows by its offer. A chunk that is not finished stays until the recording ends, or its process has.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...formats.spool.chunks import CHUNK_BYTES, CHUNK_SLOTS, SLOT_BYTES, frame_of, part_path
from ...formats.spool.layout import ffi
from .space import SpoolSpace, own_pid_namespace

#: Chunks in use below which nothing is drained: short recordings stay in the spool.
FEWEST_CHUNKS = 64
#: A turn takes no longer: the spool must be kept ahead of the program.
_TURN_S = 0.03
_LOOKS_PER_TURN = 256
#: More chunks than this in use: no time to compress.
_BUSY_CHUNKS = 2048
_PART_BYTES = 256 << 20
_RETRY_S = 1.0


class Drain:
    """Moves finished chunks of ``space`` into part files beside ``spool``. ``parts``: how many files were begun."""

    def __init__(self, space: SpoolSpace, spool: Path) -> None:
        self.parts = 0
        self._space = space
        self._spool = spool
        self._waiting: deque[int] = deque()
        self._stored: set[int] = set()
        self._file = -1
        self._size = 0
        self._retry_at_s = 0.0
        self._turn = threading.Lock()
        self._largest_part = min(_PART_BYTES, _file_limit())
        self._own_namespace = own_pid_namespace()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nothing is moved meanwhile, so that another thread can read the recording."""
        with self._turn:
            yield

    def turn(self) -> None:
        """Drains for a moment, if there is something to drain and nobody reads."""
        if not self._turn.acquire(blocking=False):
            return
        try:
            if len(self._space.in_use) >= FEWEST_CHUNKS and time.monotonic() >= self._retry_at_s:
                self._drain()
        finally:
            self._turn.release()

    def _drain(self) -> None:
        now_s = time.monotonic()
        if not self._waiting:
            self._waiting.extend(self._space.in_use)
        for _ in range(min(_LOOKS_PER_TURN, len(self._waiting))):
            if not self._look_at(self._waiting.popleft()):
                self._retry_at_s = now_s + _RETRY_S
                break
            if time.monotonic() > now_s + _TURN_S:
                break

    def close(self) -> None:
        """Closes the part file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _look_at(self, slot: int) -> bool:
        """Drains the chunk if it is finished; False when the disk takes nothing."""
        if slot in self._stored:
            return self._release(slot)
        header = _header(self._space.first_bytes(slot, SLOT_BYTES))
        if header.process == 0 or not (header.closed or self._is_dead(header)):
            return True
        data = self._space.first_bytes(slot, CHUNK_BYTES)
        used = min(max(1, int(header.cursor)), CHUNK_SLOTS) * SLOT_BYTES
        if not _is_finished(data, used // SLOT_BYTES) and not self._is_dead(header):
            return True
        if used > SLOT_BYTES and not self._store(int(header.process), int(header.offer), data[SLOT_BYTES:used]):
            return False
        return self._release(slot)

    def _release(self, slot: int) -> bool:
        """False when the slot cannot be emptied: that is tried again, and the chunk is not stored again."""
        self._stored.add(slot)
        try:
            self._space.release(slot)
        except OSError:
            return False
        self._stored.discard(slot)
        return True

    def _is_dead(self, header: Any) -> bool:
        """Is the process gone for certain? A pid of another namespace says nothing."""
        if header.pid_namespace == 0 or header.pid_namespace != self._own_namespace:
            return False
        try:
            os.kill(header.pid, 0)
        except ProcessLookupError:
            return True
        except (PermissionError, OverflowError):
            pass
        return False

    def _store(self, process: int, offer: int, lines: bytes) -> bool:
        frame = frame_of(process, offer, lines, compress=len(self._space.in_use) < _BUSY_CHUNKS)
        try:
            if self._file < 0 or self._size + len(frame) > self._largest_part:
                self._begin_part()
            if os.pwrite(self._file, frame, self._size) == len(frame):
                self._size += len(frame)
                return True
        except OSError:
            pass
        with suppress(OSError):  # a frame that is cut off would end the file for the reader
            os.ftruncate(self._file, self._size)
        return False

    def _begin_part(self) -> None:
        self.close()
        path = part_path(self._spool, self.parts + 1)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file, self._size = os.open(path, flags, 0o600), 0
        self.parts += 1


def _header(data: bytes) -> Any:
    return ffi().from_buffer("struct chunk_header *", data)


def _is_finished(data: bytes, used: int) -> bool:
    """Does each of the ``used`` lines of a closed chunk belong to a record that was published?"""
    heads = memoryview(data).cast("I")[:: SLOT_BYTES // 4].tolist()
    line = 1
    while line < used and heads[line] & 0xFFFF and heads[line] >> 16:
        line += heads[line] >> 16
    return line >= used


def _file_limit() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return _PART_BYTES if limit == resource.RLIM_INFINITY else limit
