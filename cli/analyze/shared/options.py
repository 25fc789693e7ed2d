"""The options that the commands of scalene-analyze share: their types for typer, and the checks of their values."""

from __future__ import annotations

import difflib
import functools
import glob
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ....analyze.trace.selection import Selection
from ....formats.units import counted

#: Names of replaced recordings.
_OLD = re.compile(r"\.old(\.[2-9])?\.parquet$")
DEFAULT_TRACE = "trace.parquet"

Paths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TRACE...]",
        help="Trace files, or quoted patterns. Figures of several traces are summed.",
        show_default=DEFAULT_TRACE,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Plain = Annotated[
    bool, typer.Option("--plain", help="Print the figures of --json as plain text, for agents and pipes.")
]
Limit = Annotated[
    int | None, typer.Option("--limit", min=0, metavar="N", help="Show at most N rows.", show_default=False)
]
Sort = Annotated[
    str | None,
    typer.Option("--sort", metavar="FIELD", help="Sort the rows by a field of the JSON output.", show_default=False),
]
From = Annotated[
    float | None,
    typer.Option(
        "--from", metavar="SECONDS", help="Use only samples from this time of the recording on.", show_default=False
    ),
]
To = Annotated[
    float | None,
    typer.Option(
        "--to", metavar="SECONDS", help="Use only samples before this time of the recording.", show_default=False
    ),
]
Process = Annotated[
    list[int] | None,
    typer.Option(
        "--process",
        metavar="ID",
        help="Use only this process; `processes` lists the ids. May be repeated.",
        show_default=False,
    ),
]
Thread = Annotated[
    list[int] | None,
    typer.Option(
        "--thread",
        metavar="ID",
        help="Use only this thread; `threads` lists the ids. May be repeated.",
        show_default=False,
    ),
]
Mark = Annotated[
    str | None,
    typer.Option(
        "--mark",
        metavar="TEXT",
        help="Use only samples from within this user mark: its time, the process that set it, and its children.",
        show_default=False,
    ),
]
Label = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        metavar="NAME=VALUE",
        help="Use only samples of code with this label (scalene_trace.recorder.label). If repeated, with all of them.",
        show_default=False,
    ),
]
Include = Annotated[
    list[str] | None,
    typer.Option(
        "--include",
        metavar="GLOB",
        help="Treat matching files as the program's own code, not as library code. May be repeated.",
        show_default=False,
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        metavar="GLOB",
        help="Treat matching files as library code; overrides --include and --all. May be repeated.",
        show_default=False,
    ),
]
AllFiles = Annotated[bool, typer.Option("--all", help="Treat all files as the program's own code.")]
#: When to print colours.
COLORS = ("auto", "always", "never")
Color = Annotated[
    str,
    typer.Option(
        "--color",
        metavar="WHEN",
        help="When to print colours: always, never, or auto (on a terminal).",
        autocompletion=lambda: list(COLORS),
    ),
]
NoColor = Annotated[bool, typer.Option("--no-color", help="Print without colours, like --color never.")]

#: Fields of rows that hold several figures, so that rows cannot be sorted by them.
_UNORDERED = ("waits", "trend", "native_libraries", "device_copies", "labels")


class UsageError(Exception):
    """Wrong usage; ``str()`` is a sentence or two."""


#: The default of a command's parameter ``selection``, in whose place :func:`selecting` puts the options.
EVERYTHING = Selection()

#: The options that make a selection, in the order of the help: type, and value where it is not given.
_SELECTING: dict[str, tuple[Any, Any]] = {
    "from_s": (From, None),
    "to_s": (To, None),
    "process": (Process, None),
    "thread": (Thread, None),
    "mark": (Mark, None),
    "label": (Label, None),
    "include": (Include, None),
    "exclude": (Exclude, None),
    "all_files": (AllFiles, False),
}
#: The names of all options that make a selection.
SELECTS = tuple(_SELECTING)


def option_parameters(options: Iterable[tuple[str, Any, Any]]) -> list[inspect.Parameter]:
    """Parameters of a command, for typer to read, from name, type and default."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [inspect.Parameter(name, kind, default=default, annotation=type_) for name, type_, default in options]


def selection_parameters(names: Sequence[str]) -> list[inspect.Parameter]:
    """The parameters of the options called ``names`` that make a selection."""
    return option_parameters((name, *_SELECTING[name]) for name in names)


def set_signature(command: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> None:
    """Lets typer see these parameters in the place of the function's own."""
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}


