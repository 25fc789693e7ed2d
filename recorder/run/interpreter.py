"""Chooses the interpreter for scripts, ``-m`` and ``-c``: the one that a shell would run for ``python``.

Nothing is started to find out more about an interpreter: the recorder starts the program and nothing else.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from ...formats.dataclass import dataclass
from .pyenv import behind_shim

_NAMES = ("python", "python3")
_PYTHON_2 = r"(python|pypy)2?(\.7)?"
#: Files by which pipx and ``uv tool`` know the environments that they made for one tool.
_TOOL_FILES = ("pipx_metadata.json", "uv-receipt.toml")


@dataclass(frozen=True)
class Choice:
    """``path``: the interpreter; ``remark``: a sentence for the user where it may not be the one that is expected, else ""."""

    path: str
    remark: str = ""


def choose(what: str) -> Choice:
    """The interpreter for ``what`` (its name in a remark): ``python`` on PATH, else ``python3``. Before them comes an
    active virtual environment that is not on PATH, after them the recorder's own interpreter."""
    active, found = _active_python(), next(_on_path(), None)
    if active and not _is_on_path(active.parent):
        is_other = found is not None and not _is_same(found, active)
        return Choice(str(active), f"{what} runs under {active}, by $VIRTUAL_ENV. {_OTHER}" if is_other else "")
    if found is None:
        return Choice(sys.executable, _alone(what))
    return Choice(str(behind_shim(found)), _remark(what, found, active))


def is_runnable(path: Path) -> bool:
    """Would a shell run this file? Before Python 3.14, Path.is_file() fails in a folder that may not be searched."""
    return os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113


def path_folders() -> list[str]:
    """The folders of PATH, "." for the empty ones."""
    return [folder or "." for folder in os.environ.get("PATH", os.defpath).split(os.pathsep)]


_OTHER = "Choose another one with --python."


def _alone(what: str) -> str:
    own = f"the recorder's own interpreter, {sys.executable}, with the packages that are installed there"
    return f"There is no Python 3 on PATH, so {what} runs under {own}. {_OTHER}"


def _remark(what: str, found: Path, active: Path | None) -> str:
    passed = _python_2()
    if passed is not None and found.name == _NAMES[1]:
        return f"{passed} is Python 2, so {what} runs under {found}. {_OTHER}"
    if active is not None and not _is_same(found, active):
        return f"{what} runs under {behind_shim(found)}, which comes before $VIRTUAL_ENV on PATH. {_OTHER}"
    if _is_own(found):
        return f"{what} runs in the environment of the recorder, {sys.prefix}. {_OTHER}" if _is_tool() else ""
    own = Path(sys.executable)
    if sys.prefix != sys.base_prefix and not _is_tool() and not _is_on_path(own.parent):
        return f"{what} runs under {behind_shim(found)}, from PATH, and not under {own}. {_OTHER}"
    return ""


def _on_path() -> Iterator[Path]:
    """The interpreters that ``python`` and then ``python3`` start, without Python 2."""
    for name in _NAMES:
        found = _first(name)
        if found is not None and not _is_python_2(found):
            yield found


def _python_2() -> Path | None:
    found = _first(_NAMES[0])
    return found if found is not None and _is_python_2(found) else None


def _first(name: str) -> Path | None:
    return next((path for folder in path_folders() if is_runnable(path := Path(folder, name))), None)


def _is_python_2(path: Path) -> bool:
    """By the file's name behind all links (``python2.7``), which is all that can be known without starting it."""
    name = Path(os.path.realpath(path)).name
    return name not in _NAMES and re.fullmatch(_PYTHON_2, name) is not None


def _active_python() -> Path | None:
    folder = os.environ.get("VIRTUAL_ENV")
    path = Path(folder, "bin", "python") if folder else None
    return path if path and is_runnable(path) else None


def _is_on_path(folder: Path) -> bool:
    return any(_is_same(Path(each), folder) for each in path_folders())


def _is_same(one: Path, other: Path) -> bool:
    """Are they the same file of the same folder? ``python`` of two environments may be links to one file."""
    folders = (os.path.realpath(one.parent), os.path.realpath(other.parent))
    return folders[0] == folders[1] and os.path.realpath(one) == os.path.realpath(other)


def _is_own(path: Path) -> bool:
    return os.path.realpath(path.parent) == os.path.realpath(Path(sys.executable).parent)


def _is_tool() -> bool:
    """Was the recorder's environment made by a tool, for the recorder alone?"""
    return any(Path(sys.prefix, name).exists() for name in _TOOL_FILES)
