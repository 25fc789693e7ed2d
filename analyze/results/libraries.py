"""Results about native libraries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SymbolTime:
    """Native time in one function of a library."""

    name: str
    native_s: float


@dataclass(frozen=True)
class LibraryTime:
    """Native time in a library, and the functions of it that took most of that time.

    ``library``: None for code outside of all known images. ``image``: extension, interpreter, support or shim; None = unknown.
    """

    library: str | None
    native_s: float
    symbols: list[SymbolTime]
    image: str | None = None


@dataclass(frozen=True)
class NativeFunction:
    """A native function. ``name``: from the symbol table of its file, or the name of the library."""

    name: str
    library: str


@dataclass(frozen=True)
class CalleeTime:
    """CPU time in a native function that Python code called, with everything that the function called.

    ``name``: from the symbol table of its file, None = unknown; ``library`` and ``image``: as in LibraryTime.
    """

    name: str | None
    library: str | None
    image: str | None
    cpu_s: float


@dataclass(frozen=True)
class LibraryRow:
    """Native time (user CPU time) in a function of a library; ``symbol`` None: the function is unknown.

    ``library``, ``path`` and ``image`` (extension, interpreter, support, shim) are None for code outside of all known
    images. ``file``, ``line`` and ``function`` are the line that most of the time was spent for; None if that time has no
    line of the user's.
    """

    library: str | None
    symbol: str | None
    image: str | None
    path: str | None
    ticks: int
    native_s: float
    parallel_native_s: float
    native_percent: float
    file: str | None
    line: int | None
    function: str | None
