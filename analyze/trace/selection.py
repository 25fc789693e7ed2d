"""The selection: a time window, processes and threads, and the files that count as the user's code."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass

#: Files of a Python installation: the standard library and installed packages.
_INSTALLED = re.compile(
    r"(^|/)lib(64)?/python3(\.\d+)?t?/"
    r"|(^|/)(site|dist)-packages/"
    r"|(^|/)python3\d+\.zip(/|$)"
    r"|^<(frozen |attrs generated |__array_function__ internals)"
)


@dataclass(frozen=True)
class Selection:
    """The samples that a report uses.

    ``from_s`` and ``to_s`` (seconds from the start of the recording, ``to_s`` exclusive) and ``processes`` and ``threads``
    (ids of the trace) restrict the samples; None or empty means no restriction. ``include`` and ``exclude`` (globs) and
    ``all_files`` determine which files count as the user's code.
    """

    from_s: float | None = None
    to_s: float | None = None
    processes: tuple[int, ...] = ()
    threads: tuple[int, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    all_files: bool = False

    @property
    def from_ns(self) -> int | None:
        """Start of the window in ns; None = no restriction."""
        return None if self.from_s is None else round(self.from_s * 1e9)

    @property
    def to_ns(self) -> int | None:
        """End of the window (exclusive) in ns; None = no restriction."""
        return None if self.to_s is None else round(self.to_s * 1e9)


def user_files(files: Iterable[str], selection: Selection) -> list[str]:
    """Those of ``files`` that count as the user's code: samples are charged to their lines.

    By default these are all files outside of the standard library, installed packages and frozen modules. ``all_files``
    adds every file, ``include`` adds matching files, and ``exclude`` takes precedence over both.
    """
    included, excluded = _matcher(selection.include), _matcher(selection.exclude)
    return [
        file
        for file in files
        if not excluded(file) and (selection.all_files or not _INSTALLED.search(file) or included(file))
    ]


class _matcher:  # noqa: N801 (used as a function)
    """Does a file match any of the globs? A glob without a slash is compared with the last part of the path."""

    def __init__(self, globs: Iterable[str]) -> None:
        self._globs = [(re.compile(fnmatch.translate(glob)), "/" in glob) for glob in globs]

    def __call__(self, file: str) -> bool:
        name = file.rpartition("/")[2]
        return any(glob.match(file if is_path else name) for glob, is_path in self._globs)
