"""GPU ticks: a thread of the recorder that asks the driver what its GPUs did, and appends it to a file of the recording.

It looks for a driver before anything else: where there is none, the thread has ended before the program has begun. Nothing
waits for the driver: neither the program's start nor, for longer than a moment, the recording's end.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ..folder.contents import GPU_DEVICES_NAME, GPU_NAME, GPU_STRUCT, append_whole

if TYPE_CHECKING:
    from .nvml import Busy, Device
    from .space import SpoolSpace

#: How long the end of a recording waits for a driver that does not answer; for one that is still being opened.
_PATIENCE_S = 0.3
_SHORT_PATIENCE_S = 0.05
#: A driver that has not been opened after so long is a loss; before, the program was too short to tell.
_OPENING_S = 5.0
#: A device whose calls fail so often in a row is given up.
_MOST_FAILURES = 50
#: Memory that does not change is written at least so often: a killed recorder loses no more.
_LONGEST_RUN_NS = 1_000_000_000
#: How long what a process did is kept that is not known to be recorded: starts are noticed a little late.
_UNKNOWN_NS = 10_000_000_000
_MOST_UNKNOWN = 20_000
_NOBODY = 0
#: Two clocks are read at one moment if no more than this passed meanwhile; else again, so often at most.
_CLOSE_NS = 50_000
_READINGS = 10

#: Memory by (pid, device); pid 0 = the whole device.
Memory = dict[tuple[int, int], int]
#: A row of the file, as GPU_STRUCT packs it; of one process, until its owner is known: the pid in place of the id.
Row = tuple[int, int, int, int, int, int, bool, bool]


class GpuTicks:
    """Asks every ``interval_s`` from :meth:`start` to :meth:`stop`. ``pids``: those of the recorded processes, with their
    ids; ``losses``: how often what went wrong, by name."""

    def __init__(self, space: SpoolSpace, folder: Path, pids: Callable[[], dict[int, int]], interval_s: float) -> None:
        self.losses = dict.fromkeys(("gpu_off", "gpu_lost", "gpu_ticks", "gpu_untold"), 0)
        self._header, self._folder, self._pids, self._interval_s = space.header, folder, pids, interval_s
        self._start_us = int(space.header.start_real_ns) // 1000
        self._over, self._done = threading.Event(), threading.Event()
        self._is_open = False
        self._thread = threading.Thread(target=self._run, name="gpu", daemon=True)

    def start(self) -> None:
        """Begins; the program has been started."""
        try:
            self._thread.start()
        except RuntimeError:  # no thread can be had
            self.losses["gpu_off"] = 1

    def stop(self) -> None:
        """Ends it after a last tick."""
        self._over.set()
        if self._thread.ident is None:
            return
        if self._done.wait(_PATIENCE_S if self._is_open else _SHORT_PATIENCE_S):
            return
        if self._is_open:
            self.losses["gpu_ticks"] += 1
        elif time.time_ns() // 1000 - self._start_us > _OPENING_S * 1e6:
            self.losses["gpu_off"] = 1

    def _run(self) -> None:
        try:
            from . import nvml

            if nvml.is_there() and (devices := nvml.open_devices(self._start_us)) and not self._over.is_set():
                self._is_open = True
                self._record([_Watched(place, each) for place, each in enumerate(devices)])
                self._done.set()
                nvml.close()
        except Exception:  # whatever a driver does: the program has nothing to do with it
            self.losses["gpu_off"] = 1
        finally:
            self._done.set()

    def _record(self, devices: list[_Watched]) -> None:
        from .nvml import visible

        abouts = [each.device.about for each in devices]
        chosen = visible(abouts, os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("CUDA_DEVICE_ORDER"))
        for each in devices:
            each.is_visible = each.place in chosen
        _write_new(self._folder / GPU_DEVICES_NAME, json.dumps([asdict(each) for each in abouts]).encode())
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        file = os.open(self._folder / GPU_NAME, flags, 0o600)
        try:
            self._tick_on(_Ticker(devices, self._pids, int(self._header.start_mono_ns)), file)
        finally:
            os.close(file)

    def _tick_on(self, ticker: _Ticker, file: int) -> None:
        is_over = False
        while not is_over:
            is_over = self._over.wait(self._interval_s)
            rows = ticker.tick(is_over)
            if rows and not self._header.paused:
                data = b"".join(GPU_STRUCT.pack(*row) for row in rows)
                ticker.failures += not append_whole(file, data)
            self.losses |= ticker.losses()


class _Watched:
    """A device as it goes on. ``is_visible``: the program may use it; ``failures``: of the last calls, in a row."""

    def __init__(self, place: int, device: Device) -> None:
        self.place, self.device = place, device
        self.is_visible = True
        self.is_gone = self.is_untold = False
        self.failures = 0


class _Ticker:
    """Turns what the driver says into rows. ``failures``: ticks of a device that are missing."""

    def __init__(self, devices: list[_Watched], pids: Callable[[], dict[int, int]], start_mono_ns: int) -> None:
        from .nvml import in_first_pid_namespace

        self.failures = 0
        self._devices, self._owners, self._start_mono_ns = devices, _Owners(pids), start_mono_ns
        self._knows_pids = in_first_pid_namespace()
        self._memory: Memory = {}
        self._from_ns = self._until_ns = 0

    def losses(self) -> dict[str, int]:
        """Losses so far, by name."""
        return {
            "gpu_lost": sum(each.is_gone for each in self._devices),
            "gpu_untold": sum(each.is_untold for each in self._devices),
            "gpu_ticks": self.failures,
        }

    def tick(self, is_last: bool) -> list[Row]:
        """What is new."""
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
        from .nvml import DriverError

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
        """Adds the memory of the device; returns the ids of the recorded processes that use it, None = cannot be told."""
        sizes, ids = each.device.memory_by_process(), self._owners.ids
        if sizes is not None:
            self._knows_pids |= not ids.keys().isdisjoint(sizes)
            if self._knows_pids:
                memory |= {(pid, each.place): size for pid, size in sizes.items()}
                return {ids[pid] for pid in sizes if pid in ids}
        used = each.device.used_bytes()
        if used is not None and each.is_visible:
            memory[_NOBODY, each.place] = used
        return None

    def _busy_rows(self, each: _Watched, now_us: int, users: set[int] | None) -> list[tuple[Busy, int, bool]]:
        """How busy the device was, by whom (0 = by any), and whether that counts for the program."""
        whole, parts = each.device.utilisation(now_us), each.device.by_process(now_us)
        each.is_untold = whole is None and parts is None
        self._knows_pids |= any(busy.pid in self._owners.ids for busy in parts or [])
        is_told = parts is not None and self._knows_pids
        counts = not is_told and each.is_visible and users != set()
        user = next(iter(users)) if users and len(users) == 1 else _NOBODY
        return [(busy, user, counts) for busy in whole or []] + [(busy, busy.pid, True) for busy in parts or []]

    def _memory_rows(self, memory: Memory, now_ns: int, is_last: bool) -> list[Row]:
        """The memory that was seen up to the last tick, once it has changed."""
        rows: list[Row] = []
        is_same = memory == self._memory and now_ns - self._from_ns <= _LONGEST_RUN_NS
        if is_same:
            self._until_ns = now_ns
        if not is_same or is_last:
            span = (self._from_ns, self._until_ns - self._from_ns)
            rows = [(*span, -1, size, pid, place, pid == _NOBODY, True) for (pid, place), size in self._memory.items()]
        if not is_same:
            self._memory, self._from_ns, self._until_ns = memory, now_ns, now_ns
            if is_last:
                rows += [
                    (now_ns, 0, -1, size, pid, place, pid == _NOBODY, True) for (pid, place), size in memory.items()
                ]
        return rows


def clocks_ns() -> tuple[int, int]:
    """What CLOCK_REALTIME and CLOCK_MONOTONIC say at one moment. A thread that is interrupted between the two would move all
    that a tick brings by as long as that, onto other lines: then they are read again, and the closest reading counts."""
    found: list[tuple[int, int, int]] = []
    while not found or (found[-1][0] > _CLOSE_NS and len(found) < _READINGS):
        before_ns, real_ns, after_ns = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        found.append((after_ns - before_ns, real_ns, (before_ns + after_ns) // 2))
    return min(found)[1:]


class _Owners:
    """Knows whose rows are whose. ``ids``: process id of each pid of the recording. A row of another process is kept for
    some seconds, in case that it turns out to be recorded: its start may be noticed later than its first work."""

    def __init__(self, pids: Callable[[], dict[int, int]]) -> None:
        self.ids: dict[int, int] = {}
        self._pids = pids
        self._waiting: deque[tuple[int, Row]] = deque(maxlen=_MOST_UNKNOWN)
        self._strangers: set[int] = set()

    def learn(self) -> None:
        """Looks who has begun."""
        self.ids |= self._pids()
        while len(self.ids) > _MOST_UNKNOWN:
            del self.ids[next(iter(self.ids))]

    def owned(self, rows: list[Row], now_ns: int) -> list[Row]:
        """Those of ``rows``, and of earlier ones, whose process is known, with its id in place of its pid."""
        found, later = [], deque[tuple[int, Row]](maxlen=_MOST_UNKNOWN)
        for until_ns, row in (*self._waiting, *((now_ns + _UNKNOWN_NS, row) for row in rows)):
            pid, is_whole = row[4], row[6]
            if is_whole:
                found.append(row)
            elif pid in self.ids:
                found.append((*row[:4], self.ids[pid], *row[5:]))
            elif now_ns < until_ns and pid not in self._strangers:
                later.append((until_ns, row))
            else:
                self._strangers.add(pid)
        self._waiting = later
        return found


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
