"""The tools of ``scalene-analyze mcp``: questions about the traces that were named at its start, answered in plain text.

A tool reads these traces and nothing else, and writes nothing. Its answer is what the command of the same name prints with
``--plain``, in at most MOST_CHARACTERS.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

from ...analyze.trace.selection import Selection
from ...formats.units import counted
from . import reports
from .answers import Question, Request
from .options import UsageError, selection_of, selection_parameters
from .selected import unmatched

#: Of an answer, and of a line in it.
MOST_CHARACTERS, MOST_IN_LINE = 24_000, 800
#: Records of each list, rows of SQL, lines of source.
ROWS, SQL_ROWS, SOURCE_LINES = 20, 100, 200
MOST_ROWS = 1000
#: After so long, SQL is interrupted.
SQL_S = 60.0

#: The commands that are tools under their own names; `info` is called after what it lists.
_COMMANDS = {
    "traces": reports.info,
    "report": reports.report,
    "functions": reports.functions,
    "leaks": reports.leaks,
    "memory": reports.memory,
    "timeline": reports.timeline,
    "threads": reports.threads,
    "tasks": reports.tasks,
    "libraries": reports.libraries,
    "processes": reports.processes,
}
#: Options of these commands that say how their text looks.
_OF_TEXT = ("all_lines", "legend")
_TRACES = "Numbers of the traces to use, from 1 (tool traces lists them). Default: all, whose figures are summed."


@dataclass(frozen=True)
class Parameter:
    """A parameter of a tool. ``default``: ``...`` = it must be given. Whole numbers have bounds."""

    name: str
    type: Any
    text: str
    default: Any = None
    bounds: tuple[int, int] | None = None


@dataclass(frozen=True)
class Tool:
    """A tool: ``answer`` takes its parameters by name. It raises the errors of the commands, of which ``str()`` is a sentence."""

    name: str
    text: str
    parameters: tuple[Parameter, ...]
    answer: Callable[..., str]


_OF_TRACES = Parameter("traces", list[int] | None, _TRACES)
_LIMIT = Parameter("limit", int, "Most rows of each list.", ROWS, (1, MOST_ROWS))


def tools_for(paths: Sequence[Path]) -> list[Tool]:
    """The tools that answer questions about these traces."""
    found = [_command_tool(paths, name, command.question) for name, command in _COMMANDS.items()]  # type: ignore[attr-defined]
    return [*found, _source_tool(paths), _diff_tool(paths), _sql_tool(paths), _schema_tool()]


def bounded(lines: Iterable[str]) -> str:
    """The lines as a text of at most MOST_CHARACTERS, and a sentence about what is missing."""
    kept: list[str] = []
    size, missing = 0, 0
    for line in lines:
        shown = _shortened(line)
        size += len(shown) + 1
        if missing or size > MOST_CHARACTERS - 200:
            missing += 1
        else:
            kept.append(shown)
    if missing:
        do_not = counted(missing, "more line does", "more lines do")
        kept.append(f"… {do_not} not fit in an answer. Ask for less: a smaller limit, a part of the time, or one file.")
    return "\n".join(kept)


def _shortened(line: str) -> str:
    left = len(line) - MOST_IN_LINE
    return f"{line[:MOST_IN_LINE]}… ({counted(left, 'more character', 'more characters')})" if left > 0 else line


def _of(paths: Sequence[Path], numbers: Sequence[int] | None) -> list[Path]:
    """The traces of these numbers. Raises UsageError."""
    for number in numbers or ():
        if not 1 <= number <= len(paths):
            raise UsageError(
                f"There is no trace {number}. Their numbers are 1 to {len(paths)}; tool traces lists them."
            )
    return [paths[number - 1] for number in numbers] if numbers else list(paths)


# ---- the commands ----


def _command_tool(paths: Sequence[Path], name: str, question: Question) -> Tool:
    own = [
        Parameter(each.name, get_args(each.annotation)[0], get_args(each.annotation)[1].help, each.default)
        for each in list(inspect.signature(question.answer, eval_str=True).parameters.values())[1:]
        if each.name not in _OF_TEXT
    ]
    shared = [Parameter("sort", str | None, "Field to sort the rows by.")] if question.has_sort else []
    selecting = [
        Parameter(each.name, get_args(each.annotation)[0], get_args(each.annotation)[1].help, each.default)
        for each in selection_parameters(question.selects)
    ]
    text = inspect.cleandoc(question.answer.__doc__ or "").partition("\n\nExamples:")[0]
    parameters = (_OF_TRACES, _LIMIT, *shared, *own, *selecting)
    return Tool(name, text, parameters, partial(_answer, paths, question))


def _answer(
    paths: Sequence[Path],
    question: Question,
    traces: Sequence[int] | None = None,
    limit: int = ROWS,
    sort: str | None = None,
    **values: Any,
) -> str:
    selection = selection_of(**{name: values.pop(name) for name in question.selects if name in values})
    answer = question.answer(Request(_of(paths, traces), selection, sort, None), **values)
    notes = unmatched(selection, answer.result.traces) if question.selects else ()
    return bounded([*notes, *answer.as_plain(limit)])


# ---- source ----


def _source_tool(paths: Sequence[Path]) -> Tool:
    parameters = (
        Parameter("file", str, "The file, as the report names it, or the end of its path.", ...),
        Parameter("first", int, "First line.", 1, (1, 10**9)),
        Parameter("last", int | None, f"Last line. Default: {counted(SOURCE_LINES, 'line', 'lines')} in all."),
        _OF_TRACES,
    )
    text = "Show the text of a source file as it was when it was recorded, with the figures of each line under it."
    return Tool("source", text, parameters, partial(_source, paths))


def _source(
    paths: Sequence[Path], file: str, first: int = 1, last: int | None = None, traces: Sequence[int] | None = None
) -> str:
    from ...analyze.report.report import build_report
    from ..render.plain import source_text

    report = build_report(_of(paths, traces), Selection())
    name = _file_named(file, report.sources)
    end = min(last if last is not None else first + SOURCE_LINES - 1, len(report.sources[name]))
    return bounded(source_text(report, name, first, end))


def _file_named(file: str, sources: Iterable[str]) -> str:
    """The stored file that ``file`` means. Raises UsageError unless there is one."""
    names = sorted(sources)
    found = [name for name in names if name == file] or [
        name for name in names if name.endswith("/" + file.lstrip("/"))
    ]
    if len(found) != 1:
        which = f"Several files end so: {', '.join(found[:10])}" if found else _known(names)
        raise UsageError(f"The source of {file} is not in the traces, or not under this name. {which}.")
    return found[0]


def _known(names: Sequence[str]) -> str:
    return f"Files with source and figures: {', '.join(names[:20])}" if names else "They have no source with figures"


# ---- comparison, SQL ----


def _diff_tool(paths: Sequence[Path]) -> Tool:
    parameters = (
        Parameter("before", list[int], "Numbers of the traces of the old version.", ...),
        Parameter("after", list[int], "Numbers of the traces of the new version.", ...),
        Parameter("per_second", bool, "Compare figures per second of the runs.", False),
        _LIMIT,
    )
    text = (
        "Compare runs of two versions, line by line. Lines are matched by their text and function; each change has a verdict"
        " (better, worse, noise) and the probability p of such a change by noise alone."
    )
    return Tool("diff", text, parameters, partial(_diff, paths))


def _diff(
    paths: Sequence[Path], before: Sequence[int], after: Sequence[int], per_second: bool = False, limit: int = ROWS
) -> str:
    from ...analyze.diff.compare import Asked, LengthError, compare, read_sides
    from ...analyze.diff.results import diff_json
    from ..render.plain import plain_text

    if not before or not after:
        raise UsageError("Name a trace on each side: before and after are lists of numbers from 1.")
    asked = Asked(Selection(), per_second, (), None, None)
    try:
        result = compare(*read_sides(_of(paths, before), _of(paths, after), asked), asked)
    except LengthError as error:
        raise UsageError(str(error)) from error
    return bounded(plain_text(diff_json(result), limit))


def _sql_tool(paths: Sequence[Path]) -> Tool:
    parameters = (
        Parameter("statement", str, "One SELECT over the views that tool schema lists (DuckDB's SQL).", ...),
        Parameter("limit", int, "Most rows.", SQL_ROWS, (1, MOST_ROWS)),
        _OF_TRACES,
    )
    text = f"Run SQL over the views of the traces; the answer is CSV. Stopped after {SQL_S:g} s."
    return Tool("sql", text, parameters, partial(_sql, paths))


def _sql(paths: Sequence[Path], statement: str, limit: int = SQL_ROWS, traces: Sequence[int] | None = None) -> str:
    from ...analyze.user_sql.run import run_sql
    from ..render.sql import csv_text

    names, rows = run_sql(_of(paths, traces), statement, Selection(), limit + 1, SQL_S)
    lines = csv_text(names, rows[:limit], is_terminal=True).splitlines()
    return bounded([*lines, *([f"… more than {counted(limit, 'row', 'rows')}"] if len(rows) > limit else [])])


def _schema_tool() -> Tool:
    names = Parameter(
        "views", list[str] | None, "Views to describe with their columns. Default: the names of all views."
    )
    return Tool("schema", "List the views for tool sql, or their columns with units.", (names,), _schema)


def _schema(views: Sequence[str] | None = None) -> str:
    from ...analyze.trace.views import describe
    from ..render.sql import schema_text
    from ..render.text import Screen
    from .sql import named_views

    if views:
        return bounded(schema_text(named_views(list(views), describe()), Screen(), 0))
    return bounded(_view_names())


def _view_names() -> Iterator[str]:
    from ...analyze.trace.views import FIRST, describe

    yield f"Most questions need one of these: {', '.join(FIRST)}."
    yield from (f"{name}: {text}" for name, text, _ in describe())