def selecting(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the options that select samples, in the place of its parameter ``selection``."""

    @functools.wraps(command)
    def run(**values: Any) -> Any:
        asked = {name: values.pop(name) for name in SELECTS}
        return command(**values, selection=selection_of(**asked))

    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        parameters += selection_parameters(SELECTS) if parameter.name == "selection" else [parameter]
    set_signature(run, parameters)
    return run


def selection_of(
    from_s: float | None = None,
    to_s: float | None = None,
    process: list[int] | None = None,
    thread: list[int] | None = None,
    mark: str | None = None,
    label: list[str] | None = None,
    include: list[str] | None = None,
    exclude: list[str] | None = None,
    all_files: bool = False,
) -> Selection:
    """The selection that the options ask for; :func:`.selected.placed` finds out which time and processes a mark stands
    for. Raises UsageError where the window of time is empty, or said twice."""
    if mark is not None and (from_s is not None or to_s is not None or process):
        raise UsageError("--mark stands for a time and for processes. Leave out --from, --to and --process.")
    if any(time_s is not None and not abs(time_s) < 1e9 for time_s in (from_s, to_s)):
        raise UsageError("--from and --to are seconds from the start of the recording, below 1e9.")
    if from_s is not None and to_s is not None and to_s <= from_s:
        raise UsageError(f"--to {to_s:g} is not after --from {from_s:g}, so no sample is between them.")
    for each in label or ():
        if not each.partition("=")[1] or each.startswith("="):
            raise UsageError(f"--label {each!r} is no label. Write a name and a value, like --label endpoint=/cart.")
    globs = tuple(include or ()), tuple(exclude or ())
    return Selection(
        from_s, to_s, tuple(process or ()), tuple(thread or ()), *globs, all_files, mark, tuple(label or ())
    )


def checked_sort(sort: str | None, row: type) -> str | None:
    """``sort``, if rows of this type have such a field. Raises UsageError, with the closest field, if they have not."""
    names = [name for name in row.__dataclass_fields__ if name not in _UNORDERED]  # type: ignore[attr-defined]
    if sort is not None and sort not in names:
        close = difflib.get_close_matches(sort, names, 1)
        raise UsageError(
            f"Cannot sort by {sort}: there is no such field. "
            + (f"Did you mean {close[0]}?" if close else f"Fields: {', '.join(names)}.")
        )
    return sort


def checked_color(color: str, no_color: bool) -> str:
    """When to print colours: one of COLORS. Raises UsageError for anything else."""
    if color not in COLORS:
        raise UsageError(f"--color {color} is not known. It can be {', '.join(COLORS[:-1])} or {COLORS[-1]}.")
    return "never" if no_color else color


def given_paths(words: Sequence[str]) -> list[Path]:
    """The traces meant: patterns expanded, and replaced recordings (*.old.parquet) left out if others are given too. Without
    words it is trace.parquet."""
    if not words:
        return [default_trace()]
    paths = [path for word in words for path in _expanded(word)]
    current = [path for path in paths if not is_old(path.name)]
    if current and len(current) < len(paths):
        count = len(paths) - len(current)
        recordings = counted(count, "replaced recording", "replaced recordings")
        print(
            f"scalene-analyze: left out {recordings} (*.old.parquet). To read one, name it without others.",
            file=sys.stderr,
        )
    return current or paths


def default_trace() -> Path:
    """The recorder's default output. Raises UsageError if there is none in the current folder."""
    if not exists(DEFAULT_TRACE):
        raise UsageError(
            f"There is no {DEFAULT_TRACE} in this folder. Name a trace, or record one: scalene-record app.py"
        )
    return Path(DEFAULT_TRACE)


def is_old(name: str) -> bool:
    """Is this the name of a replaced recording?"""
    return _OLD.search(name) is not None


def exists(word: str) -> bool:
    """Whether there is a file of this name. The word may be SQL, which may not even be a valid file name."""
    try:
        return bool(word) and Path(word).exists()
    except (OSError, ValueError):
        return False


def _expanded(word: str) -> list[Path]:
    found = sorted(glob.glob(word)) if any(c in word for c in "*?[") and not exists(word) else []  # noqa: PTH207
    return [Path(each) for each in found] or [Path(word)]


def check_name(what: str, name: str, names: Iterable[str]) -> None:
    """Raises UsageError for an option ``--what`` whose value is none of ``names``."""
    known = list(names)
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        hint = f"Did you mean {close[0]}?" if close else f"Use {', '.join(known[:-1])} or {known[-1]}."
        raise UsageError(f"--{what} {name} is not known. {hint}")
