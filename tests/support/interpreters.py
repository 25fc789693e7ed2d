"""The CPython interpreters on this machine that the tests run against."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.paths import PATIENCE_S
from tests.support.unpacked_python import FOLDER, VERSIONS, unpacked

MINOR_VERSIONS = ((3, 10), (3, 11), (3, 12), (3, 13), (3, 14), (3, 15))
#: The parameters of tests that are interpreters.
PARAMETERS = ("python", "server_python", "libraries")
#: The environment variable in which pytest hands what it has found to its workers, which would all start each interpreter.
FOUND = "SCALENE_TEST_FOUND"
_QUESTION = "import sys; print(*sys.version_info[:3], sys.implementation.name, sys.executable)"


@dataclass(frozen=True)
class Interpreter:
    """A CPython that really runs: path of the executable and version (major, minor, patch)."""

    path: Path
    version: tuple[int, int, int]

    @property
    def name(self) -> str:
        """Minor version, for example "3.12"."""
        return f"{self.version[0]}.{self.version[1]}"

    @property
    def full_name(self) -> str:
        """Full version, for example "3.12.1"."""
        return ".".join(map(str, self.version))

    @property
    def can_be_embedded(self) -> bool:
        """Whether programs that are built on this machine can load its library: not if it needs a newer C library."""
        return not self.path.resolve().is_relative_to(FOLDER)


@cache
def interpreters() -> tuple[Interpreter, ...]:
    """One interpreter for each of MINOR_VERSIONS that the machine has, oldest first.

    Looks at SCALENE_TEST_PYTHONS (a list of paths, separated by colons) alone where it is set, else on PATH, among the
    versions that pyenv has installed, and at what was unpacked for the tests. A worker of pytest takes what pytest found.
    """
    if FOUND in os.environ and "PYTEST_XDIST_WORKER" in os.environ:
        return tuple(Interpreter(Path(path), tuple(version)) for path, version in json.loads(os.environ[FOUND]))
    found: dict[tuple[int, int], Interpreter] = {}
    for path in _candidates():
        interpreter = _asked(path)
        if interpreter and interpreter.version[:2] in MINOR_VERSIONS:
            found.setdefault(interpreter.version[:2], interpreter)
    return tuple(found[minor] for minor in sorted(found))


def hand_to_workers() -> None:
    """Writes what was found into the environment, for the workers that pytest starts."""
    os.environ[FOUND] = json.dumps([(str(each.path), each.version) for each in interpreters()])


def newest() -> Interpreter:
    """The newest that the machine itself has, or else that was unpacked for the tests."""
    return max(interpreters(), key=lambda each: (each.can_be_embedded, each.version))


def _candidates() -> Iterator[str]:
    named = os.environ.get("SCALENE_TEST_PYTHONS")
    if named:
        yield from named.split(":")
        return
    own = str(Path(sys.executable).parent)  # the environment of the tests is not one of the interpreters
    path = os.pathsep.join(folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder != own)
    for major, minor in MINOR_VERSIONS:
        on_path = shutil.which(f"python{major}.{minor}", path=path)
        if on_path:
            yield on_path
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, sorted(root.glob("versions/3.*/bin/python3")))
    yield from (str(unpacked(version)) for version in VERSIONS)


def _asked(path: str) -> Interpreter | None:
    """The CPython that a command starts, by its own account; None if the command does not run or starts something else.

    The command may be a shell script that starts the interpreter (a shim of pyenv): a recording of it would contain the
    script's processes too.
    """
    try:
        answer = subprocess.run([path, "-I", "-c", _QUESTION], capture_output=True, text=True, timeout=PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = answer.stdout.rstrip("\n").split(" ", 4)
    if answer.returncode or len(words) != 5 or words[3] != "cpython" or not words[4]:
        return None
    return Interpreter(Path(words[4]), (int(words[0]), int(words[1]), int(words[2])))
