"""Names functions of C extensions by their method tables, where a file has no symbol for them.

Most interpreters and many extensions are delivered without the names of static functions. But a function that Python code
can call by name stands in a table of PyMethodDef (name, function, flags, documentation), which is part of the data of its
file. The pointers in that data are either in the file or, if the file can be loaded anywhere, in its relocations.

Like all of a file, these tables are claims: a name counts only if it looks like one, and each function gets one at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .elf import ElfFile, Records, layout

_PT_LOAD, _PT_DYNAMIC, _PF_X, _PF_W = 1, 2, 1, 2
_DT_RELA, _DT_RELASZ = 7, 8
_DYNAMIC = layout("tag:8 value:8")
_RELOCATION = layout("place:8 type:4 symbol:4 addend:8")
_R_RELATIVE = 8
#: Data of more bytes, or with more relocations, is not searched, as it would take up to 0.1 s: CPython and libtorch_python
#: have 2 MiB and 40,000, but libtorch_cpu 5 MiB and 330,000.
_MOST_BYTES, _MOST_RELOCATIONS = 32 << 20, 1 << 17
_MOST_DYNAMIC, _MOST_SEGMENTS = 4096, 64
#: What looks like an entry of a method table, in one file.
_MOST_ENTRIES = 1 << 20
#: Places that look like a function in a table. Only a malicious file has more.
_MOST_PLACES = 20_000
#: PyMethodDef.ml_flags (METH_VARARGS and so on) are below.
_MOST_FLAGS = 1 << 12
_LONGEST_NAME = 100

Addresses = npt.NDArray[np.uint64]


class TooLarge(ValueError):  # noqa: N818 (the name says why)
    """A file that is not searched."""


class Methods(NamedTuple):
    """Entries of one writable segment that look like a PyMethodDef: addresses of functions, and of their names."""

    functions: Addresses
    names: Addresses

    @property
    def nbytes(self) -> int:
        """Their size in memory."""
        return self.functions.nbytes + self.names.nbytes


def method_tables(file: ElfFile) -> Iterator[Methods]:
    """What looks like method tables, in the order of the writable segments. Raises OSError and ValueError."""
    headers = file.segments()
    segments = headers[headers["type"] == _PT_LOAD][:_MOST_SEGMENTS]
    code = segments[segments["flags"] & _PF_X != 0]
    relocations, entries = _relocations(file, headers, segments), 0
    for words in _writable(file, segments, relocations):
        # A function has a name before it, flags and documentation behind it. Few words can be flags, so these come first.
        at = np.flatnonzero(words[2:-1] - 1 < _MOST_FLAGS) + 1
        functions = words[at]
        is_code = np.zeros(len(at), np.bool_)
        for segment in code:
            is_code |= functions - segment["vaddr"] < segment["memsz"]
        at = at[is_code]
        entries += len(at)
        if entries > _MOST_ENTRIES:
            raise TooLarge("too many entries")
        yield Methods(words[at], words[at - 1])


def method_names(file: ElfFile, tables: Iterable[Methods], wanted: Addresses) -> dict[int, str]:
    """The names of those functions that start at the addresses ``wanted`` (sorted) and stand in a method table. ``tables``:
    what :func:`method_tables` gives for the file. Raises OSError and ValueError."""
    headers = file.segments()
    segments = headers[headers["type"] == _PT_LOAD][:_MOST_SEGMENTS]
    found: dict[int, str] = {}
    places = 0
    for functions, names in tables:
        place = np.minimum(np.searchsorted(wanted, functions), len(wanted) - 1)
        looks_so = np.flatnonzero(wanted[place] == functions)
        places += len(looks_so)
        if places > _MOST_PLACES:
            raise ValueError("too many places")
        for function, at in zip(functions[looks_so].tolist(), names[looks_so].tolist(), strict=True):
            if name := _name(file, segments, at):
                found.setdefault(function, name)
    return found


def _writable(file: ElfFile, segments: Records, relocations: Records) -> Iterator[Addresses]:
    """The words of each writable segment, as they are in memory."""
    for segment in segments[segments["flags"] & _PF_W != 0]:
        start, size = -(-int(segment["vaddr"]) // 8) * 8, int(segment["filesz"])
        skipped = start - int(segment["vaddr"])
        if size > _MOST_BYTES or size < skipped + 4 * 8:
            continue
        data = file.read(int(segment["offset"]) + skipped, size - skipped)
        words = np.frombuffer(data[: len(data) // 8 * 8], "<u8").copy()
        at = relocations["place"] - np.uint64(start)
        inside = (at < 8 * len(words)) & (at % 8 == 0)
        words[at[inside] // 8] = relocations["addend"][inside]
        if len(words) >= 4:
            yield words


def _relocations(file: ElfFile, headers: Records, segments: Records) -> Records:
    """The places whose contents are an address in the same file, and the addresses. Raises TooLarge when there are too
    many."""
    empty = np.empty(0, _RELOCATION)
    for segment in headers[headers["type"] == _PT_DYNAMIC][:1]:
        count = min(int(segment["filesz"]) // _DYNAMIC.itemsize, _MOST_DYNAMIC)
        entries = file.records(_DYNAMIC, int(segment["offset"]), count)
        values = {int(entry["tag"]): int(entry["value"]) for entry in entries[::-1]}
        size, offset = values.get(_DT_RELASZ, 0), _offset_of(segments, values.get(_DT_RELA, 0))
        if size // _RELOCATION.itemsize > _MOST_RELOCATIONS:
            raise TooLarge("too many relocations")
        if offset is None:
            return empty
        found = file.records(_RELOCATION, offset, size // _RELOCATION.itemsize)
        relative: Records = found[found["type"] == _R_RELATIVE]
        return relative
    return empty


def _offset_of(segments: Records, address: int) -> int | None:
    """Where in the file the ELF virtual address is; None = nowhere."""
    for segment in segments:
        inside = address - int(segment["vaddr"])
        if 0 <= inside < int(segment["filesz"]):
            return int(segment["offset"]) + inside
    return None


def _name(file: ElfFile, segments: Records, address: int) -> str:
    """The name at the address; "" = there is none that Python would accept."""
    offset = _offset_of(segments, address)
    if offset is None or offset > file.size:
        return ""
    text, end, _ = file.read(offset, _LONGEST_NAME).partition(b"\0")
    return text.decode("ascii") if end and text.isascii() and text.decode("ascii").isidentifier() else ""
