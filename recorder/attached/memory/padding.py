"""Room for a text in a process: between the end of a file's data and that of its last page, which nobody uses."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress

from ....formats.dataclass import dataclass
from ...convert.native.dynamic import PT_LOAD
from ...convert.native.elf import ElfFile
from ..facts import Mapping, mappings_of, open_mapped, reader_of
from .image import FILE_TIME_LIMIT_S, Image
from .script import MARK

_PAGE = os.sysconf("SC_PAGE_SIZE")
_WRITABLE = 2
#: The loader of glibc allocates behind its own data, and that of musl behind those of all libraries, so only glibc is asked.
_GLIBC = re.compile(rb"libc(-2\.\d+)?\.so(\.6)?")
_NAME = re.compile(rb"libpython3.*|libm(-2\.\d+)?\.so(\.6)?|libc(-2\.\d+)?\.so(\.6)?")


@dataclass(frozen=True)
class Padding:
    """``size`` bytes from ``start`` on, of which ``before`` are what the loader has left there."""

    start: int
    before: bytes


def paddings_of(image: Image) -> Iterator[Padding]:
    """Those of libraries that are never unloaded, and of the executable (the kernel begins its heap on a page of its own). Only one
    is taken that is as the loader has left it, or has a text of ours. Raises OSError."""
    first: dict[int, Mapping] = {}
    for each in mappings_of(image.pid):
        if each.offset == 0:
            first.setdefault(each.inode, each)
    executable = os.stat(f"/proc/{reader_of(image.pid)}/exe").st_ino  # noqa: PTH116
    for each in first.values():
        if each.inode == executable or _NAME.fullmatch(_name(each)):
            with suppress(OSError, ValueError):
                if (found := _of_file(image, each)) is not None:
                    yield found


def has_glibc(pid: int) -> bool:
    """Does the process have it? Raises OSError."""
    return any(_GLIBC.fullmatch(_name(each)) for each in mappings_of(pid))


def _name(mapping: Mapping) -> bytes:
    return mapping.path.rpartition(b"/")[2]


def _of_file(image: Image, mapping: Mapping) -> Padding | None:
    """Raises OSError, ValueError."""
    with ElfFile(open_mapped(image.pid, mapping), time.monotonic() + FILE_TIME_LIMIT_S) as file:
        segments = file.segments()
        loaded = segments[segments["type"] == PT_LOAD]
        last = max(loaded, key=lambda each: int(each["vaddr"]), default=None)
        if last is None or not int(last["flags"]) & _WRITABLE:
            return None
        bias = mapping.start - int(loaded["vaddr"].min()) // _PAGE * _PAGE
        end = int(last["vaddr"]) + int(last["memsz"])
        size = -end % _PAGE
        content = file.read(min(int(last["offset"]) + int(last["memsz"]), file.size), size)
        content += bytes(size - len(content))  # as the kernel maps what is behind the end of a file
    found = image.read(bias + end, size)
    for before in (bytes(size), content):
        if _is_unused(found, before):
            return Padding(bias + end, before)
    return None


def _is_unused(found: bytes, before: bytes) -> bool:
    """A text of ours may be there, whose recorder was killed: its first byte is written last. That byte alone remains of one that was
    withdrawn."""
    if found[1 : len(MARK)] == MARK[1:]:
        end = found.find(b"\0", 1) + 1
        return end > 0 and found[end:] == before[end:]
    return found[1:] == before[1:] and found[:1] in (b"\0", before[:1])
