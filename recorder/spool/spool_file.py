"""The spool file from the recorder's side: created, locked, and kept ahead of the program with allocated chunks."""

from __future__ import annotations

import errno
import mmap
import os
import resource
import time
from array import array
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...formats.spool.chunks import CHUNK_BYTES, CHUNK_SLOTS, CHUNKS_OFFSET
from ...formats.spool.layout import constants, ffi
from ..rights.identity import is_privileged
from ..settings import Settings

_C = constants()
_RING = _C["SPOOL_RING"]
#: Chunks that are offered before the program starts, and again when fewer than half of them are left.
FULL_AHEAD = 256
#: Disk space that is left for the trace itself.
_RESERVE_BYTES = 4 << 20
#: Disk space without which not all chunks are offered before the program starts.
AHEAD_BYTES = CHUNKS_OFFSET + FULL_AHEAD * CHUNK_BYTES + _RESERVE_BYTES
_RETRY_S = 1.0
#: Two readings of one clock, one after the other, differ by less.
_SAME_CLOCK_S = 0.5
#: Where the interval between allocation samples begins when it adapts to the program.
FIRST_ALLOC_INTERVAL_BYTES = 256 * 1024


class SpoolFile:
    """The spool file at ``path``, created with mode 0600. A chunk is named by its index in the file.

    ``path``: where it was created (the folder is renamed later); ``header``: its live header (cffi, ``struct spool_header
    *``); ``chunks``: how many chunks fit; ``full_ahead``: how many are offered ahead; ``in_use``: the offer of each chunk
    that a process has taken, by index; ``failures``: how often no disk space was available; ``free_bytes``: of the disk,
    when chunks were last allocated. The offers are kept here too, because a program that writes to wrong addresses may
    damage the ring in the spool.
    Invariants: taken <= offered; every chunk below ``header.chunks_used`` has disk space and is offered, in use or free.
    """

    def __init__(
        self, path: Path, settings: Settings, chunks: int = _RING, ahead: int = FULL_AHEAD, times: int = 1
    ) -> None:
        """``chunks``: the most that it may have; ``ahead``: how many are offered ahead, ``times`` as many where there is room:
        ``failures`` does not count what lacks of those. Raises OSError, with EFBIG when
        ``ulimit -f`` leaves no room for even one chunk."""
        self.path = path
        self.failures = self.free_bytes = 0
        self.full_ahead, self._needed = times * ahead, ahead // 2
        self.in_use: dict[int, int] = {}
        self._offered = self._used = 0
        self._offers = array("I", bytes(4 * _RING))
        self._free: deque[int] = deque()
        self._noticed = 0
        self._unreported: list[int] = []
        self._retry_at_s = 0.0
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self.chunks = min(chunks, most_chunks())
        os.ftruncate(self.descriptor, _offset(self.chunks))
        os.posix_fallocate(self.descriptor, 0, CHUNKS_OFFSET)
        self._map = mmap.mmap(self.descriptor, CHUNKS_OFFSET)
        memory = ffi().from_buffer(self._map, require_writable=True)
        self.header: Any = ffi().cast("struct spool_header *", memory)
        self._ring: Any = ffi().cast("uint32_t *", memory + _C["SPOOL_HEADER_BYTES"])
        self._fill_header(settings)

    def notice_taken(self) -> list[int]:
        """Brings ``in_use`` up to date and returns the chunks that were taken since the last call."""
        self._notice()
        chunks, self._unreported = self._unreported, []
        return chunks

    def offer_ahead(self, is_often: bool = True) -> None:
        """Offers chunks when few are left, released ones first. Where there was no space for new ones, that is counted and
        tried again after a second. ``is_often``: False = the next call may be long after, so that none may be missing."""
        few, left = self.full_ahead // 2, self._ahead()
        if left >= (few if is_often else self.full_ahead):
            return
        self._notice()  # the ring forgets old offers
        while self._free and self._ahead() < self.full_ahead:
            self._offer(self._free.popleft())
        if time.monotonic() >= self._retry_at_s and not self._offer_new():
            self.failures += left < min(few, self._needed)
            self._retry_at_s = time.monotonic() + _RETRY_S

    @property
    def is_exact(self) -> bool:
        """Is every allocation written as an event now?"""
        return bool(int(self.header.features) & _C["FEATURE_EVENTS"]) and alloc_text(self.header) == "1"

    @property
    def used(self) -> int:
        """How many chunks have been offered at least once: those with lower numbers."""
        return self._used

    def release(self, chunk: int) -> None:
        """Empties a chunk that no process writes to any more, so that it can be offered again.

        Its header is written first, without an owner and with the cursor at the end: a writer that was suspended long ago
        finds no room in it. Raises OSError.
        """
        header = ffi().new("struct chunk_header *", {"cursor": CHUNK_SLOTS, "closed": 1})
        empty = bytes(ffi().buffer(header)).ljust(CHUNK_BYTES, b"\0")
        if os.pwrite(self.descriptor, empty, _offset(chunk)) != CHUNK_BYTES:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        del self.in_use[chunk]
        self._free.append(chunk)

    def first_bytes(self, chunk: int, size: int) -> bytes:
        """The first ``size`` bytes of a chunk."""
        return os.pread(self.descriptor, size, _offset(chunk))

    def close(self) -> None:
        """Closes the file, which also gives up its lock."""
        os.close(self.descriptor)

    def count_loss(self, number: int) -> None:
        """Adds 1 to a loss of the shim, for a program that the shim does not run in. ``number``: its line in losses.h."""
        self.header.losses[number] += 1

    def _fill_header(self, settings: Settings) -> None:
        header = self.header
        header.version = _C["SPOOL_VERSION"]
        header.chunk_bytes = CHUNK_BYTES
        header.ring_entries = _RING
        header.chunk_count = self.chunks
        header.recorder_pid = os.getpid()
        header.filters = seccomp_filters()
        header.paused = int(settings.pause_at_start)
        header.features = _features(settings)
        header.watch_period_ns = settings.watch_period_ns
        header.cpu_interval_ns = settings.cpu_interval_ns
        header.memory_threshold_bytes = settings.memory_threshold_bytes
        header.alloc_interval_bytes = _alloc_interval_bytes(settings)
        header.copy_threshold_bytes = settings.copy_threshold_bytes
        header.start_real_ns = time.time_ns()
        header.start_mono_ns = time.monotonic_ns()
        header.magic = _C["SPOOL_MAGIC"]

    def _notice(self) -> None:
        taken = self._taken()
        chunks = [self._offers[offer % _RING] for offer in range(self._noticed, taken)]
        self.in_use.update(zip(chunks, range(self._noticed, taken), strict=True))
        self._unreported += chunks
        self._noticed = taken

    def _ahead(self) -> int:
        return self._offered - self._taken()

    def _taken(self) -> int:
        """How many offers were taken. An impossible count (a damaged header) is replaced by the last valid one."""
        taken = int(self.header.taken)
        return taken if self._noticed <= taken <= self._offered else self._noticed

    def _offer_new(self) -> bool:
        """Allocates new chunks and offers them, fewer at a time where the disk is nearly full. The program takes chunks
        in the meantime. False when no space was available, or when every chunk that fits is in use."""
        batch = self.full_ahead
        while (wanted := min(self.full_ahead - self._ahead(), self.chunks - self._used)) > 0:
            if not batch:
                if self._ahead() == 0:
                    self.header.waited_in_vain = self._offered + 1  # so that no thread waits for room
                return False
            if not self._allocate(count := min(batch, wanted)):
                batch //= 2
                continue
            for _ in range(count):
                self._offer(self._used)
                self._used += 1
                self.header.chunks_used = self._used
        return self._used < self.chunks or self._ahead() > 0

    def _offer(self, chunk: int) -> None:
        place = self._offered % _RING
        self._ring[place] = self._offers[place] = chunk
        self._offered += 1
        self.header.offered = self._offered

    def _allocate(self, count: int) -> bool:
        """Allocates disk space for ``count`` more chunks. False when there is not enough.

        A program that writes every allocation would spend a third of its time in the first writes to pages. So they are written
        once before.
        """
        disk = os.fstatvfs(self.descriptor)
        reserve = min(_RESERVE_BYTES, disk.f_blocks * disk.f_frsize // 4)
        self.free_bytes = disk.f_bavail * disk.f_frsize
        if self.free_bytes < count * CHUNK_BYTES + reserve:
            return False
        try:
            os.posix_fallocate(self.descriptor, _offset(self._used), count * CHUNK_BYTES)
            for chunk in range(self._used, self._used + count if self.is_exact else 0):
                os.pwrite(self.descriptor, bytes(CHUNK_BYTES), _offset(chunk))
        except OSError:
            return False
        return True


def alloc_control(interval_bytes: int | None) -> int:
    """The value of ``header.alloc_control`` for an interval; None = it adapts to the program."""
    if interval_bytes is None:
        return _C["CONTROL_ALLOC_SET"] | _C["CONTROL_ALLOC_AUTO"] | FIRST_ALLOC_INTERVAL_BYTES
    return _C["CONTROL_ALLOC_SET"] | interval_bytes


def alloc_text(header: Any) -> str:
    """The interval between allocation samples that holds now: auto, or a number of bytes."""
    control = int(header.alloc_control)
    is_auto = control & _C["CONTROL_ALLOC_AUTO"] if control else int(header.features) & _C["FEATURE_ALLOC_AUTO"]
    if is_auto:
        return "auto"
    return str(control & (_C["CONTROL_ALLOC_AUTO"] - 1) if control else header.alloc_interval_bytes)


def _offset(chunk: int) -> int:
    """Where a chunk begins in the file."""
    return CHUNKS_OFFSET + chunk * CHUNK_BYTES


def seccomp_filters(pid: int | str = "self") -> int:
    """How many seccomp filters a process has; before Linux 5.9, whether it has one. Its children have them too."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(fields.get("Seccomp_filters", int(fields.get("Seccomp", "0")) != 0))


def most_chunks() -> int:
    """How many chunks ``ulimit -f`` allows."""
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return _RING if limit == resource.RLIM_INFINITY else max(0, limit - CHUNKS_OFFSET) // CHUNK_BYTES


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
        "FEATURE_NATIVE_ALLOC": settings.native_alloc,
        "FEATURE_ARENAS_ONLY": settings.arenas_only,
        "FEATURE_EVENTS": settings.rotate_ns is None and not settings.native_alloc,
        "FEATURE_WAIT": settings.wait,
        "FEATURE_CHILDREN": settings.children,
        "FEATURE_ARGV": settings.argv,
        "FEATURE_POSIX_ONLY": settings.cpu_engine == "posix",
        "FEATURE_RIGHTS": is_privileged(),
        "FEATURE_OTHER_CLOCK": has_other_clock(),
    }
    return sum(_C[name] for name, on in chosen.items() if on)


def has_other_clock() -> bool:
    """Is the clock of this process another one than the kernel's, as under libfaketime? True too where /proc is not the
    kernel's own (lxcfs)."""
    with suppress(OSError, ValueError, IndexError):
        uptime_s = float(Path("/proc/uptime").read_text("ascii").split()[0])
        return abs(time.clock_gettime(time.CLOCK_BOOTTIME) - uptime_s) > _SAME_CLOCK_S
    return False
