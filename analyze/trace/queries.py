"""The queries: one ``.sql`` file each, opened by a header that says what it answers. ``analyze/sql/README.md`` has the
rules of folders, names and headers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from .connection import Connection

SQL_DIRECTORY = Path(__file__).parent.parent / "sql"
#: Folders of files that define views, and of files that are run as they are; below them, one folder for each subject.
VIEWS, STATEMENTS = "views", "statements"

_COLUMN = re.compile(r"(?P<name>\w+)(?: \[(?P<unit>[^\]]+)\])?: (?P<text>.*)")


@dataclass(frozen=True)
class Described:
    """A column or a parameter as a header describes it; unit "" = none."""

    name: str
    unit: str
    text: str


@dataclass(frozen=True)
class Header:
    """The header of a query."""

    answers: str
    parameters: tuple[Described, ...]
    columns: tuple[Described, ...]
    order: str


@cache
def paths(folder: str) -> dict[str, Path]:
    """The files below one of the two folders by the name of the query, which occurs once in both."""
    subjects = [subject for subject in (SQL_DIRECTORY / folder).iterdir() if subject.is_dir()]
    return {path.stem: path for subject in subjects for path in subject.iterdir() if path.suffix == ".sql"}


@cache
def sql(name: str) -> str:
    """The text of the query ``name``, header included."""
    return (paths(VIEWS).get(name) or paths(STATEMENTS)[name]).read_text(encoding="utf-8")


def body(name: str) -> str:
    """The query ``name`` without its header."""
    lines = sql(name).splitlines()
    first = next(index for index, line in enumerate(lines) if not line.startswith("--"))
    return "\n".join(lines[first:])


def run(connection: Connection, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
    """The rows of the query ``name``; its header names and explains the columns."""
    return connection.execute(body(name), parameters or None).fetchall()


def rows(connection: Connection, name: str, **parameters: Any) -> list[dict[str, Any]]:
    """The rows of the query ``name`` by column name."""
    return dicts(connection.execute(body(name), parameters or None))


def dicts(cursor: DuckDBPyConnection) -> list[dict[str, Any]]:
    """The rows of an answer by column name."""
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def header(name: str) -> Header:
    """The header of the query ``name``. Raises ValueError when it lacks a part."""
    parts = {"Answers": "", "Parameters": "", "Columns": "", "Order": ""}
    described: dict[str, list[Described]] = {"Parameters": [], "Columns": []}
    current = ""
    for line in _header_lines(name):
        title, colon, rest = line.partition(":")
        if colon and title in parts:
            current, parts[title] = title, rest.strip()
        elif current in described and (column := _COLUMN.fullmatch(line.strip())) and not line.startswith("    "):
            described[current].append(Described(column["name"], column["unit"] or "", column["text"]))
    if not parts["Answers"] or not parts["Order"] or not described["Columns"]:
        raise ValueError(f"the header of {name}.sql is incomplete")
    return Header(parts["Answers"], tuple(described["Parameters"]), tuple(described["Columns"]), parts["Order"])


def _header_lines(name: str) -> list[str]:
    lines = []
    for line in sql(name).splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("-- ").removeprefix("--"))
    return lines
