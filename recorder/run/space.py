"""The spool file from the recorder's side: made, locked, and kept ahead of the program with allocated chunks."""

from __future__ import annotations

import errno
import mmap
import os
import resource
import time
from array import array
from collections import deque
from pathlib import Path
from typing import Any

from ...formats.spool.chunks import CHUNK_BYTES, CHUNKS_OFFSET
from ...formats.spool.layout import constants, ffi
from .settings import Settings

_C = constants()
#: Chunks that are offered before the program starts, and again whenever fewer than LEAST_AHEAD are left.
FULL_AHEAD = 256
LEAST_AHEAD = 128
#: Room that is left on the disk for the trace itself.
_RESERVE_BYTES = 4 << 20
_RETRY_S = 1.0
#: Where the interval between allocation samples begins when it adapts to the program.
FIRST_ALLOC_INTERVAL_BYTES = 256 * 1024


class SpoolSpace:
    """The spool file at ``path``, created 0600. ``header`` is its live header (cffi, ``struct spool_header *``).

    ``in_use``: slots whose offers were taken, by slot the offer; ``failures``: how often space could not be had. What was
    offered is remembered here: a program that writes where it should not may hit the spool.
    Invariants: taken <= offered; every slot below ``header.chunks_used`` has disk space of its own and is offered, in use
    or free.
    """

    def __init__(self, path: os.PathLike[str], settings: Settings) -> None:
        """Raises OSError, with EFBIG when ``ulimit -f`` leaves no room for even one chunk."""
        self.failures = 0
        self.in_use: dict[int, int] = {}
        self._offered = self._used = 0
        self._offers = array("I", bytes(4 * _C["SPOOL_RING"]))
        self._free: deque[int] = deque()
        self._noticed = 0
        self._retry_at_s = 0.0
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self.slots = min(_C["SPOOL_RING"], _largest_slots())
        os.ftruncate(self.descriptor, CHUNKS_OFFSET + self.slots * CHUNK_BYTES)
        os.posix_fallocate(self.descriptor, 0, CHUNKS_OFFSET)
        self._map = mmap.mmap(self.descriptor, CHUNKS_OFFSET)
        memory = ffi().from_buffer(self._map, require_writable=True)
        self.header: Any = ffi().cast("struct spool_header *", memory)
        self._ring: Any = ffi().cast("uint32_t *", memory + _C["SPOOL_HEADER_BYTES"])
        self._fill_header(settings)

    def notice_taken(self) -> list[int]:
        """Brings ``in_use`` up to date; returns the slots that were taken since the last call."""
        taken = self._taken()
        slots = [self._offers[offer % _C["SPOOL_RING"]] for offer in range(self._noticed, taken)]
        self.in_use.update(zip(slots, range(self._noticed, taken), strict=True))
        self._noticed = taken
        return slots

    def offer_ahead(self) -> None:
        """Offers chunks when few are left, used ones first; what cannot be had is counted and tried again later.

        What was taken must have been noticed before: the ring forgets old offers.
        """
        if self._ahead() >= LEAST_AHEAD or time.monotonic() < self._retry_at_s:
            return
        while self._free and self._ahead() < FULL_AHEAD:
            self._offer(self._free.popleft())
        if not self._offer_new():
            self.failures += 1
            self._retry_at_s = time.monotonic() + _RETRY_S

    def release(self, slot: int) -> None:
        """Empties a chunk that nobody writes to any more, to be offered again. Its header says first that it is
        nobody's, with the cursor at the end, where a writer that was held up long ago finds no room. Raises OSError."""
        header = ffi().new("struct chunk_header *", {"cursor": _C["SPOOL_CHUNK_SLOTS"], "closed": 1})
        empty = bytes(ffi().buffer(header)).ljust(CHUNK_BYTES, b"\0")
        if os.pwrite(self.descriptor, empty, CHUNKS_OFFSET + slot * CHUNK_BYTES) != CHUNK_BYTES:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        del self.in_use[slot]
        self._free.append(slot)

    def first_bytes(self, slot: int, size: int) -> bytes:
        """The first ``size`` bytes of a chunk."""
        return os.pread(self.descriptor, size, CHUNKS_OFFSET + slot * CHUNK_BYTES)

    def close(self) -> None:
        """Gives up the lock and the file."""
        os.close(self.descriptor)

    def _fill_header(self, settings: Settings) -> None:
        header = self.header
        header.version = _C["SPOOL_VERSION"]
        header.chunk_bytes = CHUNK_BYTES
        header.ring_entries = _C["SPOOL_RING"]
        header.chunk_count = self.slots
        header.recorder_pid = os.getpid()
        header.paused = int(settings.pause_at_start)
        header.features = _features(settings)
        header.cpu_interval_ns = settings.cpu_interval_ns
        header.memory_threshold_bytes = settings.memory_threshold_bytes
        header.alloc_interval_bytes = _alloc_interval_bytes(settings)
        header.copy_threshold_bytes = settings.copy_threshold_bytes
        header.start_real_ns = time.time_ns()
        header.start_mono_ns = time.monotonic_ns()
        header.magic = _C["SPOOL_MAGIC"]

    def _ahead(self) -> int:
        return self._offered - self._taken()

    def _taken(self) -> int:
        """How many offers were taken; what cannot be is what was known before."""
        taken = int(self.header.taken)
        return taken if self._noticed <= taken <= self._offered else self._noticed

    def _offer_new(self) -> bool:
        """Allocates new slots and offers them, fewer at a time where the disk is nearly full. False when space could not
        be had, or all slots there can be are in use. The program takes chunks meanwhile."""
        batch = FULL_AHEAD
        while (wanted := min(FULL_AHEAD - self._ahead(), self.slots - self._used)) > 0:
            if not batch:
                return False
            if not self._allocate(count := min(batch, wanted)):
                batch //= 2
                continue
            for _ in range(count):
                self._offer(self._used)
                self._used += 1
                self.header.chunks_used = self._used
        return self._used < self.slots or self._ahead() > 0

    def _offer(self, slot: int) -> None:
        place = self._offered % _C["SPOOL_RING"]
        self._ring[place] = self._offers[place] = slot
        self._offered += 1
        self.header.offered = self._offered

    def _allocate(self, count: int) -> bool:
        """Disk space for ``count`` more slots; False when it cannot be had."""
        disk = os.fstatvfs(self.descriptor)
        reserve = min(_RESERVE_BYTES, disk.f_blocks * disk.f_frsize // 8)
        if disk.f_bavail * disk.f_frsize < count * CHUNK_BYTES + reserve:
            return False
        try:
            first = CHUNKS_OFFSET + self._used * CHUNK_BYTES
            os.posix_fallocate(self.descriptor, first, count * CHUNK_BYTES)
        except OSError:
            return False
        return True


def own_pid_namespace() -> int:
    """As chunks name that of their process; 0 = not known. A pid of another namespace says nothing here."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def _largest_slots() -> int:
    """How many chunks ``ulimit -f`` allows."""
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return _C["SPOOL_RING"] if limit == resource.RLIM_INFINITY else max(0, limit - CHUNKS_OFFSET) // CHUNK_BYTES


def _alloc_interval_bytes(settings: Settings) -> int:
    if not settings.memory:
        return 0
    interval = settings.alloc_interval_bytes
    return FIRST_ALLOC_INTERVAL_BYTES if interval is None else interval


def _features(settings: Settings) -> int:
    chosen = {
        "FEATURE_CPU": True,
        "FEATURE_MEMORY": settings.memory,
        "FEATURE_ALLOC_AUTO": settings.memory and settings.alloc_interval_bytes is None,
        "FEATURE_COPY": settings.copy,
        "FEATURE_WAIT": settings.wait,
        "FEATURE_CHILDREN": settings.children,
        "FEATURE_ARGV": settings.argv,
        "FEATURE_POSIX_ONLY": settings.cpu_engine == "posix",
    }
    return sum(_C[name] for name, on in chosen.items() if on)
