"""The tools of ``scalene-analyze mcp``: questions about the traces that were named at its start, answered in plain text.

A tool reads these traces and nothing else, and writes nothing. Its answer is what the command of the same name prints with
``--plain``, in at most MOST_CHARACTERS.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from ...analyze.trace.selection import Selection
from ...formats.units import counted
from . import reports
from .shared.answers import Question, Request
from .shared.options import SELECTS, UsageError, selection_of, selection_parameters
from .shared.selected import placed, unmatched

if TYPE_CHECKING:
    from ...analyze.user_sql.run import Deadline

#: Of an answer, of a line in it, and of a value of SQL.
MOST_CHARACTERS, MOST_IN_LINE, MOST_IN_VALUE = 24_000, 4_000, 800
#: Records of each list, rows of SQL, points of the timeline, lines of source.
ROWS, SQL_ROWS, POINTS, SOURCE_LINES = 20, 100, 100, 200
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
    "labels": reports.labels,
    "libraries": reports.libraries,
    "processes": reports.processes,
}
#: Options of these commands that say how their text looks.
_OF_TEXT = ("all_lines", "legend")
_TRACES = "Numbers of the traces to use, from 1 (tool traces lists them). Default: all, whose figures are summed."
#: Names of the command line in texts, and what the tools call them.
_OPTION = re.compile(r"--([a-z][a-z-]*)")
_RENAMED = {"all": "all_files", "from": "from_s", "to": "to_s"}


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
    """A tool: ``answer`` takes its parameters by name, and ``deadline`` if ``has_deadline``. It raises the errors of the
    commands, of which ``str()`` is a sentence."""

    name: str
    text: str
    parameters: tuple[Parameter, ...]
    answer: Callable[..., str]
    has_deadline: bool = False


_OF_TRACES = Parameter("traces", list[int] | None, _TRACES)
_LIMIT = Parameter("limit", int, "Most rows of each list.", ROWS, (1, MOST_ROWS))


def tools_for(paths: Sequence[Path]) -> list[Tool]:
    """The tools that answer questions about these traces."""
    found = [_command_tool(paths, name, command.question) for name, command in _COMMANDS.items()]  # type: ignore[attr-defined]
    return [*found, _source_tool(paths), _diff_tool(paths), _sql_tool(paths), _schema_tool()]


def in_words_of_tools(text: str) -> str:
    """A text about options of the command line, about the parameters of tools."""
    text = _OPTION.sub(lambda found: _RENAMED.get(found[1], found[1].replace("-", "_")), text)
    text = text.replace(" May be repeated.", "").replace("`scalene-analyze info`", "`traces`")
    return text.replace("`scalene-analyze ", "`")


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
    """The traces of these numbers. Raises UsageError, also for one that is named twice: its figures would count twice."""
    for place, number in enumerate(numbers or ()):
        if not 1 <= number <= len(paths):
            raise UsageError(
                f"There is no trace {number}. Their numbers are 1 to {len(paths)}; tool traces lists them."
            )
        if numbers and number in numbers[:place]:
            raise UsageError(f"Trace {number} is named twice.")
    return [paths[number - 1] for number in numbers] if numbers else list(paths)


def _renumbered(document: Any, numbers: Sequence[int] | None) -> Any:
    """The document with the numbers of the server in the place of those among the traces that were read."""
    if isinstance(document, list):
        return [_renumbered(each, numbers) for each in document]
    if not isinstance(document, dict):
        return document
    found = {name: _renumbered(value, numbers) for name, value in document.items()}
    if numbers and isinstance(number := found.get("trace"), int):
        found["trace"] = numbers[number - 1]
    return found


def _plain(document: dict[str, Any], numbers: Sequence[int] | None, limit: int | None) -> Iterator[str]:
    from ..render.plain import plain_text

    document["traces"] = [{"trace": place} | trace for place, trace in enumerate(document["traces"], 1)]
    return plain_text(_renumbered(document, numbers), limit)


# ---- the commands ----


def _parameters(parameters: Iterable[inspect.Parameter]) -> Iterator[Parameter]:
    """Parameters of a command as those of a tool."""
    from ...analyze.report.memory import BY

    for each in parameters:
        kind, option = get_args(each.annotation)[:2]
        bounds = (int(option.min), 10**15) if option.min is not None else None
        kind = Literal[BY] if each.name == "by" else kind
        yield Parameter(each.name, kind, in_words_of_tools(option.help), each.default, bounds)


def _selecting(names: Sequence[str] = SELECTS) -> tuple[Parameter, ...]:
    return tuple(_parameters(selection_parameters(names)))


def _selection(values: dict[str, Any]) -> Selection:
    """The selection that the parameters ask for, which are taken from ``values``. Raises UsageError."""
    return selection_of(**{name: values.pop(name) for name in SELECTS if name in values})


def _command_tool(paths: Sequence[Path], name: str, question: Question) -> Tool:
    _, *own = inspect.signature(question.answer, eval_str=True).parameters.values()
    shared = [Parameter("sort", str | None, "Field to sort the rows by.")] if question.has_sort else []
    text = inspect.cleandoc(question.answer.__doc__ or "").partition("\n\nExamples:")[0]
    is_thinned = name == "timeline"
    limit = Parameter("limit", int, "Most points of each trace.", POINTS, (1, MOST_ROWS)) if is_thinned else _LIMIT
    parameters = (
        _OF_TRACES,
        limit,
        *shared,
        *_parameters(each for each in own if each.name not in _OF_TEXT),
        *_selecting(question.selects),
    )
    return Tool(name, in_words_of_tools(text), parameters, partial(_answer, paths, question, is_thinned))


def _answer(
    paths: Sequence[Path],
    question: Question,
    is_thinned: bool,
    *,
    limit: int,
    traces: Sequence[int] | None = None,
    sort: str | None = None,
    **values: Any,
) -> str:
    """``is_thinned``: the command itself leaves out rows, where they matter least."""
    found = _of(paths, traces)
    selection = placed(_selection(values), found)
    asked, most_rows = (limit, None) if is_thinned else (None, limit)
    answer = question.answer(Request(found, selection, sort, asked), **values)
    notes = unmatched(selection, answer.result.traces) if question.selects else ()
    return bounded([*map(in_words_of_tools, notes), *_plain(answer.as_json(answer.result), traces, most_rows)])


# ---- source ----


def _source_tool(paths: Sequence[Path]) -> Tool:
    parameters = (
        Parameter("file", str, "The file, as the report names it, or the end of its path.", ...),
        Parameter("first", int, "First line.", 1, (1, 10**9)),
        Parameter("last", int | None, f"Last line. Default: {counted(SOURCE_LINES, 'line', 'lines')} in all."),
        _OF_TRACES,
        *_selecting(),
    )
    text = "Show the text of a source file as it was when it was recorded, with the figures of each line under it."
    return Tool("source", text, parameters, partial(_source, paths))


def _source(
    paths: Sequence[Path],
    file: str,
    first: int = 1,
    last: int | None = None,
    traces: Sequence[int] | None = None,
    **values: Any,
) -> str:
    from ...analyze.report.report import build_report
    from ..render.plain import source_text

    if last is not None and last < first:
        raise UsageError(f"The last line, {last}, is before the first one, {first}.")
    found = _of(paths, traces)
    report = build_report(found, placed(_selection(values), found))
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
        which = f"Several files end so: {', '.join(map(repr, found[:10]))}" if found else _known(names)
        raise UsageError(f"The source of {file} is not in the traces, or not under this name. {which}.")
    return found[0]


def _known(names: Sequence[str]) -> str:
    return (
        f"Files with source and figures: {', '.join(map(repr, names[:20]))}"
        if names
        else "They have no source with figures"
    )


# ---- comparison, SQL ----


def _diff_tool(paths: Sequence[Path]) -> Tool:
    parameters = (
        Parameter("before", list[int], "Numbers of the traces of the old version.", ...),
        Parameter("after", list[int], "Numbers of the traces of the new version.", ...),
        Parameter("per_second", bool, "Compare figures per second of the runs.", False),
        _LIMIT,
        *_selecting(),
    )
    text = (
        "Compare runs of two versions, line by line. Lines are matched by their text and function; each change has a verdict"
        " (better, worse, noise) and the probability p of such a change by noise alone."
    )
    return Tool("diff", text, parameters, partial(_diff, paths))


def _diff(
    paths: Sequence[Path],
    before: Sequence[int],
    after: Sequence[int],
    per_second: bool = False,
    limit: int = ROWS,
    **values: Any,
) -> str:
    from ...analyze.diff.compare import Asked, LengthError, compare, read_sides
    from ...analyze.diff.results import diff_json
    from ...analyze.report.marked import MarkError

    if not before or not after:
        raise UsageError("Name a trace on each side: before and after are lists of numbers from 1.")
    numbers = [*before, *after]
    asked = Asked(_selection(values), per_second, (), None, None)
    found = _of(paths, numbers)
    try:
        result = compare(*read_sides(found[: len(before)], found[len(before) :], asked), asked)
    except (LengthError, MarkError) as error:
        raise UsageError(in_words_of_tools(str(error))) from error
    document = diff_json(result)
    document.pop("advice", None)  # commands for a person, with the recorded command in them
    return bounded(_plain(document, numbers, limit))


def _sql_tool(paths: Sequence[Path]) -> Tool:
    numbering = " The column trace numbers these from 1, in the order given."
    parameters = (
        Parameter("statement", str, "One SELECT over the views that tool schema lists (DuckDB's SQL).", ...),
        Parameter("limit", int, "Most rows.", SQL_ROWS, (1, MOST_ROWS)),
        Parameter(_OF_TRACES.name, _OF_TRACES.type, _OF_TRACES.text + numbering),
        *_selecting(),
    )
    text = (
        "Run SQL over the views of the traces. The answer is a line with the number of rows, then CSV. Long values are cut."
        f" Stopped after {SQL_S:g} s. The parameters that select samples apply to the views lines and functions."
    )
    return Tool("sql", text, parameters, partial(_sql, paths), has_deadline=True)


def _sql(
    paths: Sequence[Path],
    statement: str,
    deadline: Deadline,
    limit: int = SQL_ROWS,
    traces: Sequence[int] | None = None,
    **values: Any,
) -> str:
    from ...analyze.user_sql.run import sql_texts
    from ..render.sql import csv_text

    found = _of(paths, traces)
    names, rows = sql_texts(found, statement, placed(_selection(values), found), limit + 1, MOST_IN_VALUE + 1, deadline)
    more = ", the first of more" if len(rows) > limit else ""
    shown = [tuple(map(_cut, row)) for row in rows[:limit]]
    lines = csv_text(names, shown, is_terminal=True, is_for_spreadsheets=False).splitlines()
    return bounded([f"{counted(len(rows[:limit]), 'row', 'rows')}{more}:", *lines])


def _cut(value: str | None) -> str | None:
    return f"{value[:MOST_IN_VALUE]}… (cut)" if value and len(value) > MOST_IN_VALUE else value


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
