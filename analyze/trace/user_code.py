"""Which files are the user's code: samples are charged to their lines.

Everything that Python and installers have put there is not: the standard library, installed packages, launchers in
``bin``, and code that libraries generate.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePosixPath

from .connection import Connection
from .selection import Selection

#: Files of a Python installation: the standard library and installed packages.
_INSTALLED = re.compile(
    r"(^|/)lib(64)?/python3(\.\d+)?t?/"
    r"|(^|/)(site|dist)-packages/"
    r"|(^|/)python3\d+\.zip(/|$)"
    r"|^<(frozen |attrs generated |__array_function__ internals)"
)
#: The name that Python gives to the code of ``-c``, but also to code that libraries run with exec: methods of dataclasses
#: and named tuples, lines of .pth files, the start of workers that multiprocessing spawns.
_EXECUTED = "<string>"
_IN_BIN = re.compile(r"(^|/)bin/[^/.]+$")
_INTERPRETER = re.compile(r"python(\d+(\.\d+)?t?)?")
#: The longest script that pip, uv or setuptools writes to start an installed program has 33 lines.
_MOST_LINES_OF_A_LAUNCHER = 40


def select_user_files(connection: Connection, selection: Selection) -> None:
    """Fills the table ``user_files`` with the files of the opened traces that are the user's code."""
    rows = connection.execute("SELECT DISTINCT file FROM locations WHERE file IS NOT NULL").fetchall()
    files = [file for (file,) in rows]
    chosen = user_files(files, selection, _written_by_others(connection, files))
    connection.execute("INSERT INTO user_files SELECT unnest(?::VARCHAR[])", (chosen,))


def user_files(files: Iterable[str], selection: Selection, others: Iterable[str] = ()) -> list[str]:
    """Those of ``files`` that are the user's code.

    By default these are all files outside of the standard library, installed packages and frozen modules, except
    ``others``. ``all_files`` adds every file, ``include`` adds matching files, and ``exclude`` takes precedence over both.
    """
    included, excluded, excepted = _matcher(selection.include), _matcher(selection.exclude), frozenset(others)

    def is_user(file: str) -> bool:
        return file not in excepted and not _INSTALLED.search(file)

    return [file for file in files if not excluded(file) and (selection.all_files or is_user(file) or included(file))]


def _written_by_others(connection: Connection, files: Sequence[str]) -> list[str]:
    """Of the files outside of the installation, those that the user has not written: launchers and generated code."""
    candidates = [file for file in files if _IN_BIN.search(file) or file == _EXECUTED]
    if not candidates:
        return []
    query = "SELECT file, any_value(text) FROM sources WHERE list_contains(?::VARCHAR[], file) GROUP BY file"
    texts = {file: text for file, text in connection.execute(query, (candidates,)).fetchall() if text is not None}
    is_generated = _EXECUTED in candidates and _EXECUTED not in texts and not any(map(runs_code, _commands(connection)))
    return launchers(texts) + [_EXECUTED] * is_generated


def _commands(connection: Connection) -> Iterator[list[str]]:
    """The recorded command of each trace, where it is known."""
    query = "SELECT value FROM settings WHERE name = 'command' AND value IS NOT NULL"
    for (text,) in connection.execute(query).fetchall():
        with suppress(ValueError):
            words = json.loads(text)
            yield [str(word) for word in words] if isinstance(words, list) else []


def runs_code(command: Sequence[str]) -> bool:
    """Does this command run code that was given with ``-c``, so that the user has written what is in ``<string>``?"""
    if not command:
        return False
    is_python = _INTERPRETER.fullmatch(PurePosixPath(command[0]).name) is not None
    return command[0] == "-c" or (is_python and "-c" in command[1:])


def launchers(texts: Mapping[str, str]) -> list[str]:
    """Those files in ``bin`` (name to text) that an installer has written only to start an installed program.

    All of them correct ``sys.argv[0]`` and pass what the program returns to ``sys.exit``.
    """
    return [
        file
        for file, text in texts.items()
        if _IN_BIN.search(file)
        and "sys.exit(" in text
        and "sys.argv[0]" in text
        and text.count("\n") <= _MOST_LINES_OF_A_LAUNCHER
    ]


class _matcher:  # noqa: N801 (used as a function)
    """Does a file match any of the globs? A glob without a slash is compared with the last part of the path."""

    def __init__(self, globs: Iterable[str]) -> None:
        self._globs = [(re.compile(fnmatch.translate(glob)), "/" in glob) for glob in globs]

    def __call__(self, file: str) -> bool:
        name = file.rpartition("/")[2]
        return any(glob.match(file if is_path else name) for glob, is_path in self._globs)
