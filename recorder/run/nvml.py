"""What the driver of NVIDIA's GPUs tells, through pynvml: how busy a device was, when, by whose work, and its memory.

Utilisation comes from the driver's own buffers of samples, each the average over a period of its own (1/6 s to 1 s), so that
nothing between two readings is lost. What a driver does not tell is None from then on, and is not asked for again.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

LIBRARY = "libnvidia-ml.so.1"

#: How long a sample is taken to be where nothing says it: the driver's shorter period.
_PERIOD_US = 1_000_000 // 6
#: No sample stands for more: that is the longest period that the driver has, and a little.
_LONGEST_US = 1_500_000
#: NVML's codes for "not on this device, driver, or not for you".
_UNTOLD = frozenset({2, 3, 4, 13, 25, 26})
#: ... for "the device, or the driver, is gone".
_GONE = frozenset({1, 9, 12, 15, 16, 18, 28})
#: ... for "nothing new".
_NOTHING = frozenset({0, 6})
#: ... of the initialisation where there simply is no GPU.
_NO_GPU = frozenset({9, 12})
#: The member of nvmlValue_t for each nvmlValueType_t.
_VALUES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class DriverError(Exception):
    """A call failed. ``is_gone``: it will not work again."""

    def __init__(self, code: int) -> None:
        super().__init__(f"NVML error {code}")
        self.is_gone = code in _GONE


class _UntoldError(Exception):
    """The driver does not tell this."""


@dataclass(frozen=True)
class About:
    """A device: name, UUID, memory in bytes (None = not told)."""

    name: str
    uuid: str
    memory_bytes: int | None


@dataclass(frozen=True)
class Busy:
    """A device was in use for ``share`` (0 to 1) of the time between two moments (microseconds, CLOCK_REALTIME).
    ``pid``: by that process; 0 = by any."""

    start_us: int
    end_us: int
    share: float
    pid: int = 0


def is_there() -> bool:
    """Is there a driver to ask? Costs a look through the library path where there is none."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True


def open_devices(start_us: int) -> list[Device]:
    """The devices, MIG instances in place of their GPU, samples from ``start_us`` on; none where there is no GPU.

    Raises DriverError.
    """
    import pynvml

    try:
        pynvml.nvmlInit()
        handles = [handle for index in range(pynvml.nvmlDeviceGetCount()) for handle in _handles(pynvml, index)]
    except pynvml.NVMLError as error:
        if error.value in _NO_GPU:
            return []
        raise DriverError(error.value) from None
    return [Device(pynvml, handle, start_us) for handle in handles]


def close() -> None:
    """Lets the driver go."""
    import pynvml

    with suppress(pynvml.NVMLError):
        pynvml.nvmlShutdown()


