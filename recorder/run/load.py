"""Imports the converter (numpy, pyarrow), with settings that save memory and time in a process that only converts."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from contextlib import suppress
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any


class _WithoutPandas:
    """An import finder that hides pandas. Where it is installed, pyarrow imports it to ask whether a list is a series,
    which takes 50 MiB and 0.3 s."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Called for each import, as a member of ``sys.meta_path``. Raises ModuleNotFoundError for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError("scalene-record does not use pandas", name=name)


#: Parts of numpy that only add documentation to its functions, which takes 8 ms.
_DOCUMENTATION = frozenset({"numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars"})
#: Types for annotations: nobody reads those while the recorder runs. They take 6 ms.
_TYPING = frozenset({"numpy._typing", "numpy.typing"})
_MASKED = "numpy.ma"
#: Newer releases are imported whole, until the tests have run with them: their modules may need what is left out here.
_NEWEST_NUMPY = (2, 4)
_left_out = {*_DOCUMENTATION, *_TYPING, _MASKED}


class _Anything:
    """Stands for a type in an annotation."""

    def __class_getitem__(cls, _: object) -> type[_Anything]:
        return cls


class _Types(ModuleType):
    """Stands for a module of types."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything


class _NoMaskedArrays(ModuleType):
    """Stands for numpy.ma (8 ms), which numpy and pyarrow ask whether an array is a masked one. None is as long as that module
    has not been imported; whatever else is asked for imports it."""

    MaskedArray = type("MaskedArray", (), {})

    @staticmethod
    def is_masked(_: object) -> bool:
        """Has the array a masked element?"""
        return False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _left_out.discard(_MASKED)
        sys.modules.pop(_MASKED, None)
        from importlib import import_module

        return getattr(import_module(_MASKED), name)


class _SmallNumpy:
    """An import finder and loader that leaves parts of numpy out."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Called for each import, as a member of ``sys.meta_path``."""
        return ModuleSpec(name, cls) if name in _left_out else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        """The module for ``spec``."""
        if spec.name == _MASKED:
            return _NoMaskedArrays(spec.name)
        return (_Types if spec.name in _TYPING else ModuleType)(spec.name)

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """There is nothing to execute."""


def hide_pandas() -> None:
    """Makes every later import of pandas fail in this process. Does nothing if pandas is imported already."""
    if "pandas" not in sys.modules and _WithoutPandas not in sys.meta_path:
        sys.meta_path.insert(0, _WithoutPandas)


def leave_out() -> None:
    """Makes later imports quicker in this process, which runs nothing but the recorder. Does nothing to packages that are
    imported already.

    Until :func:`load_converter` has imported them, garbage is not collected: collections would look at all modules again and
    again, 5 ms together, and find nothing.
    """
    gc.disable()
    hide_pandas()
    if "numpy" not in sys.modules and _SmallNumpy not in sys.meta_path and _is_known_numpy():
        sys.meta_path.insert(0, _SmallNumpy)


def _is_known_numpy() -> bool:
    """Is numpy one of the releases that the tests have run with? What cannot be read is not."""
    with suppress(Exception):
        spec = find_spec("numpy")
        if spec and spec.origin:
            text = Path(spec.origin).with_name("version.py").read_text()
            major, minor = text.split('version = "', 1)[1].split(".", 2)[:2]
            return (2, 0) <= (int(major), int(minor)) <= _NEWEST_NUMPY
    return False


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
    """Imports the converter and the trace writer with numpy and pyarrow, which takes about 0.1 s. Raises ImportError."""
    _load_beside()
    try:
        from ...formats.trace import writer  # noqa: F401 (imported here to be imported after the program was started)
        from ..convert import convert, finish  # noqa: F401
    finally:
        if not gc.isenabled():  # leave_out() has disabled it
            gc.freeze()
            gc.enable()


def _load_beside() -> None:
    """Has the libraries of pyarrow loaded by a thread, while modules of numpy are imported: the loader relocates 100 MB for 10 ms.
    An import would hold the interpreter's lock meanwhile. Whatever fails here, fails again and is reported in the import."""
    if "pyarrow" not in sys.modules:
        with suppress(RuntimeError):  # cannot start a thread
            threading.Thread(target=_load_libraries, name="libraries", daemon=True).start()


def _load_libraries() -> None:
    with suppress(Exception):
        spec = find_spec("pyarrow")
        if spec and spec.origin:
            library = Path(spec.origin).with_name(f"lib{EXTENSION_SUFFIXES[0]}")
            # The function itself: ctypes.CDLL keeps the interpreter's lock.
            ctypes.CDLL(None).dlopen(os.fsencode(library), os.RTLD_NOW)


def load_the_rest() -> None:
    """Imports what is needed by snapshots, by some recordings, and by those that last. Raises ImportError."""
    import concurrent.futures.thread  # noqa: F401

    from ...formats.trace.bounds import limits  # noqa: F401
    from ..convert import begun  # noqa: F401
