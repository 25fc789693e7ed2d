"""Tables of functions in files: what an ELF file says of all its functions, and which function each sampled address is in.

Finding these takes most of the time that names take, so :class:`FunctionTables` keeps them for as long as a program runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ..keyed.by_key import Ints, index_of
from .elf import ElfFile, Records, layout
from .methods import Methods, method_tables

SYMBOL = layout("name:4 info:1 other:1 shndx:2 value:8 size:8")
_CHUNK_ROWS = 1 << 18
#: By the type of a symbol: no type (assembly without .type), function, indirect function.
_IS_FUNCTION = np.isin(np.arange(16), (0, 2, 10))
#: Of all tables that are kept together, by those who read addresses twice, or for as long as a program runs.
MOST_BYTES, MOST_BYTES_EARLY = 16 << 20, 64 << 20

#: Stands for the function of an address that was not looked up.
NOT_ASKED = -2

Addresses = npt.NDArray[np.uint64]
Identity = tuple[int, ...]
K = TypeVar("K")


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


P = TypeVar("P", bound=_Sized)


class Function(NamedTuple):
    """What a file says of a function. ``start``: ELF virtual address; ``size``: in bytes."""

    start: int
    size: int
    name: str


class Answers:
    """Which function of a file each address (ELF virtual address) is in, of those that were asked for."""

    def __init__(self) -> None:
        self.functions: list[Function] = []
        self._numbers: dict[Function, int] = {}
        self._addresses = np.empty(0, np.uint64)
        self._of_address = np.empty(0, np.int64)

    def add(
        self, addresses: Addresses, of_address: Ints, functions: list[Function], keeps: npt.NDArray[np.bool_]
    ) -> Ints:
        """Adds those of ``addresses`` (distinct) that ``keeps`` is true for; ``of_address``: the index of each one's function,
        -1 = none. Returns the indexes into ``self.functions``, of all."""
        numbers = [self._numbers.setdefault(each, len(self._numbers)) for each in functions]
        self.functions = list(self._numbers)
        found: Ints = np.append(np.array(numbers, np.int64), -1)[of_address]
        all_addresses = np.concatenate([self._addresses, addresses[keeps]])
        order = np.argsort(all_addresses, kind="stable")
        self._addresses = all_addresses[order]
        self._of_address = np.concatenate([self._of_address, found[keeps]])[order]
        return found

    def of(self, addresses: Addresses) -> Ints:
        """The index into ``functions`` for each of ``addresses``; -1 = it has none, NOT_ASKED = it was not added."""
        at = index_of(self._addresses, addresses)
        return np.where(at >= 0, np.append(self._of_address, NOT_ASKED)[at], NOT_ASKED)


class FunctionTables:
    """The symbols of functions, the method tables of files, and the functions at addresses. Tables that were read are kept,
    up to ``most_bytes``, and given again for a file that has not changed since; so are all answers."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._symbols: dict[tuple[Identity, int], list[Records]] = {}
        self._methods: dict[Identity, list[Methods]] = {}
        self._answers: dict[Identity, Answers] = {}
        self._left_bytes = most_bytes

    def answers(self, file: ElfFile) -> Answers:
        """The functions at addresses of this file that were found so far."""
        return self._answers.setdefault(file.identity, Answers())

    def symbols(self, file: ElfFile, table: np.void) -> Iterator[Records]:
        """The symbols (SYMBOL) of functions in the symbol table whose section header is ``table``, in pieces of at most
        262,144, each sorted by its values. Raises OSError and ValueError."""
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
        functions = symbols[_IS_FUNCTION[symbols["info"] & 15] & (symbols["shndx"] != 0)]
        yield functions[np.argsort(functions["value"])]
