"""Which traces of a fleet a question is about: by label, host and time, as a table that every question joins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from ...formats.units import UnitError, parse_duration_ns
from ..results.fleet import Coverage
from ..trace import queries
from .opening import Fleet

_LABEL = re.compile(r"([a-z][a-z0-9_]{0,63})=(.*)", re.DOTALL)
_DAYS = re.compile(r"(\d{1,5})\s*d")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SelectionError(ValueError):
    """A part of a selection that cannot be read; ``str()`` is two sentences: what is wrong, and how to write it."""


@dataclass(frozen=True)
class FleetSelection:
    """Selected traces. ``where``: pairs of a label's name and value; of values for the same name, any. ``hosts``: any of them.
    ``since_ns``, ``until_ns``: when the recording began, nanoseconds since 1970. ``per``: a mark whose number is the exposure
    instead of the recorded hours."""

    where: tuple[tuple[str, str], ...] = ()
    hosts: tuple[str, ...] = ()
    since_ns: int | None = None
    until_ns: int | None = None
    per: str | None = None


def label_of(text: str) -> tuple[str, str]:
    """Name and value of a label written as NAME=VALUE. Raises SelectionError."""
    found = _LABEL.fullmatch(text)
    if found is None:
        raise SelectionError(f"{text!r} is not a label. Write NAME=VALUE, for example version=1.4.2.")
    return found[1], found[2]


def time_ns_of(text: str, now: datetime) -> int:
    """A time in nanoseconds since 1970: a date, a date with a time (UTC unless it says otherwise), or how long before ``now``
    (7d, 12h). Raises SelectionError."""
    if days := _DAYS.fullmatch(text.strip()):
        return _ns(now - timedelta(days=int(days[1])))
    try:
        return max(_ns(now) - parse_duration_ns(text), 0)
    except UnitError:
        pass
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise SelectionError(
            f"{text!r} is no time. Write a date (2026-11-28), a time (2026-11-28T14:00, in UTC), or how long ago (7d, 12h)."
        ) from None
    return _ns(time if time.tzinfo else time.replace(tzinfo=UTC))


def _ns(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1) * 1000


def select_traces(fleet: Fleet, selection: FleetSelection, table: str = "selected_traces") -> None:
    """Makes the table ``table`` of the selected traces that were read, a row for each: ``trace``, ``host``, ``version`` (the
    label; NULL = none), ``day`` (text, "2026-11-28", of the start in UTC; NULL = unknown), and ``exposure`` (recorded hours,
    or the number of the marks; NULL = unknown)."""
    raw = fleet.connection.raw
    raw.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS {queries.body('traces_selected')}", _parameters(selection))


def _parameters(selection: FleetSelection) -> dict[str, Any]:
    names = sorted({name for name, _ in selection.where})
    return {
        "names": names,
        "values": [[value for other, value in selection.where if other == name] for name in names],
        "hosts": list(selection.hosts),
        "since_ns": selection.since_ns,
        "until_ns": selection.until_ns,
        "per": selection.per,
    }


def coverage(fleet: Fleet, selection: FleetSelection, table: str = "selected_traces") -> Coverage:
    """What an answer over the table of selected traces is about."""
    sql = f"""SELECT count(*), count(DISTINCT host), count(DISTINCT version), sum(CASE WHEN exposure > 0 THEN exposure END), min(day), max(day),
            count(*) - count(CASE WHEN exposure > 0 THEN 1 END)
        FROM {table}"""
    ((traces, hosts, versions, exposure, first, last, without),) = fleet.connection.execute(sql).fetchall()
    folder = fleet.name or str(fleet.folder)
    return Coverage(folder, traces, hosts, versions, exposure, selection.per, first, last, fleet.unreadable, without)


def described(selection: FleetSelection) -> dict[str, Any]:
    """The selection as the JSON output repeats it."""
    return {
        "where": [f"{name}={value}" for name, value in selection.where],
        "host": list(selection.hosts),
        "since": _text(selection.since_ns),
        "until": _text(selection.until_ns),
        "per": selection.per,
    }


def _text(time_ns: int | None) -> str | None:
    return None if time_ns is None else (_EPOCH + timedelta(microseconds=time_ns // 1000)).isoformat()


def selection_of(
    where: Sequence[str] = (),
    hosts: Sequence[str] = (),
    since: str | None = None,
    until: str | None = None,
    per: str | None = None,
    now: datetime | None = None,
) -> FleetSelection:
    """The selection that texts of a user ask for. Raises SelectionError."""
    now = now or datetime.now(UTC)
    since_ns, until_ns = (None if text is None else time_ns_of(text, now) for text in (since, until))
    if since_ns is not None and until_ns is not None and until_ns <= since_ns:
        raise SelectionError(f"{until!r} is not after {since!r}, so no trace is between them.")
    return FleetSelection(tuple(map(label_of, where)), tuple(hosts), since_ns, until_ns, per)
