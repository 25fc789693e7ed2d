"""The queries: one ``.sql`` file each, opened by a header that says what it answers. ``analyze/sql/README.md`` has the
rules of folders, names and headers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
#: Folder of the statements over the summaries of a fleet.
FLEET = "fleet"
#: Folder of the files that define macros, and the file that describes the columns which several queries have.
MACROS, COLUMNS = "macros", "columns.txt"

_COLUMN = re.compile(r"(?P<name>\w+)(?: \[(?P<unit>[^\]]+)\])?: (?P<text>.*)")
_NAMES = re.compile(r"\w+(, \w+)*")
_SECTION = re.compile(
    r"(?P<title>Answers|Parameters|Reads|Stored|If (?P<table>\w+) is empty|Columns|Order):(?P<rest>.*)"
)
_MACRO = re.compile(r"^CREATE OR REPLACE TEMP MACRO (\w+).*?;", re.MULTILINE | re.DOTALL)
#: What a header may say of how a view is kept.
STORED = ("always", "yes", "no", "part")


@dataclass(frozen=True)
class Described:
    """A column or a parameter as a header describes it; unit "" = none."""

    name: str
    unit: str
    text: str


@dataclass(frozen=True)
class Header:
    """The header of a query.

    ``reads``: the views and tables that it names. ``stored``: how a view is kept, one of STORED; "" for a statement.
    ``simpler``: a view, and the view whose query gives the same where that one is empty; None = there is none.
    """

    answers: str
    parameters: tuple[Described, ...]
    reads: tuple[str, ...]
    stored: str
    simpler: tuple[str, str] | None
    columns: tuple[Described, ...]
    order: str


@cache
def paths(folder: str) -> dict[str, Path]:
    """The files below one of the folders by the name of the query, which occurs once in all; sorted by path."""
    subjects = [subject for subject in (SQL_DIRECTORY / folder).iterdir() if subject.is_dir()]
    files = sorted(str(path) for subject in subjects for path in subject.iterdir() if path.suffix == ".sql")
    return {path.stem: path for path in map(Path, files)}


@cache
def sql(name: str) -> str:
    """The text of the query ``name``, header included."""
    path = paths(VIEWS).get(name) or paths(STATEMENTS).get(name) or paths(FLEET)[name]
    return path.read_text(encoding="utf-8")


@cache
def macros() -> Mapping[str, str]:
    """The statement that defines each macro by its name; a macro comes after those that it names."""
    files = sorted((SQL_DIRECTORY / MACROS).iterdir())
    found = (_MACRO.finditer(path.read_text(encoding="utf-8")) for path in files)
    return {each[1]: each[0] for matches in found for each in matches}


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


def ahead(connection: Connection, *names: str, **parameters: Any) -> None:
    """Begins to answer these queries, which the caller is going to run (:meth:`.connection.Connection.ahead`)."""
    connection.ahead(map(body, names), parameters or None)


def dicts(cursor: DuckDBPyConnection) -> list[dict[str, Any]]:
    """The rows of an answer by column name."""
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def header(name: str) -> Header:
    """The header of the query ``name``. Raises ValueError when it lacks a part, or has one that is wrong."""
    sections = _sections(name)
    reads = " ".join(sections.pop("Reads", []))
    simpler = [(title.split()[1], text[0]) for title, text in sections.items() if title.startswith("If ")]
    stored = " ".join(sections.get("Stored", []))
    found = Header(
        " ".join(sections.get("Answers", [])[:1]),
        tuple(_described(name, sections.get("Parameters", []))),
        () if reads == "none" else tuple(re.findall(r"\w+", reads)),
        stored,
        simpler[0] if simpler else None,
        tuple(_described(name, sections.get("Columns", []))),
        " ".join(sections.get("Order", [])),
    )
    if not (found.answers and found.order and found.columns and reads):
        raise ValueError(f"the header of {name}.sql is incomplete")
    if (stored in STORED) != (name in paths(VIEWS)):
        raise ValueError(f"the header of {name}.sql must say Stored: {', '.join(STORED)} exactly if it is a view")
    return found


@cache
def shared_columns() -> Mapping[str, Described]:
    """The columns that headers list by their names alone."""
    lines = (SQL_DIRECTORY / COLUMNS).read_text(encoding="utf-8").splitlines()
    found = [_COLUMN.fullmatch(line) for line in lines if line and not line.startswith("#")]
    return {each["name"]: Described(each["name"], each["unit"] or "", each["text"]) for each in found if each}


def _sections(name: str) -> dict[str, list[str]]:
    """The lines of each section of a header by its title; what is said on the line of the title comes first."""
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for line in _header_lines(name):
        if found := _SECTION.fullmatch(line):
            current = sections.setdefault(found["title"], [])
            line = found["rest"].strip()
        if line:
            current.append(line)
    return sections


def _described(name: str, lines: list[str]) -> Iterator[Described]:
    """The columns or parameters of a section. A line indented further goes on with the text of the line before it."""
    joined: list[str] = []
    for line in lines:
        if line.startswith("    ") and joined:
            joined[-1] += f" {line.strip()}"
        else:
            joined.append(line.strip())
    for line in joined:
        if found := _COLUMN.fullmatch(line):
            yield Described(found["name"], found["unit"] or "", found["text"])
        elif _NAMES.fullmatch(line) and not (unknown := set(line.split(", ")) - shared_columns().keys()):
            yield from (shared_columns()[each] for each in line.split(", "))
        else:
            raise ValueError(f"the header of {name}.sql: {line!r} describes no column ({', '.join(sorted(unknown))})")


def _header_lines(name: str) -> Iterator[str]:
    for line in sql(name).splitlines():
        if not line.startswith("--"):
            break
        yield line.removeprefix("-- ").removeprefix("--")
