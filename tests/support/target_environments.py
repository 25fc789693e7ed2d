"""Environments for each interpreter that the tests record: one with numpy, pandas, greenlet, pytest and rpds, and one with
servers and event loops.

``python -m tests.support.target_environments`` makes those that are missing, under ``build/targets/`` and ``build/servers/``. Only binary
packages are taken.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from tests.support.interpreters import Interpreter, interpreters, newest
from tests.support.paths import ROOT
from tests.support.unpacked_python import FOLDER, PATIENCE_S, VERSIONS, unpack

DISTRIBUTION = Path("/usr/bin/python3")
#: Kind of environment: packages, which are imported by the names before any hyphen.
PACKAGES = {
    "targets": ("numpy", "pandas", "greenlet", "pytest", "rpds-py"),
    "servers": ("gunicorn", "gevent", "uvloop", "contourpy"),
    "ways": ("numpy", "pandas", "cffi", "cython", "pybind11"),
}
#: Kinds that all tests use; the others are made by the checks that need them.
MADE_AHEAD = ("targets", "servers")


def environment_python(interpreter: Interpreter, kind: str = "targets") -> Path:
    """Where the environment's interpreter is (or would be)."""
    return ROOT / "build" / kind / interpreter.full_name / "bin" / "python"


def _recorded(interpreter: Interpreter) -> Interpreter:
    path = environment_python(interpreter)
    return Interpreter(path if path.exists() else interpreter.path, interpreter.version)


def recorded_interpreters() -> list[Interpreter]:
    """The interpreters of the target environments where they exist, else the bare ones."""
    return list(map(_recorded, interpreters()))


def newest_recorded() -> Interpreter:
    """The newest interpreter of the machine, in the same way."""
    return _recorded(newest())


def interpreters_and_distribution() -> list[str]:
    """The interpreters of the tests, and the distribution's."""
    return [str(each.path) for each in recorded_interpreters()] + [str(DISTRIBUTION)] * DISTRIBUTION.exists()


def version_of(python: str) -> str:
    """Its version, as results name an interpreter: "3.12.1"."""
    code = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    version = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    return f"{version} (distribution)" if python == str(DISTRIBUTION) else version


def complete(python: Path, kind: str) -> bool:
    """Whether the environment exists and its packages can be imported."""
    return python.exists() and subprocess.run([python, "-c", imports(kind)], capture_output=True).returncode == 0


def imports(kind: str) -> str:
    """Code that imports the packages."""
    return f"import {', '.join(package.partition('-')[0] for package in PACKAGES[kind])}"


def create(interpreter: Interpreter, kind: str) -> None:
    """Makes the environment anew; fails with pip's message if a package cannot be installed.

    Our own pip installs into it, and only what is imported is compiled: a quarter of the time.
    """
    python = environment_python(interpreter, kind)
    shutil.rmtree(python.parent.parent, ignore_errors=True)
    subprocess.run([interpreter.path, "-m", "venv", "--without-pip", python.parent.parent], check=True)
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-compile", "--only-binary", ":all:", *PACKAGES[kind]], check=True)
    subprocess.run([python, "-c", imports(kind)], check=True)


def make(interpreter: Interpreter, kind: str) -> None:
    """Creates the environment if it is missing or incomplete."""
    python = environment_python(interpreter, kind)
    if not complete(python, kind):
        print(f"creating {python.parent.parent.relative_to(ROOT)}", flush=True)
        create(interpreter, kind)


def unpack_missing() -> None:
    """Unpacks the versions that this machine lacks, and says why where that is impossible."""
    if os.environ.get("SCALENE_TEST_PYTHONS"):
        return
    end_s = time.monotonic() + PATIENCE_S
    for version in VERSIONS:
        if any(each.name == version for each in interpreters()):
            continue
        print(f"unpacking Python {version} for the tests", flush=True)
        reason = unpack(version, FOLDER, end_s)
        if reason:
            print(f"no tests on Python {version}: {reason}", flush=True)
    interpreters.cache_clear()


def main() -> int:
    """Creates the missing environments, two at a time, and prints the interpreters."""
    unpack_missing()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(make, *zip(*product(interpreters(), MADE_AHEAD), strict=True)))
    found = ", ".join(each.full_name for each in interpreters())
    print(f"interpreters that the tests record: {found or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
