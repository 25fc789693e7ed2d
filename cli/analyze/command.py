"""scalene-analyze: answers questions about traces.

Exit codes: 0; 1 a gate (`diff --fail-on`, `check`) fails; 2 wrong usage; 3 a trace that cannot be read or is damaged; 70 a bug of ours. A closed pipe is no error.
"""

from __future__ import annotations

import difflib
import gc
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from ...analyze.trace.selection import Selection
from ...formats.errors import TraceError
from .check import check
from .diff import diff
from .export import export
from .html import html
from .native import libraries, processes
from .options import (
    EVERYTHING,
    AllLines,
    By,
    Json,
    Limit,
    NoColor,
    Paths,
    Sort,
    TemporaryAllocations,
    TemporarySeconds,
    UsageError,
    checked_sort,
    exists,
    given_paths,
    selecting,
)
from .output import print_json as _print_json
from .output import print_lines as _print_lines
from .output import screen as _screen
from .output import write as _write
from .sql import sql
from .tasks import tasks
from .threads import threads

EXIT_USAGE = 2
EXIT_TRACE = 3
EXIT_BUG = 70
#: Set to anything, it makes errors of ours show a traceback.
DEBUG_VARIABLE = "SCALENE_TRACE_DEBUG"

_GLOBAL_OPTIONS = ("--help", "-h", "--version", "--install-completion", "--show-completion")
#: Click's own; typer brings a click of its own along since 0.20, and names this class nowhere.
_ClickUsageError: type[Exception] = typer.BadParameter.__mro__[1]


