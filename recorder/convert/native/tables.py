"""Tables of functions in files: what an ELF file says of all its functions, before it is asked for single addresses.

Reading them takes most of the time that names take, so :class:`FunctionTables` can keep them for as long as a program runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

import numpy as np

from .elf import ElfFile, Records, layout
from .methods import Methods, method_tables

SYMBOL = layout("name:4 info:1 other:1 shndx:2 value:8 size:8")
_CHUNK_ROWS = 1 << 18
#: By the type of a symbol: no type (assembly without .type), function, indirect function.
_IS_FUNCTION = np.isin(np.arange(16), (0, 2, 10))
#: Of all tables that are kept together.
_MOST_KEPT_BYTES = 64 << 20

Identity = tuple[int, ...]
K = TypeVar("K")


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


P = TypeVar("P", bound=_Sized)


class FunctionTables:
    """The symbols of functions and the method tables of files. ``keeps``: those that were read are kept, up to 64 MiB, and
    given again for a file that has not changed since."""

    def __init__(self, keeps: bool = False) -> None:
        self._symbols: dict[tuple[Identity, int], list[Records]] = {}
        self._methods: dict[Identity, list[Methods]] = {}
        self._left_bytes = _MOST_KEPT_BYTES if keeps else -1

    def symbols(self, file: ElfFile, table: np.void) -> Iterator[Records]:
        """The symbols (SYMBOL) of functions in the symbol table whose section header is ``table``, in pieces of at most
        262,144. Raises OSError and ValueError."""
        key = file.identity, int(table["offset"])
        return self._kept(self._symbols, key, lambda: _pieces(file, table))

    def methods(self, file: ElfFile) -> Iterator[Methods]:
        """What :func:`.methods.method_tables` gives. Raises OSError and ValueError."""
        return self._kept(self._methods, file.identity, lambda: method_tables(file))

    def _kept(self, known: dict[K, list[P]], key: K, read: Callable[[], Iterable[P]]) -> Iterator[P]:
        """The pieces that are known under ``key``, else those that ``read`` gives, which are kept if all of them have room."""
        if key in known:
            yield from known[key]
            return
        kept: list[P] = []
        size = 0
        for piece in read():
            size += piece.nbytes
            if size <= self._left_bytes:
                kept.append(piece)
            else:
                kept.clear()
            yield piece
        if size <= self._left_bytes:
            known[key] = kept
            self._left_bytes -= size


def _pieces(file: ElfFile, table: np.void) -> Iterator[Records]:
    offset, count = int(table["offset"]), int(table["size"]) // SYMBOL.itemsize
    for first in range(0, count, _CHUNK_ROWS):
        symbols = file.records(SYMBOL, offset + first * SYMBOL.itemsize, min(_CHUNK_ROWS, count - first))
        if not len(symbols):
            return
        yield symbols[_IS_FUNCTION[symbols["info"] & 15] & (symbols["shndx"] != 0)]
