"""Reads what the loader sees of an ELF file: dynamic symbols with their data, and entries of the dynamic section."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from ....formats.dataclass import dataclass
from .elf import ElfFile, Records, layout

_SECTION = layout("name:4 type:4 flags:8 addr:8 offset:8 size:8 link:4 info:4 addralign:8 entsize:8")
_SYMBOL = layout("name:4 info:1 other:1 shndx:2 value:8 size:8")
_DYNAMIC = layout("tag:8 value:8")
_SHT_DYNAMIC, _SHT_DYNSYM = 6, 11
PT_LOAD = 1
_MOST_ROWS = 1 << 20
_MOST_BYTES = 1 << 24
_LONGEST_NAME = 4096
_MOST_PLACES = 1000


@dataclass(frozen=True)
class Symbol:
    """``address``: its ELF virtual address; ``size``: in bytes, 0 = unknown."""

    address: int
    size: int


def sections_of(file: ElfFile) -> Records:
    """The section headers. Raises ValueError."""
    header = file.header()
    return file.records(_SECTION, int(header["shoff"]), int(header["shnum"]))


def dynamic_symbols(file: ElfFile, sections: Records, wanted: frozenset[bytes]) -> dict[str, Symbol]:
    """Those of the ``wanted`` symbols that the file defines, by name. Raises ValueError."""
    found: dict[str, Symbol] = {}
    for table in sections[sections["type"] == _SHT_DYNSYM]:
        names, symbols = _strings(file, sections, table), _rows(file, _SYMBOL, table)
        symbols = symbols[symbols["shndx"] != 0]
        for name in wanted:
            for symbol in symbols[np.isin(symbols["name"], _places(names, name))]:
                found[name.decode()] = Symbol(int(symbol["value"]), int(symbol["size"]))
    return found


def _places(names: bytes, name: bytes) -> list[int]:
    """Where the strings have this name: it may also be the end of another one."""
    found: list[int] = []
    text = name + b"\0"
    at = names.find(text)
    while at >= 0 and len(found) < _MOST_PLACES:
        found.append(at)
        at = names.find(text, at + 1)
    return found


def dynamic_entries(file: ElfFile, sections: Records, tags: frozenset[int]) -> Iterator[tuple[int, str]]:
    """Tag and text of each entry of the dynamic section that has one of ``tags``. Raises ValueError."""
    for table in sections[sections["type"] == _SHT_DYNAMIC]:
        names = _strings(file, sections, table)
        for entry in _rows(file, _DYNAMIC, table):
            if int(entry["tag"]) in tags:
                yield int(entry["tag"]), os.fsdecode(_name(names, int(entry["value"])))


def data_at(file: ElfFile, address: int, size: int) -> bytes:
    """At most ``size`` bytes of initialised data at an ELF virtual address; empty where the file has none."""
    segments = file.segments()
    for each in segments[segments["type"] == PT_LOAD]:
        at = address - int(each["vaddr"])
        if 0 <= at < int(each["filesz"]):
            return file.read(int(each["offset"]) + at, min(int(each["filesz"]) - at, size))
    return b""


def _rows(file: ElfFile, dtype: np.dtype[np.void], table: np.void) -> Records:
    return file.records(dtype, int(table["offset"]), min(int(table["size"]) // dtype.itemsize, _MOST_ROWS))


def _strings(file: ElfFile, sections: Records, table: np.void) -> bytes:
    number = int(table["link"])
    if number >= len(sections):
        return b""
    return file.read(int(sections[number]["offset"]), min(int(sections[number]["size"]), _MOST_BYTES))


def _name(names: bytes, at: int) -> bytes:
    return names[at : at + _LONGEST_NAME].partition(b"\0")[0]
