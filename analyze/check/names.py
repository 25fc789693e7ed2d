"""Which names a budget may use: files and functions of the traces.

A function without a sample is still known if it is defined in a file whose source the trace has. Files without any sample
are not in a trace.
"""

from __future__ import annotations

import ast
import difflib
import fnmatch
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..trace.selection import Selection
from ..trace.traces import open_traces
from .budget import Rule

_MOST_HINTS = 3


@dataclass(frozen=True)
class Names:
    """``own``: (file, function) of the user's code; ``foreign``: of other code; ``lines``: number of lines by file, where the
    source is known."""

    own: set[tuple[str, str]] = field(default_factory=set)
    foreign: set[tuple[str, str]] = field(default_factory=set)
    lines: dict[str, int] = field(default_factory=dict)


def names_in(paths: Sequence[Path], selection: Selection) -> Names:
    """The names in the traces, which are opened one at a time. Raises the errors of :func:`open_traces`."""
    names = Names()
    for path in paths:
        with open_traces([path], selection) as traces:
            run = traces.connection.execute
            own = {(file, name or "") for file, name in run("SELECT file, function FROM user_locations").fetchall()}
            every = run("SELECT DISTINCT file, function FROM locations WHERE file IS NOT NULL").fetchall()
            files = {file for file, _ in own}
            texts = run("SELECT file, text FROM sources WHERE text IS NOT NULL").fetchall()
            versions = run("SELECT DISTINCT python_version FROM processes WHERE python_version IS NOT NULL").fetchall()
        are_plain = {version.startswith("3.10.") for (version,) in versions} or {False}
        names.own.update(own)
        names.foreign.update({(file, name or "") for file, name in every} - own)
        for file, text in texts:
            names.lines[file] = max(names.lines.get(file, 0), len(text.splitlines()))
            if file in files:
                names.own.update((file, name) for plain in are_plain for name in defined_functions(text, plain))
    names.foreign.difference_update(names.own)
    return names


def defined_functions(text: str, plain: bool = False) -> set[str]:
    """The names of the functions and classes that a source defines; none if this Python cannot parse it. They are qualified
    unless ``plain``, which traces of 3.10 have: a name of the other kind would keep every limit."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those about the program's source; they may be errors here
            todo: list[tuple[ast.AST, str]] = [(ast.parse(text), "")]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    found = {"<module>"}
    while todo:
        node, prefix = todo.pop()
        for child in ast.iter_child_nodes(node):
            inner = prefix
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.add(child.name if plain else prefix + child.name)
                inner = prefix + child.name + ("." if isinstance(child, ast.ClassDef) else ".<locals>.")
            todo.append((child, inner))
    return found


def problem(rule: Rule, names: Names) -> str:
    """Why no row can match the rule, in words, or "" if one could: then it has no sample."""
    if any(matches(rule, *each) for each in names.own):
        return _line_problem(rule, names)
    if any(matches(rule, *each) for each in names.foreign):
        return "it is not the program's own code; --all or --include counts it"
    files = {file for file, _ in names.own}
    if rule.file is not None and not any(matches_file(rule.file, file) for file in files):
        shown = {_last_part(file): file if "/" in rule.file else _last_part(file) for file in sorted(files)}
        return f"no such file in the trace{_hint(shown[each] for each in _close(_last_part(rule.file), shown))}"
    functions = {name for file, name in names.own if rule.file is None or matches_file(rule.file, file)}
    pattern = rule.function or ""
    same = sorted(name for name in functions if _own_name(name) == _own_name(pattern))
    return f"no such function in the trace{_hint(same[:_MOST_HINTS] or _close(pattern, functions))}"


def matches_file(pattern: str, file: str) -> bool:
    """Does the pattern match the path, or without a slash its last part?"""
    return fnmatch.fnmatchcase(file if "/" in pattern else _last_part(file), pattern)


def _own_name(function: str) -> str:
    """Without the names of the classes and functions around it."""
    return function.rpartition(".")[2]


def _last_part(file: str) -> str:
    return file.rpartition("/")[2]


def matches(rule: Rule, file: str, function: str) -> bool:
    """Are the file and the function those of the rule?"""
    if rule.file is not None and not matches_file(rule.file, file):
        return False
    return rule.function is None or fnmatch.fnmatchcase(function, rule.function)


def _line_problem(rule: Rule, names: Names) -> str:
    """A line after the end of each file that matches cannot be meant."""
    files = {file for file, _ in names.own if rule.file is None or matches_file(rule.file, file)}
    if rule.line is None or not all(file in names.lines for file in files):
        return ""
    most = max(names.lines[file] for file in files)
    return "" if 0 < rule.line <= most else f"no such line in the trace; the file has {most:,}"


def _close(name: str, known: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(name, sorted(known), _MOST_HINTS)


def _hint(names: Iterable[str]) -> str:
    text = " or ".join(names)
    return f". Did you mean {text}?" if text else ""
