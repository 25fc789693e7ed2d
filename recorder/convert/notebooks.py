"""Cells of Jupyter notebooks. A kernel compiles each under a file name that is a hash of its text, and writes no such file. So
the texts are those of notebooks that a command line names, as ``jupyter execute a.ipynb``, where their hash is the name."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..rights.opening import OpenFile, Withheld

#: Of a notebook: it is read as a whole, with its outputs.
LARGEST_BYTES = 16 * 1024 * 1024
#: Of the cells of one notebook, each of which is hashed.
MOST_CELL_BYTES = 2 * 1024 * 1024
_MOST_NOTEBOOKS = 100
_OF_KERNEL = r"/ipykernel_\d+/(\d+)\.py"
_OF_SHELL = r"<ipython-input-\d+-([0-9a-f]{12})>"
_SEED = 0xC70F6907  # of ipykernel
_WORD = 0xFFFFFFFF


class Cells:
    """``texts``: by the names of their files; ``unread``: notebooks that could not be read; ``withheld``: that may not be."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.unread = self.withheld = 0


def notebooks_in(commands: Iterable[list[str] | None]) -> set[str]:
    """The notebooks that these command lines name."""
    return {word for command in commands for word in command or () if word.endswith(".ipynb")}


def read_cells(files: Iterable[str], notebooks: Iterable[str], folder: str, open_file: OpenFile) -> Cells:
    """The texts of those ``files`` that are cells of the ``notebooks``. Relative names are taken from ``folder``."""
    found, names = Cells(), _names_of_cells(files)
    wanted = sorted(notebooks) if names else []
    found.unread = len(wanted[_MOST_NOTEBOOKS:])
    for notebook in wanted[:_MOST_NOTEBOOKS]:
        try:
            for text in _cells(open_file(Path(folder, notebook))):
                found.texts |= {file: text for each in _hashes(text) for file in names.get(each, ())}
        except (FileNotFoundError, NotADirectoryError):
            continue
        except Withheld:
            found.withheld += 1
        except Exception:  # a notebook may hold anything
            found.unread += 1
    return found


def is_cell(file: str) -> bool:
    """May the file be a cell of a notebook?"""
    return bool(_names_of_cells([file]))


def _names_of_cells(files: Iterable[str]) -> dict[str, list[str]]:
    """The files that are cells, by the hash in their names."""
    names: dict[str, list[str]] = {}
    for file in files:
        is_shell, is_kernel = file.startswith("<ipython-input-"), file.endswith(".py") and "/ipykernel_" in file
        if match := (is_shell and re.fullmatch(_OF_SHELL, file)) or (is_kernel and re.search(_OF_KERNEL, file)) or None:
            names.setdefault(match[1], []).append(file)
    return names


def _cells(descriptor: int) -> Iterator[str]:
    """The texts of the cells with code. Raises OSError, ValueError, and what json raises."""
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(LARGEST_BYTES + 1)
    if len(data) > LARGEST_BYTES:
        raise ValueError("too large for a notebook")
    notebook: Any = json.loads(data)
    size = 0
    for cell in notebook["cells"]:
        source = cell["source"] if cell["cell_type"] == "code" else ""
        text = source if isinstance(source, str) else "".join(source)
        size += len(text)
        if size > MOST_CELL_BYTES:
            raise ValueError("too much code for a notebook")
        if text:
            yield text


def _hashes(text: str) -> Iterator[str]:
    from hashlib import sha1  # here, because few recordings need it

    data = text.encode()
    yield str(murmur2(data, _SEED))
    for each in (data, data + b"\n"):  # the shell adds it
        yield sha1(each, usedforsecurity=False).hexdigest()[:12]


def murmur2(data: bytes, seed: int) -> int:
    """MurmurHash2 of ``data``, as ipykernel computes it."""
    factor, whole = 0x5BD1E995, len(data) // 4 * 4
    result = seed ^ len(data)
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * factor & _WORD
        result = (result * factor & _WORD) ^ ((word ^ word >> 24) * factor & _WORD)
    if rest := data[whole:]:
        result = (result ^ int.from_bytes(rest, "little")) * factor & _WORD
    result = (result ^ result >> 13) * factor & _WORD
    return result ^ result >> 15
