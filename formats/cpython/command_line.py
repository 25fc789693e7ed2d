"""What the command line of a Python process says about the code that it runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

_INTERPRETER = r"(python|pypy)(\d+(\.\d+)?t?)?"
#: Options of Python without a value, and then -c, in one word.
_CODE_OPTION = r"-[bBdEhiIOPqRsSuvx]*c"


def names_interpreter(command: Sequence[str | None]) -> bool:
    """Is a word of this command the name of an interpreter?"""
    return any(_is_interpreter(word or "") for word in command)


def given_code(command: Sequence[str | None]) -> str | None:
    """The code that ``-c`` gives to the interpreter of this command, which may come after a program that runs it; None if
    there is none, or if a library starts a worker by it."""
    words = iter([word or "" for word in command])
    if not any(_is_interpreter(word) for word in words):  # leaves the words after it
        return None
    for word in words:
        if option := re.match(_CODE_OPTION, word):
            code = word[option.end() :] or next(words, "")
            return None if _starts_a_worker(code) else code
        if word in ("-X", "-W"):
            next(words, "")
        elif not word.startswith("-") or word.startswith("-m"):
            return None
    return None


def _is_interpreter(word: str) -> bool:
    return re.fullmatch(_INTERPRETER, PurePosixPath(word).name) is not None


def _starts_a_worker(code: str) -> bool:
    """Is this code of ``-c`` one of those by which multiprocessing, or a library that sends its worker's code (execnet of
    pytest-xdist), starts a process?"""
    return code.startswith("from multiprocessing.") or ("exec(" in code and "\n" not in code.strip())
