"""Output of the commands of scalene-analyze: text and JSON on stdout, and files."""

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
    from ...render.text import Screen


def screen(color: str) -> Screen:
    """The properties of stdout that matter to text: width, colours (auto, always or never), characters."""
    from ...render.text import screen_for

    return screen_for(sys.stdout, color)


def print_lines(lines: Iterable[str]) -> None:
    """Writes lines to stdout."""
    write("".join(line + "\n" for line in lines))


def print_plain(lines: Iterable[str]) -> None:
    """Writes lines of plain text, in which the mark of errors is ± or, where stdout cannot show it, +-."""
    has_unicode = screen("never").has_unicode
    simple = {} if has_unicode else str.maketrans({"±": "+-", "×": "x", "…": "..."})
    print_lines(line.translate(simple) for line in lines)


def print_json(document: Any) -> None:
    """Writes a JSON document to stdout: indented on a terminal, on one line elsewhere."""
    write(json.dumps(document, indent=2 if sys.stdout.isatty() else None, allow_nan=False) + "\n")


def write(text: str) -> None:
    """Writes to stdout. A closed pipe is not an error, because its reader needs no more. Raises UsageError."""
    with _to_stdout():
        sys.stdout.write(text)
        sys.stdout.flush()


def write_bytes(contents: bytes) -> None:
    """Writes bytes to stdout, with the same errors."""
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
        raise UsageError(f"Cannot write to stdout: {error.strerror}.") from error


def check_output(output: str, traces: Sequence[Path], is_binary: bool) -> None:
    """Raises UsageError if ``output`` (a file, or - for stdout) is one of the traces, or a terminal and the contents are
    not text."""
    if output == "-":
        if is_binary and sys.stdout.isatty():
            raise UsageError(
                "Cannot print this format to a terminal: it is binary. Name a file with -o, or use a pipe."
            )
    elif any(os.path.realpath(output) == os.path.realpath(trace) for trace in traces):
        raise UsageError(f"Cannot write to {output}: it is the trace itself. Name another file with -o.")


def save(contents: bytes, output: str) -> None:
    """Writes to the file ``output``, or to stdout if it is -. Only the owner may read a new file. Raises UsageError."""
    if output == "-":
        return write_bytes(contents)
    path = Path(output)
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(contents)  # a pipe, or /dev/null
        else:
            _replace(path, contents)
    except OSError as error:
        raise UsageError(f"Cannot write {output}: {error.strerror}.") from error
    return None


def _replace(path: Path, contents: bytes) -> None:
    """Writes beside ``path`` and renames, so that an existing file stays complete until the new one is."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:50]}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(contents)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
