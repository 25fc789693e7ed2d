"""What the commands of scalene-analyze print: to stdout, and to nowhere else."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .render import Screen


def screen(no_color: bool) -> Screen:
    """The screen that stdout is."""
    from .render import screen_for

    return screen_for(sys.stdout, no_color)


def print_lines(lines: Iterable[str]) -> None:
    """Writes lines, each with its end."""
    write("".join(line + "\n" for line in lines))


def print_json(document: Any) -> None:
    """Writes a document: indented on a terminal, on one line elsewhere."""
    write(json.dumps(document, indent=2 if sys.stdout.isatty() else None, allow_nan=False) + "\n")


def write(text: str) -> None:
    """Writes to stdout. A closed pipe is no error: its reader has seen enough."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_bytes(contents: bytes) -> None:
    """Writes to stdout as it is. A closed pipe is no error here either."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(contents)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
