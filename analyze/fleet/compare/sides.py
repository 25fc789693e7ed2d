"""The two sides of a comparison as selections of traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from ....formats.units import counted
from ...results.fleet import Coverage
from ...trace import queries
from ..opening import Fleet
from ..selection import FleetSelection, SelectionError, coverage, label_of, select_traces, time_ns_of

#: The tables of the sides.
TABLES = ("before_traces", "after_traces")
_MOST_LABELS = 12


def sides_of(
    whole: FleetSelection, before: Sequence[str], after: Sequence[str], split: str | None, now: datetime | None = None
) -> tuple[FleetSelection, FleetSelection]:
    """The selections before and after: those traces of ``whole`` that have the labels ``before`` and ``after`` (NAME=VALUE), or
    whose recordings began before and from the time ``split`` on. Raises SelectionError."""
    if bool(before) != bool(after) or bool(before) == bool(split):
        raise SelectionError(
            "A comparison needs two sides. Name them by labels, for example --before version=1.4.1 --after version=1.4.2, or"
            " by a time: --split 2026-11-24."
        )
    if split is not None:
        return _split(whole, split, now or datetime.now(UTC))
    sides = []
    for words in (before, after):
        labels = tuple(map(label_of, words))
        twice = {name for name, _ in labels} & {name for name, _ in whole.where}
        if twice:
            raise SelectionError(f"The label {min(twice)} is in --where and in a side. Leave it out of --where.")
        sides.append(replace(whole, where=whole.where + labels))
    return sides[0], sides[1]


def _split(whole: FleetSelection, split: str, now: datetime) -> tuple[FleetSelection, FleetSelection]:
    time_ns = time_ns_of(split, now)
    if not (whole.since_ns or 0) < time_ns < (whole.until_ns or time_ns + 1):
        raise SelectionError(f"--split {split} is not between --since and --until, so a side has no trace.")
    return replace(whole, until_ns=time_ns), replace(whole, since_ns=time_ns)


def select_sides(fleet: Fleet, sides: Sequence[FleetSelection]) -> list[Coverage]:
    """Makes the tables before_traces and after_traces. Returns what they cover. Raises SelectionError for an empty one."""
    found = []
    for side, table in zip(sides, TABLES, strict=True):
        select_traces(fleet, side, table)
        found.append(coverage(fleet, side, table))
        if not found[-1].traces:
            raise SelectionError(f"No trace is selected for the side {table.partition('_')[0]}. {labels_text(fleet)}")
    return found


def labels_text(fleet: Fleet) -> str:
    """A sentence with the labels that traces of the fleet have, the most frequent first."""
    labels = [label for label, _ in queries.run(fleet.connection, "labels_known")]
    if not labels:
        return "The traces of the fleet have no labels."
    more = len(labels) - _MOST_LABELS
    ending = f", and {counted(more, 'other', 'others')}" if more > 0 else ""
    return f"The labels are {', '.join(labels[:_MOST_LABELS])}{ending}."


def make_compared(fleet: Fleet, by: str) -> list[str]:
    """Makes the table compared_traces of the selected traces ``by`` day, or by the label of this name. Returns a sentence about
    the traces that are not in it, if there are any. Raises SelectionError if there are no others."""
    sql, parameters = ("days_compared", None) if by == "day" else ("label_compared", {"label": by})
    fleet.connection.raw.execute(f"CREATE OR REPLACE TEMP TABLE compared_traces AS {queries.body(sql)}", parameters)
    ((given,),) = fleet.connection.raw.execute("SELECT count(*) FROM selected_traces").fetchall()
    ((taken,),) = fleet.connection.raw.execute("SELECT count(*) FROM compared_traces").fetchall()
    if not taken:
        what = "a known day, host and length" if by == "day" else f"the label {by} and a known host and length"
        raise SelectionError(f"No selected trace has {what}. {labels_text(fleet)}")
    if given == taken:
        return []
    what = "day" if by == "day" else f"label {by}"
    return [f"{counted(given - taken, 'trace is', 'traces are')} left out: unknown host or length, or no {what}."]


def make_peers(fleet: Fleet, labels: Sequence[str], least: int) -> list[str]:
    """Makes the table compared_traces of the selected traces, in groups with the same values of ``labels``; without any, of version
    and of those labels whose values could each have ``least`` hosts. Returns sentences about labels and traces that are not
    used. Raises SelectionError for a label that no trace has, and if there are no traces."""
    known = {label: (count, hosts) for label, count, hosts in queries.run(fleet.connection, "label_figures")}
    if unknown := [label for label in labels if label not in known]:
        raise SelectionError(f"No selected trace has the label {unknown[0]}. {labels_text(fleet)}")
    used = list(labels) or [
        name for name, (count, hosts) in known.items() if name == "version" or count * least <= hosts or count == 1
    ]
    notes = (
        []
        if labels
        else [f"The label {name} is not used: it has too many values." for name in known if name not in used]
    )
    raw = fleet.connection.raw
    raw.execute(f"CREATE OR REPLACE TEMP TABLE compared_traces AS {queries.body('peers_compared')}", {"labels": used})
    ((given,),) = raw.execute("SELECT count(*) FROM selected_traces").fetchall()
    ((taken,),) = raw.execute("SELECT count(*) FROM compared_traces").fetchall()
    if not taken:
        raise SelectionError(f"No selected trace has a known host and length. {labels_text(fleet)}")
    if taken < given:
        notes.append(f"{counted(given - taken, 'trace is', 'traces are')} left out: unknown host or length.")
    return notes
