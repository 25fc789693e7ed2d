"""The interpreter that a shim of pyenv would start.

The shim runs about eighty processes of bash before it, which would all be in the trace. What cannot be decided by the two
plainest rules of pyenv (a version that is named in full by ``PYENV_VERSION`` or a file) is left to the shim.

Files are looked for with os.path: before Python 3.14, the methods of Path fail in a folder that may not be searched.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

#: Of a file that names versions, and of a shim.
_MOST_BYTES = 4096


def behind_shim(path: Path) -> Path:
    """``path`` itself unless it is a shim of pyenv whose interpreter is known."""
    root = path.parent.parent
    if path.parent.name != "shims" or not os.path.isdir(root / "versions"):  # noqa: PTH112
        return path
    text = _text(path)
    if not text.startswith("#!") or "pyenv" not in text:
        return path
    versions = _versions(root)
    if not versions:
        return path
    binary = root / "versions" / versions[0] / "bin" / path.name
    is_inside = ".." not in Path(versions[0]).parts and not versions[0].startswith("/") and "\0" not in versions[0]
    return binary if is_inside and os.path.isfile(binary) and os.access(binary, os.X_OK) else path  # noqa: PTH113


def _versions(root: Path) -> list[str]:
    named = os.environ.get("PYENV_VERSION")
    if named:
        return named.split(":")
    file = next(filter(os.path.isfile, _local_files()), root / "version")
    lines = (line.split() for line in _text(file).splitlines() if not line.lstrip().startswith("#"))
    return [word for words in lines for word in words]


def _local_files() -> Iterator[Path]:
    """Where pyenv looks for ``.python-version``: in each folder above that of PYENV_DIR, then above the current one."""
    with suppress(OSError):
        here = Path.cwd()
        for start in filter(None, (os.environ.get("PYENV_DIR"), str(here))):
            for folder in (here / start, *(here / start).parents):
                yield folder / ".python-version"


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""
