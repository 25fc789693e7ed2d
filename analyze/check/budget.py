"""Reads the budget file of ``check``: limits on the program, files, functions, lines and SQL. TOML (docs/check.md)."""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...formats.units import parse_amount, parse_percent


class BudgetError(Exception):
    """A budget that is not valid, or that the traces cannot answer; ``str()`` is one or two sentences."""


@dataclass(frozen=True)
class Limit:
    """An upper limit. ``field``: field of a row of the report; ``unit``: percent (of the program), s, bytes or bytes/s."""

    name: str
    field: str
    unit: str
    value: float
    text: str


@dataclass(frozen=True)
class Rule:
    """Limits on the whole program (``kind`` total), or on each file, function or line that matches; None = any.

    ``optional``: the names may be missing from the trace."""

    kind: str
    limits: tuple[Limit, ...]
    file: str | None = None
    function: str | None = None
    line: int | None = None
    optional: bool = False


@dataclass(frozen=True)
class Query:
    """A SELECT that returns one number, with its lower and upper limit (None = no limit)."""

    name: str
    query: str
    least: float | None
    most: float | None


@dataclass(frozen=True)
class Budget:
    """The contents of a budget file."""

    rules: tuple[Rule, ...]
    queries: tuple[Query, ...]


#: Figures that can be limited: name -> unit -> field of a row of the report.
LIMITS: Mapping[str, Mapping[str, str]] = {
    "cpu": {"percent": "cpu_s", "s": "cpu_s"},
    "python": {"percent": "python_s", "s": "python_s"},
    "native": {"percent": "native_s", "s": "native_s"},
    "unclassified": {"percent": "unclassified_s", "s": "unclassified_s"},
    "system": {"percent": "system_s", "s": "system_s"},
    "gc": {"percent": "gc_s", "s": "gc_s"},
    "wait": {"s": "wait_s"},
    "wall": {"s": "wall_s"},
    "peak": {"bytes": "live_at_peak_bytes"},
    "rss": {"bytes": "peak_rss_bytes"},
    "growth": {"bytes": "growth_bytes"},
    "alloc": {"bytes": "alloc_bytes"},
    "leak": {"bytes/s": "leak_bytes_per_s"},
    "copy": {"bytes": "copy_bytes", "bytes/s": "copy_bytes_per_s"},
    "total_cpu": {"percent": "cumulative_cpu_s", "s": "cumulative_cpu_s"},
    "total_wait": {"s": "cumulative_wait_s"},
    "total_alloc": {"bytes": "cumulative_alloc_bytes"},
    "total_peak": {"bytes": "cumulative_live_at_peak_bytes"},
}
#: Limits on a function together with all that it calls; the others are on what is charged to its own lines.
FUNCTION_ONLY = ("total_cpu", "total_wait", "total_alloc", "total_peak")
#: Figures that can be limited for the whole program only.
_TOTAL_ONLY = ("wall", "rss")
_EXAMPLES = {"percent": "20 %", "s": "1.5 s", "bytes": "50 MB", "bytes/s": "1 MB/s"}
_NAMES = {"total": (), "file": ("file",), "function": ("file", "function"), "line": ("file", "function", "line")}
_QUERY_KEYS = ("name", "query", "min", "max")