def _print_version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        _write(f"scalene-analyze {version('scalene-trace')}\n")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Answers questions about traces that scalene-record wrote. `scalene-analyze TRACE...` is short for `report`."""


@selecting()
def report(
    paths: Paths,
    json_: Json = False,
    limit: Limit = None,
    sort: Sort = None,
    selection: Selection = EVERYTHING,
    all_lines: AllLines = False,
    no_color: NoColor = False,
) -> None:
    """Which lines take the time and the memory, with their source."""
    from ...analyze.report.report import build_report
    from ...analyze.results.report import Line, report_json

    result = build_report(given_paths(paths), selection, checked_sort(sort, Line), limit)
    if json_:
        return _print_json(report_json(result))
    from ..render.report import report_text

    return _print_lines(report_text(result, _screen(no_color), all_lines))


@selecting()
def functions(
    paths: Paths,
    json_: Json = False,
    limit: Limit = None,
    sort: Sort = None,
    selection: Selection = EVERYTHING,
    no_color: NoColor = False,
) -> None:
    """Which functions take the time and the memory, alone and with all that they call."""
    from ...analyze.report.report import build_report
    from ...analyze.results.base import Table, table_json
    from ...analyze.results.report import Function

    result = build_report(given_paths(paths), selection, checked_sort(sort, Function), limit)
    if json_:
        return _print_json(table_json(Table("functions", result.query, result.traces, result.functions)))
    from ..render.tables import functions_text

    return _print_lines(functions_text(result, _screen(no_color)))


@selecting()
def leaks(
    paths: Paths,
    json_: Json = False,
    limit: Limit = None,
    sort: Sort = None,
    selection: Selection = EVERYTHING,
    no_color: NoColor = False,
) -> None:
    """Which lines leak, how sure that is, and how fast."""
    from ...analyze.leaks.leaks import build_leaks
    from ...analyze.report.report import query_of
    from ...analyze.results.base import table_json
    from ...analyze.results.report import Leak

    asked = query_of(selection, sort, limit)
    table = build_leaks(given_paths(paths), selection, asked, checked_sort(sort, Leak), limit)
    if json_:
        return _print_json(table_json(table))
    from ..render.memory import leaks_text

    return _print_lines(leaks_text(table, _screen(no_color)))


@selecting()
def memory(
    paths: Paths,
    by: By = "line",
    temporary_s: TemporarySeconds = None,
    temporary_allocations: TemporaryAllocations = None,
    json_: Json = False,
    limit: Limit = None,
    sort: Sort = None,
    selection: Selection = EVERYTHING,
    no_color: NoColor = False,
) -> None:
    """Who allocates, what is alive when, what is temporary; and what the resident set consists of."""
    from ...analyze.report.memory import BY, MemoryQuery, build_memory
    from ...analyze.report.report import query_of
    from ...analyze.results.memory import MemoryRow, memory_json

    if by not in BY:
        raise UsageError(f"--by {by} is not known. Use {', '.join(BY[:-1])} or {BY[-1]}.")
    if temporary_s is not None and not temporary_s < 1e9:
        raise UsageError("--temporary-s is a number of seconds.")
    asked = MemoryQuery(by, temporary_s, temporary_allocations)
    query = query_of(selection, sort, limit) | vars(asked)
    order = checked_sort(sort, MemoryRow) or "alloc_bytes"
    result = build_memory(given_paths(paths), selection, asked, query, order, limit)
    if json_:
        return _print_json(memory_json(result))
    from ..render.memory import memory_text

    return _print_lines(memory_text(result, _screen(no_color)))


@selecting("from_s", "to_s", "process")
def timeline(
    paths: Paths,
    json_: Json = False,
    limit: Limit = None,
    selection: Selection = EVERYTHING,
    no_color: NoColor = False,
) -> None:
    """Memory of the program over time. --limit says how many points (100)."""
    from ...analyze.report.report import query_of
    from ...analyze.report.timeline import build_timeline
    from ...analyze.results.timeline import timeline_json

    table = build_timeline(
        given_paths(paths), selection, query_of(selection, None, limit), 100 if limit is None else limit
    )
    if json_:
        return _print_json(timeline_json(table))
    from ..render.tables import timeline_text

    return _print_lines(timeline_text(table, _screen(no_color)))


def info(paths: Paths, json_: Json = False, no_color: NoColor = False) -> None:
    """What was recorded, how, on what host; processes and losses."""
    from ...analyze.report.report import query_of
    from ...analyze.results.trace import info_json
    from ...analyze.trace.info import build_info

    table = build_info(given_paths(paths), query_of(Selection()))
    if json_:
        return _print_json(info_json(table))
    from ..render.tables import info_text

    return _print_lines(info_text(table, _screen(no_color)))


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
    "libraries": libraries,
    "processes": processes,
    "html": html,
    "info": info,
    "sql": sql,
    "export": export,
}


def build_app(names: Iterable[str]) -> typer.Typer:
    """The command line with these commands: building those that are not used takes longer than most queries."""
    app = typer.Typer(
        add_completion=set(names) == set(COMMANDS),  # it belongs to no command
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for name in names:
        app.command(name)(COMMANDS[name])
    return app


def with_command(arguments: Sequence[str]) -> list[str]:
    """``arguments`` with ``report`` put in front where they name no command. Raises UsageError for a mistyped one."""
    if not arguments or arguments[0] in (*COMMANDS, *_GLOBAL_OPTIONS):
        return list(arguments)
    first = arguments[0]
    if not first.startswith("-") and not exists(first) and "/" not in first and "." not in first:
        close = difflib.get_close_matches(first, COMMANDS, 1)
        hint = f"Did you mean {close[0]}?" if close else f"Commands: {', '.join(COMMANDS)}."
        raise UsageError(f"There is no command and no file {first}. {hint}")
    return ["report", *arguments]


def main() -> NoReturn:
    """Runs the command line and exits. Nothing is taken apart at the end: that would take a tenth of a second."""
    gc.disable()  # a short life: collections would only look at what lives to the end
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed before we began: there is nothing to read, and nobody to tell
            setattr(sys, name, Path(os.devnull).open("r" if name == "stdin" else "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    code = run(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)


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
        return 130
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # of the help, which is not printed by us
            return 0
        raise
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        if isinstance(error, OSError):  # no room, no right, too many files: the machine's, not ours
            return _fail(f"This machine does not let us go on: {error}.", EXIT_USAGE)
        return _fail(_bug_report(error), EXIT_BUG)


def _invoke(arguments: list[str]) -> int:
    names = [name for name in arguments[:1] if name in COMMANDS] or COMMANDS
    try:
        result = build_app(names)(args=arguments, prog_name="scalene-analyze", standalone_mode=False)
    except _ClickUsageError as error:
        error.show()  # type: ignore[attr-defined]
        return EXIT_USAGE
    return result if isinstance(result, int) else 0


def _fail(message: str, code: int) -> int:
    from ..render.text import clean

    text = "\n".join(clean(line) for line in message.splitlines())
    print(f"scalene-analyze: {text}", file=sys.stderr)
    return code


def _bug_report(error: Exception) -> str:
    return (
        f"This is a bug in scalene-analyze ({type(error).__name__}: {error}). Please report it with the output of the same"
        f" command under {DEBUG_VARIABLE}=1."
    )


if __name__ == "__main__":
    main()
