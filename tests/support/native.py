"""Compiles the targets that are written in C."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.interpreters import Interpreter
from tests.support.paths import TARGETS

#: The compiler may neither pair allocations away nor warn of what the targets do on purpose.
_OPTIONS = ("-O1", "-fno-builtin", "-Wno-use-after-free")


def build(folder: Path, source: str, *options: str | Path, name: str | None = None) -> Path:
    """The program (with ``-shared``: library ``NAME.so``) made of the target ``source`` in ``folder``.

    Raises CalledProcessError when it does not compile.
    """
    compiler = shutil.which("cc")
    assert compiler, "a C compiler is needed"
    made = folder / (name or Path(source).stem)
    subprocess.run([compiler, *_OPTIONS, "-o", made, TARGETS / source, *options, "-lpthread"], check=True)
    return made


def library(folder: Path, source: str, *options: str) -> Path:
    """The shared library made of the target ``source`` in ``folder``."""
    return build(folder, source, "-shared", "-fPIC", *options, name=f"{Path(source).stem}.so")


def embedding(folder: Path, source: str, python: Interpreter) -> list[str | Path]:
    """The command of a program that is linked with the library of ``python`` and finds its modules."""
    if not python.can_be_embedded:
        pytest.skip(f"programs cannot be linked with {python.path}, which has a C library of its own")
    code = "import sys, sysconfig; print(sysconfig.get_config_var('LIBDIR'), sys.base_prefix, sep='\\n')"
    said = subprocess.run([python.path, "-c", code], capture_output=True, text=True, check=True).stdout
    folder_of_library, prefix = said.splitlines()
    options = [f"-L{folder_of_library}", f"-Wl,-rpath,{folder_of_library}", f"-lpython{python.name}"]
    return ["env", f"PYTHONHOME={prefix}", build(folder, source, *options)]
