"""Instructions of a program and of the shim within it, counted by valgrind's callgrind (Debian: valgrind)."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

#: Names stand in the file once, with a number, and are numbers from then on.
_OBJECT = re.compile(r"(c?)ob=\((\d+)\)(?: (.*))?")


def prefix(output: Path) -> list[str]:
    """The command line in front of a program."""
    return ["valgrind", "--quiet", "--tool=callgrind", "--trace-children=yes", f"--callgrind-out-file={output}"]


def instructions(output: Path) -> Counter[str]:
    """How many instructions of each file (program or library, without its folder) were executed."""
    names: dict[str, str] = {}
    found: Counter[str] = Counter()
    current, is_call = "", False
    for line in output.read_text(errors="replace").splitlines():
        if match := _OBJECT.match(line):
            of_callee, number, name = match.groups()
            names.setdefault(number, (name or "").rpartition("/")[2])
            current = current if of_callee else names[number]
        elif line.startswith("calls="):
            is_call = True  # the next line has the cost of the callee, which is counted there
        elif line[:1] in "0123456789+-*" and line:
            if not is_call and len(words := line.split()) > 1:
                found[current] += int(words[-1])
            is_call = False
    return found
