"""Results about a fleet of traces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .base import to_json


@dataclass(frozen=True)
class Coverage:
    """What an answer is about. ``folder``: the fleet's; ``traces``: the selected ones that were read; ``hosts``, ``versions``:
    how many different ones they have; ``exposure``: their recorded hours, or with ``per`` the number of marks with that
    text; ``first_day``, ``last_day``: of their starts, in UTC; ``unreadable``: files of the fleet that could not be read."""

    folder: str
    traces: int
    hosts: int
    versions: int
    exposure: float | None
    per: str | None
    first_day: str | None
    last_day: str | None
    unreadable: int


@dataclass(frozen=True)
class FleetTable:
    """A list of rows over a fleet, with the options of the request (``query``).

    ``name`` names the JSON schema (scalene-trace/fleet-NAME/1); ``rows_name`` is the key of the rows, by default ``name``.
    """

    name: str
    query: dict[str, Any]
    fleet: Coverage
    rows: list[Any]
    rows_name: str = ""


def fleet_json(table: FleetTable) -> dict[str, Any]:
    """The JSON document of a table."""
    document: dict[str, Any] = {"schema": f"scalene-trace/fleet-{table.name}/1", "query": table.query}
    return document | {"fleet": to_json(table.fleet), table.rows_name or table.name: to_json(table.rows)}


@dataclass(frozen=True)
class FleetTrace:
    """A trace of a fleet, or a file that could not be read (``reason``). ``value``: of the asked figure in it; None = no
    figure was asked for."""

    path: str
    trace_id: str
    host: str | None
    labels: dict[str, str]
    started_at: str | None
    wall_s: float | None
    python: str | None
    program: str | None
    processes: int | None
    losses: int | None
    reason: str | None
    value: float | None = None


@dataclass(frozen=True)
class Indexed:
    """What an indexer did. ``files``: that it found; ``known``: of these, those that had a summary; ``traces``: that got one;
    ``unreadable``: those that could not be read; ``batches``: that it published; ``merged``: that it merged into others."""

    folder: str
    files: int
    known: int
    traces: int
    unreadable: int
    batches: int
    merged: int
    seconds: float
