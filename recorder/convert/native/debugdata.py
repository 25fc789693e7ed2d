"""Symbols that a stripped file carries compressed in its section ``.gnu_debugdata`` (Fedora and its kin): those of functions
that it does not export. The section is an ELF file of its own, compressed by xz. Contents are claims, so sizes and memory
are limited."""

from __future__ import annotations

import os

import numpy as np

from .elf import ElfFile, Records

NAME = b".gnu_debugdata"
_MOST_COMPRESSED, _MOST_BYTES, _MEMORY_BYTES = 16 << 20, 64 << 20, 128 << 20
_LONGEST_NAMES = 1 << 20


def open_debugdata(file: ElfFile, sections: Records) -> ElfFile | None:
    """The ELF file within ``file``, whose sections are given; None = there is none, or it cannot be read."""
    index = int(file.header()["shstrndx"])
    if not sections["name"].any() or index >= len(sections):
        return None
    names = file.read(int(sections["offset"][index]), min(int(sections["size"][index]), _LONGEST_NAMES))
    start = (b"\0" + names).find(b"\0" + NAME + b"\0")
    found = np.flatnonzero(sections["name"] == start)
    if start < 0 or not len(found):
        return None
    offset, size = (int(sections[found[0]][field]) for field in ("offset", "size"))
    return _as_file(_decompressed(file.read(offset, min(size, _MOST_COMPRESSED))), file.end_s)


def _decompressed(data: bytes) -> bytes:
    """Raises ValueError."""
    try:
        import lzma  # few files need it, and not every Python has it
    except ImportError as error:
        raise ValueError("this Python cannot read xz") from error
    reader = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY_BYTES)
    try:
        whole = reader.decompress(data, _MOST_BYTES)
    except lzma.LZMAError as error:
        raise ValueError("not compressed by xz, or by too large a dictionary") from error
    if not reader.eof:
        raise ValueError("too large, or cut")
    return whole


def _as_file(data: bytes, end_s: float) -> ElfFile:
    """Raises OSError."""
    import tempfile  # few files need it; os.memfd_create is missing from a Python that was built with glibc before 2.27

    with tempfile.TemporaryFile() as written:
        written.write(data)
        written.flush()
        return ElfFile(os.dup(written.fileno()), end_s)
