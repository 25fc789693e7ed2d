"""The spool file from the recorder's side: made, locked, and kept ahead of the program with allocated chunks."""

from __future__ import annotations

import mmap
import os
import resource
import time
from typing import Any

from scalene_trace.formats.layout import constants, ffi

from .settings import Settings

_C = constants()
CHUNK_BYTES = _C["SPOOL_CHUNK_BYTES"]
CHUNKS_OFFSET = _C["SPOOL_CHUNKS_OFFSET"]
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

    Slots are offered in order: offer n names slot n. Invariant: taken <= offered <= slots, and every offered chunk has
    disk space of its own.
    """

    def __init__(self, path: os.PathLike[str], settings: Settings) -> None:
        """Raises OSError, with EFBIG when ``ulimit -f`` leaves no room for even one chunk."""
        self.failures = 0
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

    def offer_ahead(self) -> None:
        """Allocates and offers chunks when few are left; what cannot be had is counted and tried again later."""
        header = self.header
        if header.offered - header.taken >= LEAST_AHEAD or time.monotonic() < self._retry_at_s:
            return
        wanted = min(header.taken + FULL_AHEAD, self.slots)
        batch = wanted - header.offered
        while header.offered < wanted and batch:
            if not self._offer(min(batch, wanted - header.offered)):
                batch //= 2
        if header.offered < wanted or wanted == self.slots == header.taken:
            self.failures += 1
            self._retry_at_s = time.monotonic() + _RETRY_S

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
        header.chunk_slots = self.slots
        header.recorder_pid = os.getpid()
        header.features = _features(settings)
        header.cpu_interval_ns = settings.cpu_interval_ns
        header.memory_threshold_bytes = settings.memory_threshold_bytes
        header.alloc_interval_bytes = _alloc_interval_bytes(settings)
        header.copy_threshold_bytes = settings.copy_threshold_bytes
        header.start_real_ns = time.time_ns()
        header.start_mono_ns = time.monotonic_ns()
        header.magic = _C["SPOOL_MAGIC"]

    def _offer(self, count: int) -> bool:
        """Offers ``count`` more chunks; False when their space cannot be had."""
        first = int(self.header.offered)
        disk = os.fstatvfs(self.descriptor)
        reserve = min(_RESERVE_BYTES, disk.f_blocks * disk.f_frsize // 8)
        if disk.f_bavail * disk.f_frsize < count * CHUNK_BYTES + reserve:
            return False
        try:
            os.posix_fallocate(self.descriptor, CHUNKS_OFFSET + first * CHUNK_BYTES, count * CHUNK_BYTES)
        except OSError:
            return False
        for slot in range(first, first + count):
            self._ring[slot % _C["SPOOL_RING"]] = slot
        self.header.offered = first + count
        return True


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
