"""What the command line of a Python process says about the code that it runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

_INTERPRETER = r"(python|pypy)(\d+(\.\d+)?t?)?"
#: Options of Python without a value, and then -c, in one word.
_CODE_OPTION = r"-[bBdEhiIOPqRsSuvx]*c"
#: One line that imports a module of a package, or something of it, and calls that: how libraries start their processes.
_CALLS_A_MODULE = re.compile(
    r"(?:from (?P<package>\w+)(?:\.\w+)+ import (?P<name>\w+); ?(?P=name)"
    r"|import (?P<parent>\w+)(?P<module>(?:\.\w+)+); ?(?P=parent)(?P=module)\.\w+"
    r"|import (?P<renamed>\w+)(?:\.\w+)+ as (?P<alias>\w+); ?(?P=alias)\.\w+"
    r"|__import__\('(?P<imported>\w+)(?:\.\w+)+'\)(?:\.\w+)+)"
    r"\([^();\n]*\);?"
)


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


def called_package(code: str) -> str | None:
    """The package of which this code of ``-c`` only calls a function of a module, in one line: ``from PACKAGE.module import
    main; main(4)``. None if the code does anything else."""
    found = _CALLS_A_MODULE.fullmatch(code.strip())
    return next(filter(None, found.group("package", "parent", "renamed", "imported"))) if found else None


def _is_interpreter(word: str) -> bool:
    return re.fullmatch(_INTERPRETER, PurePosixPath(word).name) is not None


def _starts_a_worker(code: str) -> bool:
    """Is this code of ``-c`` one of those by which multiprocessing, or a library that sends its worker's code (execnet of
    pytest-xdist), starts a process?"""
    return code.startswith("from multiprocessing.") or ("exec(" in code and "\n" not in code.strip())
