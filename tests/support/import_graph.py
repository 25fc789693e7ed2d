"""The imports of the package in a checkout, read from the source: what they name, and where it stands."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

#: Folders of a checkout that are installed as ``scalene_trace.NAME``.
PACKAGES = ("formats", "recorder", "analyze", "cli")
INSTALLED_AS = "scalene_trace"


@dataclass(frozen=True)
class Import:
    """An import in the file ``source`` (relative to the checkout).

    ``name`` is absolute, below the checkout for a relative import (``recorder.run.spool_file``). ``target`` is the file of the
    checkout that it leads to, if there is one. ``is_deferred``: it stands in a function.
    """

    source: Path
    line: int
    name: str
    is_relative: bool
    is_deferred: bool
    target: Path | None

    def __str__(self) -> str:
        return f"{self.source}:{self.line} imports {self.name}"


def python_files(root: Path) -> list[Path]:
    """The Python files of the package, relative to the checkout."""
    return sorted(path.relative_to(root) for each in PACKAGES for path in (root / each).rglob("*.py"))


def imports_of(root: Path, source: Path) -> Iterator[Import]:
    """Every import of a file, at its top or in functions."""
    tree = _parsed((root / source).read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    deferred = {id(inner) for function in functions for inner in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(source, node.lineno, alias.name, False, id(node) in deferred, None)
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, source)
            for alias in node.names:
                name, target = _found(root, base, alias.name) if node.level else (".".join([*base, alias.name]), None)
                yield Import(source, node.lineno, name, node.level > 0, id(node) in deferred, target)


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _base(node: ast.ImportFrom, source: Path) -> list[str]:
    """Where the names of a ``from`` import are looked up, as a path of names."""
    named = node.module.split(".") if node.module else []
    if node.level == 0:
        return named
    parts = source.parent.parts
    return [*parts[: len(parts) - node.level + 1], *named]


def _found(root: Path, base: list[str], name: str) -> tuple[str, Path | None]:
    """The module that a relative import leads to: the name itself, or the module that defines it."""
    for parts in ([*base, name], base):
        for path in (Path(*parts).with_suffix(".py"), Path(*parts) / "__init__.py"):
            if (root / path).is_file():
                return ".".join(parts), path
    return ".".join([*base, name]), None


def all_imports(root: Path) -> list[Import]:
    """The imports of all files of the package."""
    return [each for path in python_files(root) for each in imports_of(root, path)]


def file_arrows(root: Path) -> dict[Path, set[Path]]:
    """Which files each file imports when it is itself imported (or for its types)."""
    arrows: dict[Path, set[Path]] = defaultdict(set)
    for each in all_imports(root):
        if each.target and each.target != each.source and not each.is_deferred:
            arrows[each.source].add(each.target)
    return arrows


def folder_arrows(root: Path) -> dict[tuple[Path, Path], list[Import]]:
    """The imports from one folder into another, those in functions too."""
    arrows: dict[tuple[Path, Path], list[Import]] = defaultdict(list)
    for each in all_imports(root):
        if each.target and each.target.parent != each.source.parent:
            arrows[each.source.parent, each.target.parent].append(each)
    return arrows


def circles(arrows: Mapping[Path, Iterable[Path]]) -> list[list[Path]]:
    """The groups of files that lead back to themselves (strongly connected components of two files and more)."""
    reached = {start: _reachable(start, arrows) for start in arrows}
    groups = {
        frozenset(other for other in found if start in reached.get(other, ())) for start, found in reached.items()
    }
    return sorted(sorted(group) for group in groups if len(group) > 1)


def _reachable(start: Path, arrows: Mapping[Path, Iterable[Path]]) -> set[Path]:
    """Every file that can be reached from ``start``, itself only through a circle."""
    found: set[Path] = set()
    waiting = list(arrows.get(start, ()))
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += arrows.get(path, ())
    return found
