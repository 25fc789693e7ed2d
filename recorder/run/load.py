"""Imports the converter (numpy, pyarrow), with settings that save memory and time in a process that only converts."""

from __future__ import annotations

import os
import sys


class _WithoutPandas:
    """An import finder that hides pandas. Where it is installed, pyarrow imports it to ask whether a list is a series,
    which takes 50 MiB and 0.3 s."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Called for each import, as a member of ``sys.meta_path``. Raises ModuleNotFoundError for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError("scalene-record does not use pandas", name=name)


def hide_pandas() -> None:
    """Makes every later import of pandas fail in this process. Does nothing if pandas is imported already."""
    if "pandas" not in sys.modules and _WithoutPandas not in sys.meta_path:
        sys.meta_path.insert(0, _WithoutPandas)


def prepare_converter() -> None:
    """Sets how numpy and pyarrow will be imported. Call it before either is imported, with no other thread running, and
    start no program with this process's environment afterwards.

    When numpy is imported, its OpenBLAS starts a thread for each core, and each spins before it rests: 70 ms of CPU time
    on two cores. The converter multiplies no matrices, so one thread is enough. Arrow's own allocators keep freed memory;
    with libc's, Arrow and numpy use the same memory in turn, which saves 30 MiB.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    hide_pandas()


def load_converter() -> None:
    """Imports the converter and the trace writer with numpy and pyarrow, which takes about 0.2 s. Raises ImportError."""
    from ...formats.trace import writer  # noqa: F401 (imported here to be imported after the program was started)
    from ..convert import convert, finish  # noqa: F401


def load_the_rest() -> None:
    """Imports what is needed by snapshots, by some recordings, and by those that last. Raises ImportError."""
    import concurrent.futures.thread  # noqa: F401

    from ...formats.trace.bounds import limits  # noqa: F401
    from ..convert import begun  # noqa: F401
