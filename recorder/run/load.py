"""Imports what turns a recording into a trace, with less of it than it would take by itself."""

from __future__ import annotations

import os
import sys


class _WithoutPandas:
    """Import finder that hides pandas from pyarrow, which would import it where it is installed, only to ask whether a
    value is a series: 50 MiB and 0.3 s."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Raises ModuleNotFoundError for pandas; other finders find all other modules."""
        if name == "pandas":
            raise ModuleNotFoundError("the recorder does without pandas", name=name)


def hide_pandas() -> None:
    """Lets this process import no pandas from now on."""
    if "pandas" not in sys.modules and _WithoutPandas not in sys.meta_path:
        sys.meta_path.insert(0, _WithoutPandas)


def prepare_converter() -> None:
    """Says how numpy and pyarrow are to be imported, into a process that does nothing else with them. No program may be
    started with its environment afterwards, and no other thread be running.

    numpy's OpenBLAS starts a thread for each core when it is imported, each of which spins before it rests (70 ms of CPU
    on two cores). Nothing here multiplies matrices. Arrow's own allocators keep what was freed; with libc's, rows and
    what numpy makes of them take the same memory in turn: 30 MiB less.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    hide_pandas()


def load_converter() -> None:
    """Imports numpy and pyarrow, which takes a while."""
    from ...formats.trace import writer  # noqa: F401
    from ..convert import convert, finish  # noqa: F401