def read_budget(path: Path) -> Budget:
    """Reads and checks the budget file at ``path``. Raises BudgetError."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BudgetError(f"Cannot read {path}: {(error.strerror or 'unknown error').lower()}.") from error
    except UnicodeDecodeError as error:
        raise BudgetError(f"Cannot read {path}: it is not text in UTF-8. A budget is a TOML file.") from error
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, or numbers with thousands of digits
        raise BudgetError(f"Cannot read {path}: it is not valid TOML ({error}).") from error
    try:
        return _budget(document)
    except BudgetError as error:
        raise BudgetError(f"{path}: {error}") from error


def _budget(document: Mapping[str, Any]) -> Budget:
    _known(document, (*_NAMES, "sql"), "table")
    rules = tuple(_rule(kind, table) for kind in _NAMES for table in _tables(kind, document.get(kind, [])))
    queries = tuple(_query(table) for table in _tables("sql", document.get("sql", [])))
    if not rules and not queries:
        raise BudgetError('The budget has no limits. Write, for example, [total] and below it peak = "500 MB".')
    return Budget(rules, queries)


def _tables(kind: str, found: Any) -> list[Mapping[str, Any]]:
    tables = found if isinstance(found, list) else [found]
    if not all(isinstance(table, dict) for table in tables):
        raise BudgetError(f"{kind} must be a table. Write [{kind}] or [[{kind}]], and the limits below it.")
    return tables


def _known(given: Iterable[str], names: Iterable[str], what: str) -> None:
    for name in given:
        if name not in names:
            close = difflib.get_close_matches(name, names, 1)
            hint = f"Did you mean {close[0]}?" if close else f"Use one of {', '.join(names)}."
            raise BudgetError(f"There is no {what} {name!r}. {hint}")


def _rule(kind: str, table: Mapping[str, Any]) -> Rule:
    names = _NAMES[kind]
    others = _TOTAL_ONLY * (kind != "total") + FUNCTION_ONLY * (kind != "function")
    limits = [name for name in LIMITS if name not in others]
    options = ("optional",) if names else ()
    _known(table, (*names, *options, *limits), f"key of [{kind}]")
    found = tuple(_limit(name, value) for name, value in table.items() if name not in (*names, *options))
    if not found:
        raise BudgetError(f"A table [{kind}] has no limits. Add at least one of {', '.join(limits)}.")
    places = {name: table[name] for name in names if name in table}
    for name, value in places.items():
        if not isinstance(value, int if name == "line" else str) or isinstance(value, bool):
            raise BudgetError(
                f"{name} of [{kind}] must be {'an integer' if name == 'line' else 'text'}, not {value!r}."
            )
    optional = table.get("optional", False)
    if not isinstance(optional, bool):
        raise BudgetError(f"optional of [{kind}] must be true or false, not {optional!r}.")
    return Rule(kind, found, **places, optional=optional)


def _limit(name: str, value: Any) -> Limit:
    units = LIMITS[name]
    if isinstance(value, str):
        for unit, field in units.items():
            number = _number(value, unit)
            if number is not None:
                return Limit(name, field, unit, number, value.strip())
    examples = " or ".join(f'"{_EXAMPLES[unit]}"' for unit in units)
    raise BudgetError(f"{name} = {value!r} is not a limit. Write, for example, {name} = {examples}.")


def _number(text: str, unit: str) -> float | None:
    """The value of ``text`` in ``unit``; None if it is not an amount of that unit."""
    if unit == "percent":
        percent = parse_percent(text)
        return percent if percent is not None and 0 <= percent < 1000 else None
    if unit == "bytes/s":
        text, slash, ending = text.strip().rpartition("/")
        if not slash or ending != "s":
            return None
    try:
        return parse_amount(text, "s" if unit == "s" else "bytes")
    except ValueError:
        return None


def _is_number(value: Any) -> bool:
    """Is it a number that fits into a float? False for NaN and bool."""
    if isinstance(value, float):
        return not math.isnan(value)
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**300


def _query(table: Mapping[str, Any]) -> Query:
    _known(table, _QUERY_KEYS, "key of [[sql]]")
    query, least, most = table.get("query"), table.get("min"), table.get("max")
    if not isinstance(query, str):
        raise BudgetError('A table [[sql]] needs query = "SELECT ...", which must return one number.')
    if least is None and most is None:
        raise BudgetError("A table [[sql]] needs min or max. Both are numbers.")
    for number in (least, most):
        if number is not None and not _is_number(number):
            raise BudgetError(f"min and max of [[sql]] must be numbers, not {number!r}.")
    name = table.get("name", " ".join(query.split()))
    return Query(str(name), query, least, most)
