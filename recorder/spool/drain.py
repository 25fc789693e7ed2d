"""Moves finished chunks out of the spool while the program runs, so that the spool stays small in a long recording.

A finished chunk is copied into a part file, and then its place in the spool is offered again. A recorder that dies between
the two steps leaves the chunk in both files; the reader recognises it by its offer. An unfinished chunk stays in the spool
until the recording or its process ends. The chunks that another thread reads, for a snapshot or ahead of the end, stay in
the spool too.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from ...formats.spool.chunks import (
    CHUNK_BYTES,
    CHUNK_SLOTS,
    SLOT_BYTES,
    View,
    definitions_in,
    frame_of,
    is_finished,
    live_chunk,
    part_path,
    slots_until,
    view_of,
)
from ...formats.spool.layout import constants, ffi
from ..folder.files import new_file
from .pid_namespaces import own_pid_namespace
from .spool_file import SpoolFile

#: With fewer chunks in use nothing is drained: a short recording stays in the spool. A small spool is drained when a
#: quarter of it is in use.
FEWEST_CHUNKS = 64
#: The same while every allocation is recorded: what is drained takes more time than it took the program to write, which waits
#: for that then. This is 128 MiB, about seven million events. Only where the disk has so much room; nothing is compressed then.
FEWEST_EXACT_CHUNKS = 2048
_PLENTY_BYTES = 1 << 30
#: The longest turn: the caller has other work too.
_TURN_S = 0.03
_CHUNKS_PER_TURN = 256
#: With more chunks in use there is no time to compress.
_BUSY_CHUNKS = 2048
#: With so many chunks, a cut has no time either: nothing is drained meanwhile.
_MANY_COPIES = 256
_PART_BYTES = 256 << 20
#: Added to the offer of a chunk: a frame with records that the chunk itself has too.
_BESIDE = 1 << 62
_RETRY_S = 1.0
#: How long another thread may keep the GIL while it reads chunks for a snapshot, or ahead of the end. Draining a chunk
#: takes the GIL six times; with Python's 5 ms, 40 chunks per second could be drained then.
_PINNED_SWITCH_S = 0.0002
WATCHER = constants()["PROCESS_WATCHER"]


def _is_hurried(space: SpoolFile) -> bool:
    """Every allocation is recorded, and the disk has room for it as it is."""
    return space.is_exact and space.free_bytes >= _PLENTY_BYTES


def fewest_chunks(space: SpoolFile) -> int:
    """With fewer chunks in use nothing is drained now."""
    return FEWEST_EXACT_CHUNKS if _is_hurried(space) else FEWEST_CHUNKS


class Drain:
    """Moves finished chunks of ``space`` into part files beside ``spool``. ``parts``: how many files were begun."""

    def __init__(self, space: SpoolFile, spool: Path) -> None:
        self.parts = 0
        self._space = space
        self._spool = spool
        self._waiting: deque[int] = deque()
        self._stored: set[int] = set()
        self._skipped: dict[int, int] = {}  # slots that were copied by a cut, by offer
        self._file = -1
        self._size = 0
        self._retry_at_s = 0.0
        self._turn = threading.Lock()
        self._pins: list[frozenset[int]] = []  # of each thread that reads: one writes a snapshot, one works ahead
        self._pinned: frozenset[int] = frozenset()
        self._switch_s = sys.getswitchinterval()
        self._largest_part = min(_PART_BYTES, _file_limit())
        self._own_namespace = own_pid_namespace()

    @contextmanager
    def pinned(self) -> Iterator[View]:
        """The chunks of the recording at this moment, for another thread. Those in the spool stay in their places inside the
        ``with`` block. Chunks that are taken later are moved as always, so that a long snapshot does not fill the spool."""
        with self._turn:
            view = view_of(self._spool, self._space.descriptor, self._space.used)
            pins = frozenset(each.place for each in view.live)
            if not self._pins:
                self._switch_s = sys.getswitchinterval()
                sys.setswitchinterval(_PINNED_SWITCH_S)
            self._pin([*self._pins, pins])
        try:
            yield view
        finally:
            with self._turn:
                self._pins.remove(pins)
                self._pin(self._pins)
                if not self._pins:
                    sys.setswitchinterval(self._switch_s)

    def _pin(self, pins: list[frozenset[int]]) -> None:
        self._pins = pins
        self._pinned = frozenset[int]().union(*pins)

    def turn(self) -> None:
        """Drains for a moment, if there is something to drain."""
        if not self._turn.acquire(blocking=False):
            return
        try:
            fewest = min(fewest_chunks(self._space), self._space.chunks // 4)
            if len(self._space.in_use) >= fewest and time.monotonic() >= self._retry_at_s:
                self._drain()
        finally:
            self._turn.release()

    def _drain(self) -> None:
        now_s = time.monotonic()
        if not self._waiting:
            self._waiting.extend(each for each in self._space.in_use if each not in self._pinned)
        for _ in range(min(_CHUNKS_PER_TURN, len(self._waiting))):
            if not self._drain_chunk(self._waiting.popleft()):
                self._retry_at_s = now_s + _RETRY_S
                break
            self._space.offer_ahead()  # a program that records every allocation may take all offers during a turn
            if time.monotonic() > now_s + _TURN_S:
                break

    def cut(self, copies: Path, begin: Callable[[], int], commit: Callable[[int, dict[int, int]], None]) -> None:
        """Divides the recording into what was before this moment and what comes later. Nothing is drained meanwhile.

        ``begin`` is called first and returns the moment (CLOCK_MONOTONIC, ns), when what was published then can be read. Records
        up to it in chunks that are still in the spool are copied to the new file ``copies``. ``commit`` gets the number of the
        first part file of what comes later, and the slots of each chunk, by offer, that do not belong to that. If it raises an
        error, nothing was divided. Raises OSError, and what ``commit`` raises.
        """
        with self._turn:
            self.close()  # what is drained from now on goes into the next part file
            until_ns = begin()
            before, self._skipped = self._skipped, self._copied(copies, until_ns)
            try:
                commit(self.parts + 1, dict(self._skipped))
            except BaseException:
                self._skipped = before
                raise

    def _copied(self, path: Path, until_ns: int) -> dict[int, int]:
        """Copies records up to the moment ``until_ns`` from the chunks in the spool to ``path``. Returns how many slots of each
        chunk, by offer, do not belong to what comes later."""
        skipped: dict[int, int] = {}
        descriptor = self._space.descriptor
        live = view_of(self._spool, descriptor, self._space.used).live
        compress = len(live) < _MANY_COPIES
        with new_file(path) as file:
            for each in live:
                first = self._skipped.get(each.offer, 0)
                is_dead = self._is_dead_at(each.place)  # before its chunk is read: it may publish a record meanwhile
                chunk = live_chunk(descriptor, each.place, first) if each.slots > first else None
                if chunk is None or chunk.offer != each.offer:
                    skipped[each.offer] = first
                    continue
                data = chunk.slots[: each.slots - first]
                if (
                    chunk.process == WATCHER
                ):  # what it has told in this pass; while its chunk is open, it may change that
                    count = len(data) if each.is_closed else 0
                else:
                    count = slots_until(data, until_ns, is_dead)
                if count:
                    file.write(frame_of(chunk.process, chunk.offer, data[:count].tobytes(), compress))
                skipped[each.offer] = first + count
            self._copy_definitions(file, skipped, compress)
        return {offer: slots for offer, slots in skipped.items() if slots}

    def _copy_definitions(self, file: BinaryIO, skipped: dict[int, int], compress: bool) -> None:
        """Copies what a record of before the cut may refer to, and what stands behind it: another thread has written it to
        its own chunk in the meantime. It belongs to what comes later too. Read after all positions of the cut are known,
        because a record is published after what it refers to."""
        descriptor = self._space.descriptor
        for each in view_of(self._spool, descriptor, self._space.used).live:
            first = skipped.get(each.offer, 0)
            chunk = live_chunk(descriptor, each.place, first) if each.slots > first else None
            if chunk is not None and chunk.offer == each.offer and (data := definitions_in(chunk.slots)):
                file.write(frame_of(chunk.process, _BESIDE + chunk.offer, data, compress))

    def _is_dead_at(self, chunk: int) -> bool:
        """Has the process of that chunk ended, so that none of its records will be published any more?"""
        return self._is_dead(_header(self._space.first_bytes(chunk, SLOT_BYTES)))

    @property
    def skipped(self) -> dict[int, int]:
        """How many slots of chunks in the spool belong to what was before the last cut, by offer."""
        return dict(self._skipped)

    def close(self) -> None:
        """Closes the part file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _drain_chunk(self, chunk: int) -> bool:
        """Drains the chunk if it is finished. False when the disk refuses a write."""
        if chunk in self._pinned:
            return True
        if chunk in self._stored:
            return self._release(chunk)
        header = _header(self._space.first_bytes(chunk, SLOT_BYTES))
        if header.process == 0 or not (header.closed or self._is_dead(header)):
            return True
        data = self._space.first_bytes(chunk, CHUNK_BYTES)
        if not is_finished(data, _used_slots(data)):
            if not self._is_dead(header):
                return True
            data = self._space.first_bytes(chunk, CHUNK_BYTES)  # again: it may have published a record before it ended
        used = _used_slots(data) * SLOT_BYTES
        first = SLOT_BYTES * (1 + self._skipped.get(int(header.offer), 0))
        if used > first and not self._store(int(header.process), int(header.offer), data[first:used]):
            return False
        return self._release(chunk)

    def _release(self, chunk: int) -> bool:
        """False when the chunk cannot be emptied. That is tried again later, without storing the chunk twice."""
        self._stored.add(chunk)
        try:
            self._space.release(chunk)
        except OSError:
            return False
        self._stored.discard(chunk)
        return True

    def _is_dead(self, header: Any) -> bool:
        """Has the process certainly ended? A pid of another namespace proves nothing."""
        if header.pid_namespace == 0 or header.pid_namespace != self._own_namespace:
            return False
        try:
            os.kill(header.pid, 0)
        except ProcessLookupError:
            return True
        except (PermissionError, OverflowError):
            pass
        return False

    def _store(self, process: int, offer: int, slots: bytes) -> bool:
        compress = len(self._space.in_use) < _BUSY_CHUNKS and not _is_hurried(self._space)
        frame = frame_of(process, offer, slots, compress)
        try:
            if self._file < 0 or self._size + len(frame) > self._largest_part:
                self._begin_part()
            if os.pwrite(self._file, frame, self._size) == len(frame):
                self._size += len(frame)
                return True
        except OSError:
            pass
        with suppress(OSError):  # remove a frame that was cut off: the reader stops at it
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


def _used_slots(chunk: bytes) -> int:
    return min(max(1, int(_header(chunk).cursor)), CHUNK_SLOTS)


def _file_limit() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return _PART_BYTES if limit == resource.RLIM_INFINITY else limit
