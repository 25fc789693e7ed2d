"""Which processor this is, the numbers of its system calls that Python's library has no functions for, and the size of its
pages."""

from __future__ import annotations

import os
import resource
from typing import NamedTuple

from .errors import SetupError

#: The sizes of pages of Linux: 4 KiB on x86-64; kernels for arm64 are built with one of the three.
_PAGE_BYTES = (4096, 16384, 65536)


class SystemCalls(NamedTuple):
    """Numbers of system calls."""

    perf_event_open: int
    timer_create: int
    timer_delete: int
    setgroups: int
    setfsuid: int
    setfsgid: int
    capget: int
    capset: int
    openat2: int


_X86_64 = SystemCalls(298, 222, 226, 116, 122, 123, 125, 126, 437)
_ARM64 = SystemCalls(241, 107, 111, 159, 151, 152, 90, 91, 437)
#: The kernel's name of the processor; under the personality of 32 bits, uname(2) gives another one.
MACHINE = "aarch64" if os.uname().machine in ("aarch64", "armv8l") else "x86_64"
SYSTEM_CALLS = _ARM64 if MACHINE == "aarch64" else _X86_64


def problem_of_pages(size_bytes: int) -> tuple[str, str]:
    """Why nothing can be recorded where the kernel's pages are of this size, and what to change; "" if it can."""
    if size_bytes in _PAGE_BYTES:
        return "", ""
    return (
        f"Cannot record here: memory pages of this kernel have {size_bytes // 1024} KiB. 4, 16 and 64 KiB are supported.",
        "Use a kernel with such pages.",
    )


def check_pages() -> None:
    """Raises SetupError if the kernel's pages are of a size that the shim does not support."""
    problem, change = problem_of_pages(resource.getpagesize())
    if problem:
        raise SetupError(f"{problem} {change}")
