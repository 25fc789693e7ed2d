"""The options that the commands of scalene-analyze share, as types of their parameters, and what they say."""

from __future__ import annotations

import difflib
import functools
import glob
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ...analyze.trace.selection import Selection

_OLD_SUFFIX = ".old.parquet"

Paths = Annotated[
    list[str], typer.Argument(metavar="TRACE...", help="Trace files; several are added up.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON (docs/json.md) instead of text.")]
Limit = Annotated[int | None, typer.Option("--limit", min=0, metavar="N", help="At most N rows.", show_default=False)]
Sort = Annotated[
    str | None, typer.Option("--sort", metavar="FIELD", help="Order by a field of the JSON output.", show_default=False)
]
From = Annotated[
    float | None, typer.Option("--from", metavar="S", help="Only samples from this second on.", show_default=False)
]
To = Annotated[
    float | None, typer.Option("--to", metavar="S", help="Only samples before this second.", show_default=False)
]
Process = Annotated[
    list[int] | None,
    typer.Option(
        "--process", metavar="ID", help="Only this process (id as in `processes`); may be repeated.", show_default=False
    ),
]
Thread = Annotated[
    list[int] | None,
    typer.Option("--thread", metavar="ID", help="Only this thread; may be repeated.", show_default=False),
]
Include = Annotated[
    list[str] | None,
    typer.Option("--include", metavar="GLOB", help="Count files that match as the program's own.", show_default=False),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude", metavar="GLOB", help="Do not count files that match; wins over the others.", show_default=False
    ),
]
AllFiles = Annotated[bool, typer.Option("--all", help="Count every file, library code too.")]
AllLines = Annotated[bool, typer.Option("--all-lines", help="Show every line that has a sample.")]
NoColor = Annotated[bool, typer.Option("--no-color", help="No colours.")]
By = Annotated[str, typer.Option("--by", metavar="NAME", help="Rows by line, function, type or allocator.")]
TemporarySeconds = Annotated[
    float | None,
    typer.Option(
        "--temporary-s", min=0, metavar="S", help="What lived at most S seconds is temporary too.", show_default=False
    ),
]
TemporaryAllocations = Annotated[
    int | None,
    typer.Option(
        "--temporary-allocations",
        min=0,
        max=10**15,
        metavar="N",
        help="So is what was freed before more than N others were allocated.",
        show_default=False,
    ),
]

#: Fields of rows that are no single figure or name.
_UNORDERED = ("waits", "trend", "native_libraries", "device_copies")


class UsageError(Exception):
    """Wrong usage; ``str()`` is a sentence or two."""


#: What a command that selects samples has for its parameter ``selection``: :func:`selecting` puts the options there.
EVERYTHING = Selection()

#: The options that make a selection, in the order of the help: type, and value where it is not given.
_SELECTING: dict[str, tuple[Any, Any]] = {
    "from_s": (From, None),
    "to_s": (To, None),
    "process": (Process, None),
    "thread": (Thread, None),
    "include": (Include, None),
    "exclude": (Exclude, None),
    "all_files": (AllFiles, False),
}


def selecting(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a command the options called ``names`` (all of them, if none is named) in the place of its parameter
    ``selection``, which they make."""
    chosen = {name: _SELECTING[name] for name in names or _SELECTING}

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def run(**values: Any) -> Any:
            asked = {name: values.pop(name) for name in chosen}
            return command(**values, selection=selection_of(**asked))

        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            if parameter.name == "selection":
                kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
                parameters += [
                    inspect.Parameter(name, kind, default=value, annotation=type_)
                    for name, (type_, value) in chosen.items()
                ]
            else:
                parameters.append(parameter)
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate


def selection_of(
    from_s: float | None = None,
    to_s: float | None = None,
    process: list[int] | None = None,
    thread: list[int] | None = None,
    include: list[str] | None = None,
    exclude: list[str] | None = None,
    all_files: bool = False,
) -> Selection:
    """What the options ask for. Raises UsageError where the window makes no sense."""
    if any(time_s is not None and not abs(time_s) < 1e9 for time_s in (from_s, to_s)):
        raise UsageError("--from and --to are seconds from the start of the recording.")
    if from_s is not None and to_s is not None and to_s <= from_s:
        raise UsageError(f"--to {to_s:g} is not after --from {from_s:g}.")
    globs = tuple(include or ()), tuple(exclude or ())
    return Selection(from_s, to_s, tuple(process or ()), tuple(thread or ()), *globs, all_files)


def checked_sort(sort: str | None, row: type) -> str | None:
    """``sort``, if rows of this type have such a field. Raises UsageError, with the closest one, where they have not."""
    names = [name for name in row.__dataclass_fields__ if name not in _UNORDERED]  # type: ignore[attr-defined]
    if sort is not None and sort not in names:
        close = difflib.get_close_matches(sort, names, 1)
        raise UsageError(
            f"There is no field {sort} to sort by."
            + (f" Did you mean {close[0]}?" if close else f" Fields: {', '.join(names)}.")
        )
    return sort


def given_paths(words: Sequence[str]) -> list[Path]:
    """The traces meant: patterns expanded, replaced recordings (*.old.parquet) left out where others are given too."""
    paths = [path for word in words for path in _expanded(word)]
    current = [path for path in paths if not path.name.endswith(_OLD_SUFFIX)]
    if current and len(current) < len(paths):
        print(
            f"Left out {len(paths) - len(current)} replaced recording(s) (*{_OLD_SUFFIX}); name them alone to see them.",
            file=sys.stderr,
        )
    return current or paths


def exists(word: str) -> bool:
    """Is there a file of this name? SQL may be no possible name at all."""
    try:
        return bool(word) and Path(word).exists()
    except (OSError, ValueError):
        return False


def _expanded(word: str) -> list[Path]:
    found = sorted(glob.glob(word)) if any(c in word for c in "*?[") and not exists(word) else []  # noqa: PTH207
    return [Path(each) for each in found] or [Path(word)]
