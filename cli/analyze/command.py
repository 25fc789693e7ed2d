"""``scalene-analyze``: answers questions about traces.

Exit codes: 0; 1 if a gate fails (`diff --fail-on`, `check`); 2 for wrong usage; 3 if a trace cannot be read or is
damaged; 70 for an internal error. A closed pipe is not an error.
"""

from __future__ import annotations

import difflib
import inspect
import os
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from ...formats.errors import OutOfMemory, TraceError
from ..live.command import live
from .check import check
from .diff import diff
from .export import export
from .html import html
from .mcp import mcp
from .reports import functions, info, labels, leaks, libraries, memory, processes, report, tasks, threads, timeline
from .shared.options import DEFAULT_TRACE, UsageError, exists
from .shared.output import write
from .sql import sql
from .start import EXIT_INTERRUPTED

NAME = "scalene-analyze"
EXIT_USAGE = 2
EXIT_TRACE = 3
EXIT_BUG = 70
#: If set to any value, a bug shows a traceback.
DEBUG_VARIABLE = "SCALENE_TRACE_DEBUG"

HELP = """Answer questions about traces that scalene-record wrote.

`scalene-analyze TRACE...` is short for `scalene-analyze report TRACE...`. Without a trace, all commands read
trace.parquet.

Examples:
  scalene-analyze
  scalene-analyze leaks trace.parquet
  scalene-analyze diff before.parquet after.parquet
  scalene-analyze sql trace.parquet "SELECT * FROM lines LIMIT 5"
"""
EXIT_STATUS = """Exit status: 0; 1 if a gate fails (diff --fail-on, check); 2 for wrong usage; 3 if a trace cannot be
read or is damaged; 70 for an internal error."""

_GLOBAL_OPTIONS = ("--help", "-h", "--version", "--install-completion", "--show-completion")
#: The class of click. Some versions of typer bring their own copy of click and give this class no public name.
_ClickUsageError: type[Exception] = typer.BadParameter.__mro__[1]

#: Every command by name, in the order of the help.
COMMANDS: dict[str, Callable[..., Any]] = {
    "report": report,
    "functions": functions,
    "leaks": leaks,
    "memory": memory,
    "timeline": timeline,
    "diff": diff,
    "check": check,
    "threads": threads,
    "tasks": tasks,
    "labels": labels,
    "libraries": libraries,
    "processes": processes,
    "html": html,
    "info": info,
    "live": live,
    "sql": sql,
    "export": export,
    "mcp": mcp,
}
#: Groups of commands by name. Their modules are imported when one of their commands runs, or help is shown.
GROUPS = ("fleet",)


def _print_version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        write(f"{NAME} {version('scalene-trace')}\n")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    pass


def build_app(names: Collection[str]) -> typer.Typer:
    """The command line with these commands only: to build all of them takes longer than most queries."""
    app = typer.Typer(
        add_completion={*COMMANDS} <= {*names},  # completion belongs to the command line as a whole
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=_help(HELP), epilog=EXIT_STATUS)(_options)
    for name in names:
        if name in GROUPS:
            from ..fleet.group import build_group

            app.add_typer(build_group(), name=name)
        else:
            app.command(name, help=_help(COMMANDS[name].__doc__ or ""))(COMMANDS[name])
    return app


def _help(text: str) -> str:
    """``text`` for typer: paragraphs with an indented line, like examples, keep their lines (typer's mark is \\b)."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(f"\b\n{each}" if "\n  " in f"\n{each}" else each for each in paragraphs)


def with_command(arguments: Sequence[str]) -> list[str]:
    """``arguments``, with their command first, which may follow options, and ``report`` if they name none; alone if there
    are none, but a trace to report. Raises UsageError for a mistyped command."""
    if not arguments and exists(DEFAULT_TRACE):
        return ["report"]
    if not arguments or arguments[0] in (*COMMANDS, *GROUPS, *_GLOBAL_OPTIONS):
        return list(arguments)
    first = arguments[0]
    if (place := _command_after_options(arguments)) is not None:
        return [arguments[place], *arguments[:place], *arguments[place + 1 :]]
    if not first.startswith("-") and not exists(first) and "/" not in first and "." not in first:
        close = difflib.get_close_matches(first, (*COMMANDS, *GROUPS), 1)
        hint = f"Did you mean {close[0]}?" if close else f"Commands: {', '.join((*COMMANDS, *GROUPS))}."
        raise UsageError(f"There is no command and no file {first}. {hint}")
    return ["report", *arguments]


def _command_after_options(arguments: Sequence[str]) -> int | None:
    """The place of a command whose own options come before it, as in ``--color always report``. A file of this name is a
    trace."""
    flags = _flags().union(_GLOBAL_OPTIONS) if arguments[0].startswith("-") else set()
    place = 0
    while place < len(arguments) and (word := arguments[place]).startswith("-") and word not in ("-", "--"):
        has_value = "=" in word or (word[1] != "-" and len(word) > 2)  # in the same word
        place += 1 if has_value or word in flags else 2
    if not 0 < place < len(arguments) or (found := arguments[place]) not in COMMANDS:
        return None
    return None if exists(found) and not Path(found).is_dir() else place


def _flags() -> set[str]:
    """The options of all commands that take no value."""
    signatures = [inspect.signature(command, eval_str=True) for command in COMMANDS.values()]
    types = [parameter.annotation for signature in signatures for parameter in signature.parameters.values()]
    flags = [option for kind, option in map(get_args, types) if kind is bool]
    # typer takes the first name for the default, until it has read the annotation
    return {name for option in flags for names in (option.default, *option.param_decls) for name in names.split("/")}


def run(arguments: Sequence[str]) -> int:
    """Runs the command line; returns the exit code."""
    from ...analyze.user_sql.run import QueryRefused

    try:
        return _invoke(with_command(arguments))
    except (UsageError, QueryRefused) as error:
        return _fail(str(error), EXIT_USAGE)
    except TraceError as error:
        return _fail(str(error), EXIT_TRACE)
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # while click printed the help
            return 0
        raise
    except MemoryError:
        return _fail(str(OutOfMemory()), EXIT_TRACE)
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        if isinstance(error, OSError):  # no space, no permission, too many open files
            return _fail(f"Operating system error: {error}.", EXIT_USAGE)
        return _fail(_bug_report(error), EXIT_BUG)


def _invoke(arguments: list[str]) -> int:
    known = (*COMMANDS, *GROUPS)
    names = [name for name in arguments[:1] if name in known] or known
    try:
        result = build_app(names)(args=arguments, prog_name=NAME, standalone_mode=False)
    except _ClickUsageError as error:
        error.show()  # type: ignore[attr-defined]
        return EXIT_USAGE
    return result if isinstance(result, int) else 0


def _fail(message: str, code: int) -> int:
    from ..render.text import clean

    text = "\n".join(clean(line) for line in message.splitlines())
    print(f"{NAME}: {text}", file=sys.stderr)
    return code


def _bug_report(error: Exception) -> str:
    return (
        f"This is a bug in {NAME} ({type(error).__name__}: {error}). Please report it with the output of the same"
        f" command under {DEBUG_VARIABLE}=1."
    )
