"""Tables of functions in files: what an ELF file says of all its functions, before it is asked for single addresses.

Reading them takes most of the time that names take, so :class:`FunctionTables` can keep them for as long as a program runs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .elf import ElfFile, Records, layout
from .methods import Methods, method_tables

SYMBOL = layout("name:4 info:1 other:1 shndx:2 value:8 size:8")
_CHUNK_ROWS = 1 << 18
_FUNCTION_TYPES = (0, 2, 10)  # no type (assembly without .type), function, indirect function
#: Of all tables that are kept together.
_MOST_KEPT_BYTES = 64 << 20

Identity = tuple[int, ...]


class FunctionTables:
    """The symbols of functions and the method tables of files. ``keeps``: those that were read are kept, up to 64 MiB, and
    given again for a file that has not changed since."""

    def __init__(self, keeps: bool = False) -> None:
        self._symbols: dict[tuple[Identity, int], list[Records]] = {}
        self._methods: dict[Identity, list[Methods]] = {}
        self._left_bytes = _MOST_KEPT_BYTES if keeps else 0

    def stop_keeping(self) -> None:
        """From now on, only what was kept before is given again."""
        self._left_bytes = 0

    def symbols(self, file: ElfFile, table: np.void) -> Iterator[Records]:
        """The symbols (SYMBOL) of functions in the symbol table whose section header is ``table``, in pieces of at most
        262,144. Raises OSError and ValueError."""
        key = file.identity, int(table["offset"])
        known = self._symbols.get(key)
        if known is not None:
            yield from known
            return
        kept: list[Records] | None = []
        size = 0
        for piece in _pieces(file, table):
            size += piece.nbytes
            if kept is not None and size <= self._left_bytes:
                kept.append(piece)
            else:
                kept = None
            yield piece
        if kept is not None and self._left_bytes:
            self._symbols[key] = kept
            self._left_bytes -= size

    def methods(self, file: ElfFile) -> list[Methods]:
        """What :func:`.methods.method_tables` gives. Raises OSError and ValueError."""
        known = self._methods.get(file.identity)
        if known is None:
            known = list(method_tables(file))
            size = sum(each.nbytes for each in known)
            if size < self._left_bytes:
                self._methods[file.identity] = known
                self._left_bytes -= size
        return known


def _pieces(file: ElfFile, table: np.void) -> Iterator[Records]:
    offset, count = int(table["offset"]), int(table["size"]) // SYMBOL.itemsize
    for first in range(0, count, _CHUNK_ROWS):
        symbols = file.records(SYMBOL, offset + first * SYMBOL.itemsize, min(_CHUNK_ROWS, count - first))
        if not len(symbols):
            return
        yield symbols[_IS_FUNCTION[symbols["info"] & 15] & (symbols["shndx"] != 0)]


_IS_FUNCTION = np.isin(np.arange(16), _FUNCTION_TYPES)