def _handles(nvml: Any, index: int) -> Iterator[Any]:
    """The device, or its MIG instances where it is divided."""
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
    """A device and what has been read of it. Methods raise DriverError; None = the driver does not tell it."""

    def __init__(self, nvml: Any, handle: Any, start_us: int) -> None:
        self._nvml, self._handle = nvml, handle
        self._seen_us = self._seen_before_us = self._seen_by_process_us = self._asked_us = start_us
        self._untold: set[str] = set()
        self._new: list[Busy] = []  # samples of the last utilisation()
        self.about = self._describe()

    def _describe(self) -> About:
        name = uuid = ""
        total = None
        with suppress(self._nvml.NVMLError, UnicodeDecodeError):
            name = str(self._nvml.nvmlDeviceGetName(self._handle))
            uuid = str(self._nvml.nvmlDeviceGetUUID(self._handle))
            total = int(self._nvml.nvmlDeviceGetMemoryInfo(self._handle).total)
        return About(name, uuid, total)

    def utilisation(self, now_us: int) -> list[Busy] | None:
        """What is new of how busy the device was, in order: of the driver's samples, else its present rate."""
        self._seen_before_us = self._seen_us
        self._new = []
        try:
            self._new = self._new_samples()
            return self._new
        except _UntoldError:
            self._seen_before_us = self._asked_us - _PERIOD_US
        try:
            rate = self._ask("nvmlDeviceGetUtilizationRates")
        except _UntoldError:
            return None
        found = [Busy(self._start_us(self._seen_us, now_us), now_us, min(rate.gpu, 100) / 100)] if rate else []
        self._seen_us = now_us
        return found

    def by_process(self, now_us: int) -> list[Busy] | None:
        """What is new of how busy each process kept the device; who is not in it did not use it. To be asked after
        :meth:`utilisation`: what was over before its last samples is not averaged in."""
        seen_us = max(self._seen_by_process_us, self._seen_before_us)
        try:
            entries = self._ask("nvmlDeviceGetProcessUtilization", seen_us) or []
        except _UntoldError:
            return None
        self._asked_us = now_us
        found = []
        for each in entries:  # drivers fill up with entries that are old or cannot be
            if each.timeStamp > seen_us and 0 < each.smUtil <= 100 and each.pid:
                found += self._divided(seen_us, each.timeStamp, each.smUtil / 100, each.pid)
        self._seen_by_process_us = max([seen_us, *(each.end_us for each in found)])
        return found

    def _divided(self, seen_us: int, end_us: int, share: float, pid: int) -> list[Busy]:
        """What a process did since ``seen_us``, which the driver tells as one average however long that is: more than one
        sample where the recorder was late. It is divided as busy as the device was meanwhile."""
        samples = [each for each in self._new if seen_us < each.end_us <= end_us]
        if not samples:
            return [Busy(self._start_us(seen_us, end_us), end_us, share, pid)]
        if samples[-1].end_us < end_us:  # one more came between the two calls
            samples.append(Busy(samples[-1].end_us, end_us, share))
        length_us = samples[-1].end_us - samples[0].start_us
        busy_us = sum((each.end_us - each.start_us) * each.share for each in samples)
        part = share * length_us / busy_us if busy_us else 0.0
        shares = [min(each.share * part, 1.0) if busy_us else share for each in samples]
        return [Busy(each.start_us, each.end_us, own, pid) for each, own in zip(samples, shares, strict=True)]

    def memory_by_process(self) -> dict[int, int] | None:
        """Bytes of each process that uses the device, by pid."""
        try:
            processes = self._ask("nvmlDeviceGetComputeRunningProcesses") or []
        except _UntoldError:
            return None
        if any(each.usedGpuMemory is None for each in processes):
            return None
        sizes: dict[int, int] = {}
        for each in processes:
            sizes[each.pid] = sizes.get(each.pid, 0) + each.usedGpuMemory
        return sizes

    def used_bytes(self) -> int | None:
        """Memory of the device that is in use, by whom ever."""
        try:
            memory = self._ask("nvmlDeviceGetMemoryInfo")
        except _UntoldError:
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
        """The answer of a call about the device; None = nothing new. Raises DriverError and _UntoldError."""
        if name in self._untold:
            raise _UntoldError
        try:
            return getattr(self._nvml, name)(self._handle, *arguments)
        except self._nvml.NVMLError as error:
            if error.value in _NOTHING:
                return None
            if error.value not in _UNTOLD:
                raise DriverError(error.value) from None
        self._untold.add(name)
        raise _UntoldError


def visible(devices: list[About], setting: str | None, order: str | None) -> set[int]:
    """Places of the devices that CUDA shows to a program under CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER; all where
    that cannot be told. (Numbers are CUDA's own, fastest device first, unless told otherwise: they mean a place here where
    the devices are of one kind.)"""
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
            break  # what follows is not seen either
        found |= places
    return found


def in_first_pid_namespace() -> bool:
    """Do pids here mean what they mean to the driver? (The first namespace has a fixed number.)"""
    try:
        return os.stat("/proc/self/ns/pid").st_ino == 0xEFFFFFFC  # noqa: PTH116
    except OSError:
        return False
