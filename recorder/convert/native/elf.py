"""Reads pieces of ELF files, whose contents are claims: missing data reads short.

Files are read and never mapped: a file that shrinks gives short reads, where access to a mapping would end the recorder by
SIGBUS.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import numpy.typing as npt

Records = npt.NDArray[np.void]


def layout(fields: str) -> np.dtype[Any]:
    """The dtype of a structure that is given as "name:bytes ...": unsigned little-endian integers without padding."""
    pairs = (each.split(":") for each in fields.split())
    return np.dtype([(name, f"<u{size}") for name, size in pairs])


HEADER = layout(
    "magic:4 class:1 data:1 version:1 abi:1 pad:8 type:2 machine:2 version2:4 entry:8 phoff:8 shoff:8 flags:4"
    " ehsize:2 phentsize:2 phnum:2 shentsize:2 shnum:2 shstrndx:2"
)
SEGMENT = layout("type:4 flags:4 offset:8 vaddr:8 paddr:8 filesz:8 memsz:8 align:8")
MAGIC = int.from_bytes(b"\x7fELF", "little")
_CLASS_64, _LITTLE_ENDIAN = 2, 1


class ElfFile:
    """An open regular file, to be read from until the time ``end_s``; it closes ``descriptor``."""

    def __init__(self, descriptor: int, end_s: float) -> None:
        self.end_s, self._descriptor = end_s, descriptor
        status = os.fstat(descriptor)
        self.size = status.st_size
        self.changed_ns = max(status.st_mtime_ns, status.st_ctime_ns)
        #: Of this file with these contents.
        self.identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    def __enter__(self) -> ElfFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def read(self, offset: int, size: int) -> bytes:
        """At most ``size`` bytes from ``offset`` on. Raises ValueError when ``offset`` is outside of the file, or when the
        time is over."""
        if not 0 <= offset <= self.size or time.monotonic() > self.end_s:
            raise ValueError("outside of the file, or out of time")
        return os.pread(self._descriptor, size, offset)

    def records(self, dtype: np.dtype[Any], offset: int, count: int) -> Records:
        """At most ``count`` records from ``offset`` on."""
        data = self.read(offset, count * dtype.itemsize)
        return np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype)

    def header(self) -> np.void:
        """The ELF header. Raises ValueError if it is not that of a 64-bit little-endian file."""
        found = self.records(HEADER, 0, 1)
        if not len(found) or found[0]["magic"] != MAGIC:
            raise ValueError("not an ELF file")
        header: np.void = found[0]
        if (header["class"], header["data"]) != (_CLASS_64, _LITTLE_ENDIAN):
            raise ValueError("not a 64-bit little-endian file")
        return header

    def segments(self) -> Records:
        """The program headers (SEGMENT)."""
        header = self.header()
        return self.records(SEGMENT, int(header["phoff"]), int(header["phnum"]))
