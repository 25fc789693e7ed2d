"""Names the functions that sampled native instructions are in, from the symbol tables of the files.

This runs after the program has ended, while the user waits, and for some files earlier (:mod:`..ahead`). Only sampled
addresses are looked up, and only in files that have not changed since they were loaded. A symbol table is read in pieces of
bounded size, and of a file that is read at the end only the symbols that hold a sampled instruction are kept, so a library
of a gigabyte takes no more memory than a small one. Names are as in the file (mangled for C++ and Rust), beside readable
ones (:mod:`.names`). Functions without a symbol are named by the method tables of extensions (:mod:`.methods`).

ELF is parsed here, with one numpy dtype for each of its structures, because libraries for it make the end of every
recording slower. Measured in November 2026, CPU time, against 0.30 s for a whole recording of ``-c pass``:

================================  ==========================  ==========================  =======================
what is read                      this module                 pyelftools 0.33             LIEF 1.0
================================  ==========================  ==========================  =======================
import                            0                           41 ms (struct layer 28 ms)  450 ms
libc, 3,044 symbols               0.9 ms                      70 ms                       6 ms
libscipy_openblas, 23,935         2.1 ms                      0.6 s                       0.3 s
_duckdb, 36,687                   4.5 ms                      1.0 s                       0.4 s
libarrow, 94,051                  12.4 ms                     2.3 s                       2.5 s
headers and sections of a file    0.1 ms                      2.5 to 10 ms                reads the whole file
================================  ==========================  ==========================  =======================

pyelftools for headers and sections alone, with numpy for the symbols, would still add its import and some milliseconds for
each sampled library, and would replace about 40 lines of this module.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ....formats.dataclass import dataclass, field
from ....formats.trace.columns import Masked
from ...rights.opening import OpenFile, Withheld, open_regular_file
from ..keyed.by_key import Ints, index_of
from .addresses import Image
from .debugdata import open_debugdata
from .elf import ElfFile, Records, layout
from .methods import TooLarge, method_names
from .names import ReadableNames
from .tables import NOT_ASKED, SYMBOL, Addresses, Function, FunctionTables

Offsets = npt.NDArray[np.int64]

#: Seconds for all files of a recording together.
TIME_LIMIT_S = 5.0
_MOST_SECTIONS = 1 << 20
#: Symbols of one file that hold a sampled instruction. Only a malicious file has more.
_MOST_SYMBOLS = 100_000
_LONGEST_NAME = 2_000


_SECTION = layout("name:4 type:4 flags:8 addr:8 offset:8 size:8 link:4 info:4 addralign:8 entsize:8")
_PT_LOAD, _PF_X = 1, 1
_SHT_SYMTAB, _SHT_DYNSYM = 2, 11
_PREFERENCE = np.array([0, 2, 1] + [0] * 13, np.int8)  # by binding: a global name, then a weak one, then a local one


class FileChanged(Exception):  # noqa: N818 (the name says what happened)
    """The file is not the one that was loaded."""


@dataclass()
class Symbols:
    """The ``symbol`` table, which :meth:`finished` completes. ``unread``: number of files that could not be read;
    ``changed``: of files that have changed since they were loaded; ``withheld``: of files that may not be read;
    ``names``: readable forms of mangled names."""

    table: dict[str, list[Any]] = field(
        default_factory=lambda: {name: [] for name in ("module", "start_offset", "end_offset", "name", "demangled")}
    )
    unread: int = 0
    changed: int = 0
    withheld: int = 0
    names: ReadableNames = field(default_factory=ReadableNames)

    def finished(self) -> dict[str, list[Any]]:
        """The table, when another process has read the mangled names. Call it once."""
        self.table["demangled"] = self.names.answers(self.table["name"])
        return self.table


def distinct_offsets(modules: Masked, offsets: Masked) -> dict[int, Offsets]:
    """The distinct ELF virtual addresses by module id, sorted. Those of a masked module are left out."""
    rows = ~modules.mask & (offsets.data >= 0)
    known = np.unique(modules.data[rows]).tolist()
    return {each: np.unique(offsets.data[rows & (modules.data == each)]) for each in known}


def read_symbols(
    images: Mapping[int, Image],
    sampled: Mapping[int, Offsets],
    folder: str,
    limit_s: float = TIME_LIMIT_S,
    open_file: OpenFile = open_regular_file,
    tables: FunctionTables | None = None,
    names: ReadableNames | None = None,
) -> Symbols:
    """The functions that hold the addresses of ``sampled`` (sorted int64 by module id).

    ``images``: by module id; relative paths are taken from ``folder``; ``limit_s``: seconds for all files together;
    ``open_file``: opens a regular file as :func:`..rights.opening.open_regular_file` does; ``tables``: those that were
    read before; ``names``: readable forms of those that were asked for before. Files with the most addresses come first,
    and files that are not reached in time count as unread.
    """
    tables = tables or FunctionTables()
    symbols, end_s = Symbols(names=names or ReadableNames()), time.monotonic() + limit_s
    for module in sorted(sampled, key=lambda each: (-len(sampled[each]), each)):
        image = images[module]
        if "/" not in image.path:
            continue  # the kernel's vDSO (linux-vdso.so.1) has no file
        try:
            with ElfFile(open_file(Path(folder, image.path)), end_s) as file:
                rows = list(_functions(file, image, sampled[module].astype(np.uint64), tables))
        except FileChanged:
            symbols.changed += 1
        except Withheld:
            symbols.withheld += 1
        except (OSError, ValueError, OverflowError):
            symbols.unread += 1
        else:
            _append(symbols.table, module, rows)
    symbols.names.ask(symbols.table["name"])
    return symbols


def _append(table: dict[str, list[Any]], module: int, rows: list[tuple[int, int, str]]) -> None:
    for row in rows:
        for column, value in zip(("module", "start_offset", "end_offset", "name"), (module, *row), strict=True):
            table[column].append(value)


def _functions(
    file: ElfFile, image: Image, addresses: Addresses, tables: FunctionTables
) -> Iterator[tuple[int, int, str]]:
    """For each run of ``addresses`` (sorted) in one function: the first one, one more than the last one, and the name.

    Raises FileChanged, OSError, ValueError.
    """
    if file.changed_ns > image.loaded_ns:
        raise FileChanged
    _check_segments(file, image)
    answers = tables.answers(file)
    owner = answers.of(addresses)
    if len(new := np.flatnonzero(owner == NOT_ASKED)):
        found = _owners_and_methods(file, addresses[new], tables)
        owner[new] = answers.add(addresses[new], *found)
    starts = np.flatnonzero(np.diff(owner, prepend=-2))
    for first, last in zip(starts.tolist(), [*(starts[1:] - 1).tolist(), len(owner) - 1], strict=True):
        if owner[first] >= 0 and (name := answers.functions[owner[first]].name):
            yield int(addresses[first]), int(addresses[last]) + 1, name


class _Found(NamedTuple):
    """``owner``: for each address the number of its function, -1 = none; ``functions``: by number; ``is_sure``: False =
    the address may have another function, which stands in a part of the file that could not be read this time."""

    owner: Ints
    functions: list[Function]
    is_sure: npt.NDArray[np.bool_]


def _owners_and_methods(file: ElfFile, addresses: Addresses, tables: FunctionTables) -> _Found:
    """By the symbols of a file, then by its method tables."""
    owner, functions, is_sure = _owners(file, addresses, tables)
    rest = addresses[owner < 0]
    try:
        methods = method_names(file, tables.methods(file), rest) if len(rest) else {}
    except TooLarge:
        methods = {}
    except (OSError, ValueError, OverflowError):  # the symbols are good
        methods, is_sure = {}, owner >= 0
    owner[index_of(addresses, np.array(list(methods), np.uint64))] = np.arange(len(methods)) + len(functions)
    functions = functions + [Function(address, 1, name) for address, name in methods.items()]
    return _Found(owner, functions, is_sure)


def _owners(file: ElfFile, addresses: Addresses, tables: FunctionTables) -> _Found:
    """By the symbols of a file."""
    sections = _sections(file)
    owner, functions = _owners_in(file, sections, addresses, tables)
    is_sure = np.ones(len(addresses), np.bool_)
    if (owner >= 0).all():
        return _Found(owner, functions, is_sure)
    try:
        if (inner := open_debugdata(file, sections)) is not None:
            with inner:
                more, more_functions = _owners_in(inner, _sections(inner), addresses, FunctionTables(0))
            owner = np.where((owner < 0) & (more >= 0), more + len(functions), owner)
            functions = functions + more_functions
    except (OSError, ValueError, OverflowError):  # the names outside of it are good
        is_sure = owner >= 0
    return _Found(owner, functions, is_sure)


def _owners_in(
    file: ElfFile, sections: Records, addresses: Addresses, known: FunctionTables
) -> tuple[Ints, list[Function]]:
    """The owners and functions of _Found, by the one symbol table of a file."""
    tables = _symbol_tables(sections)
    if tables is None:
        return np.full(len(addresses), -1, np.int64), []
    table, strings = tables
    symbols = _covering(known.symbols(file, table), addresses)
    owner = _innermost(symbols, addresses)
    taken, owner[owner >= 0] = np.unique(owner[owner >= 0], return_inverse=True)
    found = symbols[taken]
    names = [_name(file, strings, at) for at in found["name"].tolist()]
    return owner, [Function(*each) for each in zip(found["value"].tolist(), found["size"].tolist(), names, strict=True)]


def _check_segments(file: ElfFile, image: Image) -> None:
    """Raises FileChanged unless the file has the executable segments that were loaded. A different file may have the same
    path in a container, or after an update."""
    segments = file.segments()
    code = segments[(segments["type"] == _PT_LOAD) & (segments["flags"] & _PF_X != 0)]
    ends = code["vaddr"] + code["memsz"]
    if not image.ranges <= set(zip(code["vaddr"].tolist(), ends.tolist(), strict=True)):
        raise FileChanged


def _sections(file: ElfFile) -> Records:
    """The section headers."""
    header = file.header()
    offset, count = int(header["shoff"]), int(header["shnum"])
    if offset and count == 0:  # more than 65,279 sections: the size field of the first one holds their number
        count = int(file.records(_SECTION, offset, 1)["size"].sum())
    return file.records(_SECTION, offset, min(count, _MOST_SECTIONS))


def _symbol_tables(sections: Records) -> tuple[np.void, np.void] | None:
    """The section with symbols (.symtab, else .dynsym) and the section with their names; None in a stripped program."""
    for kind in (_SHT_SYMTAB, _SHT_DYNSYM):
        found = sections[(sections["type"] == kind) & (sections["entsize"] == SYMBOL.itemsize)]
        if len(found) and found[0]["link"] < len(sections):
            return found[0], sections[found[0]["link"]]
    return None


def _covering(symbols_of_functions: Iterable[Records], addresses: Addresses) -> Records:
    """The symbols that hold one of the addresses. ``symbols_of_functions``: pieces, each sorted by its values. Raises
    ValueError when there are too many."""
    kept: list[Records] = [np.empty(0, SYMBOL)]
    for piece in symbols_of_functions:
        symbols = piece[_near(piece, addresses)]
        low, high = _held(symbols, addresses)
        kept.append(symbols[high > low])
        if sum(map(len, kept)) > _MOST_SYMBOLS:
            raise ValueError("too many symbols")
    return np.concatenate(kept)


def _near(symbols: Records, addresses: Addresses) -> npt.NDArray[np.bool_]:
    """Which symbols (sorted by their values) may hold one of the addresses. An address can only be in those that begin at or
    before it, and in none of the first ones, of which all end at or before it."""
    first = np.searchsorted(np.maximum.accumulate(symbols["value"] + symbols["size"]), addresses, "right")
    end = np.searchsorted(symbols["value"], addresses, "right")
    change = np.zeros(len(symbols) + 1, np.int64)
    np.add.at(change, first[first < end], 1)
    np.add.at(change, end[first < end], -1)
    return np.cumsum(change[:-1]) > 0


def _held(symbols: Records, addresses: Addresses) -> tuple[Any, Any]:
    """The range [from, to) of the sorted addresses that each symbol holds. An end beyond 64 bits wraps around, so such a
    symbol holds none."""
    ends = symbols["value"] + symbols["size"]
    return np.searchsorted(addresses, symbols["value"]), np.searchsorted(addresses, ends)


def _innermost(symbols: Records, addresses: Addresses) -> Ints:
    """For each address the index of its symbol, -1 = none: the innermost one and, among equal ones, one with a global
    name."""
    owner = np.full(len(addresses), -1, np.int64)
    low, high = _held(symbols, addresses)
    preference = _PREFERENCE[symbols["info"] >> 4]
    order = np.lexsort((-symbols["name"].astype(np.int64), preference, ~symbols["size"], symbols["value"]))
    for index in order.tolist():
        owner[low[index] : high[index]] = index
    return owner


def _name(file: ElfFile, strings: np.void, at: int) -> str:
    """The name at offset ``at`` of the section ``strings``, without a symbol version; "" = none."""
    size = min(int(strings["size"]) - at, _LONGEST_NAME)
    data = file.read(int(strings["offset"]) + at, size) if size > 0 else b""
    return data.partition(b"\0")[0].partition(b"@")[0].decode("utf-8", "backslashreplace")
