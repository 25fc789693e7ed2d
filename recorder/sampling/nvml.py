"""Queries to the driver of NVIDIA's GPUs, through pynvml: utilisation of a device and of each process, and memory.

Utilisation comes from the driver's own buffers of samples. Each sample is the average over a period (1/6 s to 1 s), so
nothing between two queries is lost. A query that the driver does not support returns None and is not repeated.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ...formats.dataclass import dataclass

LIBRARY = "libnvidia-ml.so.1"

#: The period that a sample is assumed to cover when nothing says it: the driver's shorter one.
_PERIOD_US = 1_000_000 // 6
#: The longest time that a sample covers: the driver's longer period, with a margin.
_LONGEST_US = 1_500_000
#: NVML's error codes: the query is not supported by this device or driver, or not permitted.
_UNAVAILABLE = frozenset({2, 3, 4, 13, 25, 26})
#: The device or the driver has gone away.
_GONE = frozenset({1, 9, 12, 15, 16, 18, 28})
#: Nothing is new.
_NOTHING = frozenset({0, 6})
#: At initialisation: there is no GPU.
_NO_GPU = frozenset({9, 12})
#: Inode of the first pid namespace of a machine, the same in every kernel (PROC_PID_INIT_INO).
_FIRST_PID_NAMESPACE = 0xEFFFFFFC
#: The member of nvmlValue_t for each nvmlValueType_t.
_VALUES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class DriverError(Exception):
    """A query failed. ``is_gone``: it will keep failing."""

    def __init__(self, code: int) -> None:
        super().__init__(f"NVML error {code}")
        self.is_gone = code in _GONE


class _UnavailableError(Exception):
    """The driver does not support this query."""


@dataclass(frozen=True)
class DeviceInfo:
    """A device: name, UUID, memory in bytes (None = unknown)."""

    name: str
    uuid: str
    memory_bytes: int | None


@dataclass(frozen=True)
class Busy:
    """A device was in use for ``share`` (0 to 1) of the time between two moments (microseconds, CLOCK_REALTIME).
    ``pid``: the process that used it; 0 = any."""

    start_us: int
    end_us: int
    share: float
    pid: int = 0


def is_there() -> bool:
    """Is a driver installed? Without one this costs a search of the library path."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True


def open_devices(start_us: int) -> list[Device]:
    """The devices, with MIG instances in place of a GPU that is divided; an empty list where there is no GPU.

    ``start_us``: samples count from this moment on (microseconds, CLOCK_REALTIME). Raises DriverError.
    """
    import pynvml  # only where there is a driver: the import takes tens of milliseconds

    try:
        pynvml.nvmlInit()
        handles = [handle for index in range(pynvml.nvmlDeviceGetCount()) for handle in _handles(pynvml, index)]
    except pynvml.NVMLError as error:
        if error.value in _NO_GPU:
            return []
        raise DriverError(error.value) from None
    return [Device(pynvml, handle, start_us) for handle in handles]


def close() -> None:
    """Releases the driver."""
    import pynvml  # as in open_devices

    with suppress(pynvml.NVMLError):
        pynvml.nvmlShutdown()


def _handles(nvml: Any, index: int) -> Iterator[Any]:
    """The handle of a device, or those of its MIG instances where it is divided."""
    try:
        device = nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError as error:
        if error.value in _NO_GPU:
            raise
        return
    try:
        is_divided = nvml.nvmlDeviceGetMigMode(device)[0] == 1
        count = nvml.nvmlDeviceGetMaxMigDeviceCount(device) if is_divided else 0
    except nvml.NVMLError:
        is_divided, count = False, 0
    if not is_divided:
        yield device
    for instance in range(count):
        with suppress(nvml.NVMLError):
            yield nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, instance)


