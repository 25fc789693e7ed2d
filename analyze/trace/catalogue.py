"""What the headers of the views say of how they are made: in which order, which are kept as tables, which have a simpler
query. Opening a trace needs this of all views, so only the three lines that say it are read here; ``queries.header``
reads whole headers, and ``tests/test_sql_rules.py`` holds them against the queries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from . import queries

#: "Reads:" with the lines that go on with it, "Stored:", and "If ... is empty:".
_MADE = re.compile(
    r"^-- (?:Reads: (?P<reads>.*(?:\n--     .*)*)|Stored: (?P<stored>\w+)|If (?P<empty>\w+) is empty: (?P<simpler>\w+))$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Definition:
    """How a view is made: the views and tables that its query names; "always", "yes", "no" or "part" (of what reads it)
    for how it is kept; a view and, where that is empty, the view whose query gives the same."""

    reads: tuple[str, ...]
    stored: str
    simpler: tuple[str, str] | None = None

    @property
    def depends(self) -> tuple[str, ...]:
        """What must be there before the view is made."""
        return (*self.reads, *(self.simpler or ()))


@cache
def definitions() -> Mapping[str, Definition]:
    """The definition of every view that is made of a query, each after those that it depends on."""
    return in_order(
        {name: _definition(queries.sql(name).partition("\n-- Columns:")[0]) for name in queries.paths(queries.VIEWS)}
    )


def stored(*kinds: str) -> frozenset[str]:
    """The views that are kept in one of these ways."""
    return frozenset(name for name, each in definitions().items() if each.stored in kinds)


def in_order(found: Mapping[str, Definition]) -> dict[str, Definition]:
    """The definitions, each after those that it depends on. Raises ValueError where they go round in a circle."""
    ordered: dict[str, Definition] = {}
    for name in found:
        _visit(name, found, ordered, ())
    return ordered


def _visit(name: str, found: Mapping[str, Definition], ordered: dict[str, Definition], above: tuple[str, ...]) -> None:
    if name in above:
        raise ValueError(f"views read each other in a circle: {' -> '.join((*above, name))}")
    if name in ordered or name not in found:
        return
    for each in found[name].depends:
        _visit(each, found, ordered, (*above, name))
    ordered[name] = found[name]


def _definition(header: str) -> Definition:
    reads, kept, simpler = "", "", None
    for line in _MADE.finditer(header):
        reads, kept = line["reads"] or reads, line["stored"] or kept
        simpler = (line["empty"], line["simpler"]) if line["empty"] else simpler
    return Definition(tuple(re.findall(r"\w+", reads)), kept, simpler)
