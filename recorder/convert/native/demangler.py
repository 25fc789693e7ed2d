"""A program that reads mangled names for :mod:`.demangle`.

It forks for them, and again after a name that ended the fork: that name stays as it is in the file, the later ones are
read. It is started while people wait, so it imports little: with the imports of its parent, it began 20 ms later.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from mmap import mmap

#: CPU time for one name and for all names that the process is given.
_NAME_S, _SECONDS = 0.1, 1.0
#: What names may take beside what the process has before it reads one.
_MEMORY_BYTES = 256 << 20
_LONGEST, _LONG = 400, 100
_OF_RUST = re.compile(r"_R[A-Z]|_ZN.*17h[0-9a-f]{16}E")
_PART = re.compile(r"\.(?:isra|part|constprop|cold|lto_priv|llvm)\b.*$")
_RUST_HASH = re.compile(r"::h[0-9a-f]{16}$")
_OPERATOR = re.compile(r"operator(?:\(\)|\[\]|->\*?|<=>|<<=?|>>=?|<=?|>=?)")
_AFTER_PARAMETERS = re.compile(r"(?: const| volatile| &&?| noexcept| \[.*)*$")
_THUNK = re.compile(r"^\{virtual override thunk\(.*?, (.*)\)\}$")
_OF_OTHER = re.compile(r"^[a-z -]* (?:for|to) ")
_OF_METHOD = re.compile(r" (?:const|volatile|&&?)(?=::)")
_BEFORE_SPACE = re.compile(r"operator\W{0,3}$|operator (?:new|.*\b(?:unsigned|long))$")
_OPENING, _CLOSING = "(<[{", ")>]}"


def _demangler(package: str) -> Callable[[str], str] | None:
    """That of a package; None = not installed."""
    try:
        found: Callable[[str], str] = __import__(package).demangle
    except Exception:
        return None
    return found


def _readable(name: str, cpp: Callable[[str], str] | None, rust: Callable[[str], str] | None) -> str:
    """The readable form of a name, "" = it cannot be read."""
    name = _PART.sub("", name)
    is_rust = bool(_OF_RUST.match(name))
    read = (rust or cpp) if is_rust else cpp
    try:
        text = read(name) if read else ""
    except Exception:  # of the packages: whatever a hostile name makes them raise
        return ""
    text = _RUST_HASH.sub("", text) if is_rust else without_parameters(text)
    text = shortened(text)
    if not text.isprintable():  # $u0$ stands for NUL, which ends an answer: those after it would move to other names
        return ""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _marks(text: str) -> Iterator[tuple[int, str]]:
    """Spaces and round brackets of a C++ name that are in no other brackets, with their positions."""
    depth, at = 0, 0
    while at < len(text):
        if (operator := _OPERATOR.match(text, at)) and (at == 0 or not text[at - 1].isalnum()):
            at = operator.end()
            continue
        if depth == 0 and (qualifier := _OF_METHOD.match(text, at)):
            at = qualifier.end()
            continue
        letter = text[at]
        depth -= letter in _CLOSING and not (letter == ">" and text[at - 1] == "-")
        if depth == 0 and letter in "( )":
            yield at, letter
        depth += letter in _OPENING
        at += 1


def without_parameters(text: str) -> str:
    """The name of a C++ function, of what ``c++filt`` prints: ``a::f<int>`` of ``void a::f<int>(int) const``."""
    if thunk := _THUNK.match(text):
        text = thunk.group(1)
    if _OF_OTHER.match(text):
        return text
    marks = list(_marks(text))
    closing = max((at for at, letter in marks if letter == ")"), default=-1)
    if closing >= 0 and _AFTER_PARAMETERS.match(text, closing + 1):
        opening = max(at for at, letter in marks if letter == "(" and at < closing)
        if not text.startswith("(anonymous", opening) and opening:
            text = text[:opening]
    spaces = [at for at, letter in marks if letter == " " and at < len(text)]
    while spaces and _BEFORE_SPACE.search(text[: spaces[-1]]):
        spaces.pop()
    return text[spaces[-1] + 1 :] if spaces else text


def shortened(text: str) -> str:
    """A name that is not long, if leaving out parameters of the functions around it, and inner arguments, makes it so."""
    if len(text) <= _LONG:
        return text
    brackets = [at for at, letter in _marks(text) if letter != " "]
    kept, start = "", 0
    for opening, closing in zip(brackets[::2], brackets[1::2], strict=False):
        if text[opening : closing + 1] != "(anonymous namespace)":
            kept += text[start:opening]
            qualifier = _OF_METHOD.match(text, closing + 1)
            start = qualifier.end() if qualifier else closing + 1
    text = kept + text[start:]
    shorter = (without_arguments(text, levels) for levels in (3, 2, 1))
    return next((each for each in (text, *shorter) if len(each) <= _LONG), without_arguments(text))


def without_arguments(text: str, levels: int = 0) -> str:
    """A name with ``<…>`` for the arguments of its templates that lie deeper than ``levels``: ``a<…>::f<…>``. Brackets that a
    name begins with, as those of Rust's implementations, stay."""
    kept: list[str] = []
    depth = at = 0
    operator = None
    while at < len(text):
        takes_arguments = operator is not None or (at > 0 and (text[at - 1].isalnum() or text[at - 1] in "_:}"))
        operator = _OPERATOR.match(text, at) if at == 0 or not text[at - 1].isalnum() else None
        part = operator.group() if operator else text[at]
        is_opening = part == "<" and (depth > 0 or takes_arguments)
        is_closing = part == ">" and depth > 0 and text[at - 1] != "-"
        depth -= is_closing
        if depth < levels or (depth == levels and not is_closing):
            kept.append("<…>" if is_opening and depth == levels else part)
        depth += is_opening
        at += len(part)
    return "".join(kept)


def _serve() -> None:
    """Reads names from stdin, writes number and readable form of each to stdout, ended by a NUL."""
    sys.path += sys.argv[1:]
    cpp = _demangler("cpp_demangle")
    names = sys.stdin.buffer.read().decode("utf-8", "replace").split("\0")  # the others may come long after its start
    rust = _demangler("rust_demangler") if any(map(_OF_RUST.match, names)) else None
    with open("/proc/self/statm") as file:  # noqa: PTH123 (pathlib takes 10 ms)
        taken_bytes = int(file.read().split()[0]) * resource.getpagesize()
    limits = (resource.RLIMIT_CORE, 0), (resource.RLIMIT_AS, taken_bytes + _MEMORY_BYTES), (resource.RLIMIT_CPU, 2)
    for kind, most in limits:
        allowed = resource.getrlimit(kind)[1]  # raising it is an error
        limit = most if allowed == resource.RLIM_INFINITY else min(most, allowed)
        resource.setrlimit(kind, (limit, limit))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPROF])
    begun = mmap(-1, 8)  # the number of names that forks have begun to read
    at = 0
    while at < len(names) and (left_s := _SECONDS - sum(os.times()[2:4])) > 0:
        if child := os.fork():
            os.waitpid(child, 0)
            at = max(at + 1, int.from_bytes(begun[:], "little"))
            continue
        try:
            for number in range(at, len(names)):
                if time.process_time() > left_s:
                    break
                begun[:] = (number + 1).to_bytes(8, "little")
                signal.setitimer(signal.ITIMER_PROF, _NAME_S)
                text = _readable(names[number], cpp, rust)
                signal.setitimer(signal.ITIMER_PROF, 0)
                os.write(1, f"{number}:{text}\0".encode("utf-8", "replace"))  # whole: shorter than PIPE_BUF
        finally:
            os._exit(0)


if __name__ == "__main__":
    _serve()
