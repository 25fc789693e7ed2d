"""GPU samples: a thread of the recorder asks the driver what the GPUs did, and appends the answers to the recording.

The thread first checks whether there is a driver, and ends at once when there is none. Neither the start of the program
nor, for more than a fraction of a second, the end of the recording waits for the driver.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...formats.dataclass import asdict
from ..folder.files import GPU_DEVICES_NAME, GPU_NAME, GPU_STRUCT, append_whole
from . import nvml
from .gpu_owners import Owners, Row
from .nvml import Busy, Device, DriverError, in_first_pid_namespace, visible

#: How long the end of a recording waits for a driver that does not answer, and for one that is still being opened.
_STOP_TIMEOUT_S = 0.3
_OPENING_TIMEOUT_S = 0.05
#: A driver that could not be opened within this time is a loss. In a shorter recording it may just have been slow.
_OPENING_S = 5.0
#: A device is given up after this many failed calls in a row.
_MOST_FAILURES = 50
#: Memory that does not change is written at least this often, so that a recorder that is killed loses no more.
_LONGEST_RUN_NS = 1_000_000_000
_WHOLE_DEVICE = 0
#: Two clocks count as read at one moment if at most this time passed in between. Otherwise they are read again.
_CLOSE_NS = 50_000
_READINGS = 10

#: Bytes by (pid, device); pid 0 = the whole device.
Memory = dict[tuple[int, int], int]


class GpuSampler:
    """Asks the driver every ``interval_s`` seconds from :meth:`start` to :meth:`stop`. ``header``: that of the spool;
    ``pids`` returns the process id of each pid of the recording. ``losses``: counts by name."""

    def __init__(self, header: Any, folder: Path, pids: Callable[[], dict[int, int]], interval_s: float) -> None:
        self.losses = dict.fromkeys(("gpu_off", "gpu_lost", "gpu_ticks", "gpu_untold"), 0)
        self._header, self._folder, self._pids, self._interval_s = header, folder, pids, interval_s
        self._start_us = int(header.start_real_ns) // 1000
        self._over, self._done = threading.Event(), threading.Event()
        self._is_open = False
        self._thread = threading.Thread(target=self._run, name="gpu", daemon=True)

    def start(self) -> None:
        """Starts the thread; call it after the program was started."""
        try:
            self._thread.start()
        except RuntimeError:  # cannot start a thread
            self.losses["gpu_off"] = 1

    def stop(self) -> None:
        """Ends the thread after a last sample."""
        self._over.set()
        if self._thread.ident is None:
            return
        if self._done.wait(_STOP_TIMEOUT_S if self._is_open else _OPENING_TIMEOUT_S):
            return
        if self._is_open:
            self.losses["gpu_ticks"] += 1
        elif time.time_ns() // 1000 - self._start_us > _OPENING_S * 1e6:
            self.losses["gpu_off"] = 1

    def _run(self) -> None:
        try:
            if nvml.is_there() and (devices := nvml.open_devices(self._start_us)) and not self._over.is_set():
                self._is_open = True
                self._record([_Watched(place, each) for place, each in enumerate(devices)])
                self._done.set()
                nvml.close()
        except Exception:  # a driver that fails in any way must not end the recording
            self.losses["gpu_off"] = 1
        finally:
            self._done.set()

    def _record(self, devices: list[_Watched]) -> None:
        described = [each.device.info for each in devices]
        chosen = visible(described, os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("CUDA_DEVICE_ORDER"))
        for each in devices:
            each.is_visible = each.place in chosen
        _write_new(self._folder / GPU_DEVICES_NAME, json.dumps([asdict(each) for each in described]).encode())
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        file = os.open(self._folder / GPU_NAME, flags, 0o600)
        try:
            self._sample_until_stopped(_Sampling(devices, self._pids, int(self._header.start_mono_ns)), file)
        finally:
            os.close(file)

    def _sample_until_stopped(self, sampling: _Sampling, file: int) -> None:
        is_over = False
        while not is_over:
            is_over = self._over.wait(self._interval_s)
            rows = sampling.sample(is_over)
            if rows and not self._header.paused:
                data = b"".join(GPU_STRUCT.pack(*row) for row in rows)
                sampling.failures += not append_whole(file, data)
            self.losses |= sampling.losses()


class _Watched:
    """The state of a device. ``place``: its index; ``is_visible``: the program may use it; ``is_gone``: it has failed for
    good; ``is_unknown``: the driver does not report its utilisation; ``failures``: failed calls in a row."""

    def __init__(self, place: int, device: Device) -> None:
        self.place, self.device = place, device
        self.is_visible = True
        self.is_gone = self.is_unknown = False
        self.failures = 0


class _Sampling:
    """Turns the driver's answers into rows. ``failures``: samples of a device that are missing."""

    def __init__(self, devices: list[_Watched], pids: Callable[[], dict[int, int]], start_mono_ns: int) -> None:
        self.failures = 0
        self._devices, self._owners, self._start_mono_ns = devices, Owners(pids), start_mono_ns
        self._knows_pids = in_first_pid_namespace()
        self._memory: Memory = {}
        self._from_ns = self._until_ns = 0

    def losses(self) -> dict[str, int]:
        """Losses so far, by name."""
        return {
            "gpu_lost": sum(each.is_gone for each in self._devices),
            "gpu_untold": sum(each.is_unknown for each in self._devices),
            "gpu_ticks": self.failures,
        }

    def sample(self, is_last: bool) -> list[Row]:
        """The rows that are new since the last call."""
        self._owners.learn()
        real_ns, mono_ns = clocks_ns()
        to_trace_ns = mono_ns - real_ns - self._start_mono_ns
        rows: list[Row] = []
        memory: Memory = {}
        for each in self._devices:
            if not each.is_gone:
                rows += self._ask(each, real_ns // 1000, to_trace_ns, memory)
        now_ns = mono_ns - self._start_mono_ns
        return self._owners.owned(rows + self._memory_rows(memory, now_ns, is_last), now_ns)

    def _ask(self, each: _Watched, now_us: int, to_trace_ns: int, memory: Memory) -> list[Row]:
        try:
            users = self._add_memory(each, memory)
            rows = self._busy_rows(each, now_us, users)
        except DriverError as error:
            each.failures += 1
            each.is_gone = error.is_gone or each.failures >= _MOST_FAILURES
            self.failures += not each.is_gone
            return []
        each.failures = 0
        return [_busy_row(each.place, busy, process, charged, to_trace_ns) for busy, process, charged in rows]

    def _add_memory(self, each: _Watched, memory: Memory) -> set[int] | None:
        """Adds the memory of the device; returns the ids of the recorded processes that use it, None = unknown."""
        sizes, ids = each.device.memory_by_process(), self._owners.ids
        if sizes is not None:
            self._knows_pids |= not ids.keys().isdisjoint(sizes)
            if self._knows_pids:
                memory |= {(pid, each.place): size for pid, size in sizes.items()}
                return {ids[pid] for pid in sizes if pid in ids}
        used = each.device.used_bytes()
        if used is not None and each.is_visible:
            memory[_WHOLE_DEVICE, each.place] = used
        return None

    def _busy_rows(self, each: _Watched, now_us: int, users: set[int] | None) -> list[tuple[Busy, int, bool]]:
        """How busy the device was, by which process (0 = any), and whether that counts for the program."""
        whole, parts = each.device.utilisation(now_us), each.device.by_process(now_us)
        each.is_unknown = whole is None and parts is None
        self._knows_pids |= any(busy.pid in self._owners.ids for busy in parts or [])
        is_split = parts is not None and self._knows_pids
        counts = not is_split and each.is_visible and users != set()
        user = next(iter(users)) if users and len(users) == 1 else _WHOLE_DEVICE
        return [(busy, user, counts) for busy in whole or []] + [(busy, busy.pid, True) for busy in parts or []]

    def _memory_rows(self, memory: Memory, now_ns: int, is_last: bool) -> list[Row]:
        """The memory that was observed up to the last sample, when it has changed since then."""
        rows: list[Row] = []
        is_same = memory == self._memory and now_ns - self._from_ns <= _LONGEST_RUN_NS
        if is_same:
            self._until_ns = now_ns
        if not is_same or is_last:
            span = (self._from_ns, self._until_ns - self._from_ns)
            rows = [
                (*span, -1, size, pid, place, pid == _WHOLE_DEVICE, True) for (pid, place), size in self._memory.items()
            ]
        if not is_same:
            self._memory, self._from_ns, self._until_ns = memory, now_ns, now_ns
            if is_last:
                rows += [
                    (now_ns, 0, -1, size, pid, place, pid == _WHOLE_DEVICE, True)
                    for (pid, place), size in memory.items()
                ]
        return rows


def clocks_ns() -> tuple[int, int]:
    """CLOCK_REALTIME and CLOCK_MONOTONIC at one moment, in nanoseconds.

    An interruption between the two readings would shift all rows of a sample in time, onto other lines of the program. So
    the clocks are read again after an interruption, and the closest reading is used.
    """
    found: list[tuple[int, int, int]] = []
    while not found or (found[-1][0] > _CLOSE_NS and len(found) < _READINGS):
        before_ns, real_ns, after_ns = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        found.append((after_ns - before_ns, real_ns, (before_ns + after_ns) // 2))
    return min(found)[1:]


def _busy_row(place: int, busy: Busy, process: int, charged: bool, to_trace_ns: int) -> Row:
    start_ns, end_ns = (us * 1000 + to_trace_ns for us in (busy.start_us, busy.end_us))
    start_ns = min(max(start_ns, 0), end_ns)
    return (
        start_ns,
        end_ns - start_ns,
        round(busy.share * (end_ns - start_ns)),
        -1,
        process,
        place,
        not busy.pid,
        charged,
    )


def _write_new(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
