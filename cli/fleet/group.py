"""The commands of ``scalene-analyze fleet``. This module is imported only for them, and for the help."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import typer

from .diff import diff
from .figures import flame, functions, leaks, memory, report
from .index import index
from .outliers import outliers
from .send import send
from .sql import sql
from .traces import traces
from .trend import trend

HELP = """Ask questions about a folder of traces.

`fleet index` reduces each new trace to its summary, once. All other commands read the summaries, so that thousands of
traces are answered for like one.

Examples:
  scalene-analyze fleet index /traces
  scalene-analyze fleet report --where version=1.4.2 --since 7d /traces
"""

#: Every command by name, in the order of the help.
COMMANDS: dict[str, Callable[..., Any]] = {
    "index": index,
    "report": report,
    "functions": functions,
    "memory": memory,
    "leaks": leaks,
    "flame": flame,
    "diff": diff,
    "trend": trend,
    "outliers": outliers,
    "traces": traces,
    "send": send,
    "sql": sql,
}


def build_group(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The group with these commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=with_lines(HELP))
    for name in names:
        group.command(name, help=with_lines(COMMANDS[name].__doc__ or ""))(COMMANDS[name])
    return group


def with_lines(text: str) -> str:
    """``text`` for typer: paragraphs with an indented line, like examples, keep their lines (typer's mark is \\b)."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(f"\b\n{each}" if "\n  " in f"\n{each}" else each for each in paragraphs)
