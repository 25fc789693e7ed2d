"""What the commands of scalene-analyze print to stdout, or write where they were told to."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .options import UsageError

if TYPE_CHECKING:
    from ..render.text import Screen


def screen(no_color: bool) -> Screen:
    """The screen that stdout is."""
    from ..render.text import screen_for

    return screen_for(sys.stdout, no_color)


def print_lines(lines: Iterable[str]) -> None:
    """Writes lines, each with its end."""
    write("".join(line + "\n" for line in lines))


def print_json(document: Any) -> None:
    """Writes a document: indented on a terminal, on one line elsewhere."""
    write(json.dumps(document, indent=2 if sys.stdout.isatty() else None, allow_nan=False) + "\n")


def write(text: str) -> None:
    """Writes to stdout. A closed pipe is no error: its reader has seen enough. Raises UsageError where nothing more fits."""
    with _to_stdout():
        sys.stdout.write(text)
        sys.stdout.flush()


def write_bytes(contents: bytes) -> None:
    """Writes to stdout as it is, with the same errors."""
    with _to_stdout():
        sys.stdout.flush()
        sys.stdout.buffer.write(contents)
        sys.stdout.buffer.flush()


@contextmanager
def _to_stdout() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise UsageError(f"The output cannot be written: {error.strerror}.") from error


def check_output(output: str, traces: Sequence[Path], is_binary: bool) -> None:
    """Raises UsageError where ``output`` (a file, or - for stdout) is the trace, or a terminal for what is no text."""
    if output == "-":
        if is_binary and sys.stdout.isatty():
            raise UsageError("This format is not text. Name a file with -o, or pipe it on.")
    elif any(os.path.realpath(output) == os.path.realpath(trace) for trace in traces):
        raise UsageError(f"{output} is the trace itself. Name another file with -o.")


def save(contents: bytes, output: str) -> None:
    """Writes to the file ``output``, or to stdout where it is -. Raises UsageError where that is not possible."""
    if output == "-":
        return write_bytes(contents)
    path = Path(output)
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(contents)  # a pipe, or /dev/null
        else:
            _replace(path, contents)
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}.") from error
    return None


def _replace(path: Path, contents: bytes) -> None:
    """Writes beside ``path`` and renames: a file that is there stays whole until the new one is."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:50]}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(contents)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
