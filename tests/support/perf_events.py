"""Whether this machine lets a program open the perf events that the recorder uses, found by opening one."""

from __future__ import annotations

import ctypes
import os
import struct

import pytest

_PERF_EVENT_OPEN = 298  # on x86-64
_SOFTWARE, _PAGE_FAULTS = 1, 2
_DISABLED, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 0, 1 << 5, 1 << 6
_SIZE = 64  # of the first version of struct perf_event_attr


def are_allowed() -> bool:
    """Opens an event of this thread's page faults, in user mode alone."""
    flags = _DISABLED | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    attributes = struct.pack("IIQQQQQ", _SOFTWARE, _SIZE, _PAGE_FAULTS, 8, 0, 0, flags).ljust(_SIZE, b"\0")
    arguments = [ctypes.c_long(each) for each in (0, -1, -1, 0)]  # this thread, any processor, no group, no flags
    descriptor: int = ctypes.CDLL(None).syscall(ctypes.c_long(_PERF_EVENT_OPEN), attributes, *arguments)
    if descriptor >= 0:
        os.close(descriptor)
    return descriptor >= 0


def needed() -> None:
    """Skips the test only where perf events are refused: where they are allowed, the recorder must use them."""
    if not are_allowed():
        pytest.skip("perf events are not allowed here")