class Device:
    """A device and the state of its queries. Methods raise DriverError, and return None where the driver does not support
    the query."""

    def __init__(self, nvml: Any, handle: Any, start_us: int) -> None:
        self._nvml, self._handle = nvml, handle
        self._seen_us = self._seen_before_us = self._seen_by_process_us = self._asked_us = start_us
        self._unavailable: set[str] = set()
        self._new: list[Busy] = []  # samples of the last utilisation()
        self.info = self._describe()

    def _describe(self) -> DeviceInfo:
        name = uuid = ""
        total = None
        with suppress(self._nvml.NVMLError, UnicodeDecodeError):
            name = str(self._nvml.nvmlDeviceGetName(self._handle))
            uuid = str(self._nvml.nvmlDeviceGetUUID(self._handle))
            total = int(self._nvml.nvmlDeviceGetMemoryInfo(self._handle).total)
        return DeviceInfo(name, uuid, total)

    def utilisation(self, now_us: int) -> list[Busy] | None:
        """The new samples of the device's utilisation, in order; without samples, its current rate."""
        self._seen_before_us = self._seen_us
        self._new = []
        try:
            self._new = self._new_samples()
            return self._new
        except _UnavailableError:
            self._seen_before_us = self._asked_us - _PERIOD_US
        try:
            rate = self._ask("nvmlDeviceGetUtilizationRates")
        except _UnavailableError:
            return None
        found = [Busy(self._start_us(self._seen_us, now_us), now_us, min(rate.gpu, 100) / 100)] if rate else []
        self._seen_us = now_us
        return found

    def by_process(self, now_us: int) -> list[Busy] | None:
        """The new averages of each process's utilisation; a process that is missing did not use the device.

        Call :meth:`utilisation` before: the averages then cover only the time since the samples of the last call.
        """
        seen_us = max(self._seen_by_process_us, self._seen_before_us)
        try:
            entries = self._ask("nvmlDeviceGetProcessUtilization", seen_us) or []
        except _UnavailableError:
            return None
        self._asked_us = now_us
        found = []
        for each in entries:  # drivers pad the answer with old and invalid entries
            if each.timeStamp > seen_us and 0 < each.smUtil <= 100 and each.pid:
                found += self._divided(seen_us, each.timeStamp, each.smUtil / 100, each.pid)
        self._seen_by_process_us = max([seen_us, *(each.end_us for each in found)])
        return found

    def _divided(self, seen_us: int, end_us: int, share: float, pid: int) -> list[Busy]:
        """The work of a process since ``seen_us``, divided over the device's samples of that time.

        The driver reports it as one average, however long the time is, and that covers several samples when the recorder
        was late. It is divided in proportion to the utilisation of the device.
        """
        samples = [each for each in self._new if seen_us < each.end_us <= end_us]
        if not samples:
            return [Busy(self._start_us(seen_us, end_us), end_us, share, pid)]
        if samples[-1].end_us < end_us:  # another sample arrived between the two queries
            samples.append(Busy(samples[-1].end_us, end_us, share))
        length_us = samples[-1].end_us - samples[0].start_us
        busy_us = sum((each.end_us - each.start_us) * each.share for each in samples)
        part = share * length_us / busy_us if busy_us else 0.0
        shares = [min(each.share * part, 1.0) if busy_us else share for each in samples]
        return [Busy(each.start_us, each.end_us, own, pid) for each, own in zip(samples, shares, strict=True)]

    def memory_by_process(self) -> dict[int, int] | None:
        """Bytes of device memory of each process that uses the device, by pid."""
        try:
            processes = self._ask("nvmlDeviceGetComputeRunningProcesses") or []
        except _UnavailableError:
            return None
        if any(each.usedGpuMemory is None for each in processes):
            return None
        sizes: dict[int, int] = {}
        for each in processes:
            sizes[each.pid] = sizes.get(each.pid, 0) + each.usedGpuMemory
        return sizes

    def used_bytes(self) -> int | None:
        """Bytes of device memory that are in use by any process."""
        try:
            memory = self._ask("nvmlDeviceGetMemoryInfo")
        except _UnavailableError:
            return None
        return int(memory.used) if memory else None

    def _new_samples(self) -> list[Busy]:
        answer = self._ask("nvmlDeviceGetSamples", self._nvml.NVML_GPU_UTILIZATION_SAMPLES, self._seen_us)
        if not answer:
            return []
        name = _VALUES[answer[0]] if 0 <= answer[0] < len(_VALUES) else "uiVal"
        found = []
        for each in sorted(answer[1], key=lambda sample: sample.timeStamp):
            share = getattr(each.sampleValue, name) / 100
            if each.timeStamp > self._seen_us and 0 <= share <= 1:
                found.append(Busy(self._start_us(self._seen_us, each.timeStamp), each.timeStamp, share))
                self._seen_us = each.timeStamp
        return found

    def _start_us(self, seen_us: int, end_us: int) -> int:
        return max(seen_us, end_us - _LONGEST_US)

    def _ask(self, name: str, *arguments: Any) -> Any:
        """The answer to a query about the device; None = nothing new. Raises DriverError and _UnavailableError."""
        if name in self._unavailable:
            raise _UnavailableError
        try:
            return getattr(self._nvml, name)(self._handle, *arguments)
        except self._nvml.NVMLError as error:
            if error.value in _NOTHING:
                return None
            if error.value not in _UNAVAILABLE:
                raise DriverError(error.value) from None
        self._unavailable.add(name)
        raise _UnavailableError


def visible(devices: list[DeviceInfo], setting: str | None, order: str | None) -> set[int]:
    """Indices of the devices that CUDA shows to a program with these values of CUDA_VISIBLE_DEVICES (``setting``) and
    CUDA_DEVICE_ORDER (``order``); all indices where that cannot be determined.

    CUDA numbers devices with the fastest first unless the order is PCI_BUS_ID, so a number is the same as ours only then
    or when all devices are of one model.
    """
    everything = set(range(len(devices)))
    if setting is None:
        return everything
    if order != "PCI_BUS_ID" and len({each.name for each in devices}) > 1 and setting[:1].isdigit():
        return everything
    found: set[int] = set()
    for word in map(str.strip, setting.split(",")):
        places = {place for place, each in enumerate(devices) if word and each.uuid.startswith(word)}
        if word.isdigit():
            places = {int(word)} & everything
        if not places:
            break  # CUDA also ignores everything after an invalid entry
        found |= places
    return found


def in_first_pid_namespace() -> bool:
    """Do pids mean the same here as to the driver?"""
    try:
        return os.stat("/proc/self/ns/pid").st_ino == _FIRST_PID_NAMESPACE  # noqa: PTH116
    except OSError:
        return False
