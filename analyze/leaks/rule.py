"""The leak rule: which allocations of a line stay, steadily, until the end. docs/design/leaks.md has the reasons, and
analyze/sql/macros/leaks.sql the numbers.

First all judged samples of a line are tested together. Where too many of them were freed, they are split by allocator,
then by type; of what still fails, the size classes of which too many were freed are left out. The parts that pass are the
suspects of the line. So temporaries on a line do not hide a leak beside them, and a leak of many sizes is not cut into
parts that are too small to be judged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..trace import queries

if TYPE_CHECKING:
    from ..trace.connection import Connection

Row = dict[str, Any]
Key = tuple[Any, ...]

#: How a line is split, one step after the other; at last by size class.
_SPLITS = (("family", "allocator"), ("type",))


@dataclass(frozen=True)
class Rule:
    """The numbers of the rule; the statement ``leak_rule`` explains them. Places are hundredths of the judged time."""

    first_place: int
    end_place: int
    late_place: int
    least_probability: float
    least_late: int
    slices: int
    least_slices: int
    least_mean: float
    least_late_share: float
    deviations: float
    most_fall: float
    least_share_of_growth: float


def read_rule(connection: Connection) -> Rule:
    """The rule that the queries follow."""
    return Rule(**queries.rows(connection, "leak_rule")[0])


def laplace(mallocs: int, frees: int) -> float:
    """Probability that the next allocation is not freed, by the rule of succession: 1 - (frees + 1) / (mallocs + 2).

    (The Scalene paper prints mallocs - frees + 2 below the line, which leaves [0, 1] for some counts.)
    """
    return 1 - (frees + 1) / (mallocs + 2)


def suspects(rows: list[Row], rule: Rule, level: int = 0) -> list[Row]:
    """The cells of those parts of a line that pass the rule, each part as large as possible."""
    if laplace(*_counts(rows)) >= rule.least_probability:
        if not _is_steady(rows, rule):
            return []  # hardly anything is freed, and all together thins out: a part would pass by chance only
        if not _falls_back(rows, rule):
            return rows
    if level < len(_SPLITS):
        return [row for part in split(rows, _SPLITS[level]).values() for row in suspects(part, rule, level + 1)]
    kept = [row for part in split(rows, ("size_class",)).values() if _is_mostly_kept(part, rule) for row in part]
    return suspects(kept, rule, level) if 0 < len(kept) < len(rows) else []


def split(rows: list[Row], names: tuple[str, ...]) -> dict[Key, list[Row]]:
    parts: dict[Key, list[Row]] = {}
    for row in rows:
        parts.setdefault(tuple(row[name] for name in names), []).append(row)
    return parts


def _is_mostly_kept(rows: list[Row], rule: Rule) -> bool:
    mallocs, frees = _counts(rows)
    return frees <= (1 - rule.least_probability) * mallocs


def _counts(rows: list[Row]) -> tuple[int, int]:
    """Mallocs and frees."""
    mallocs: int = sum(row["mallocs"] for row in rows)
    frees: int = sum(row["frees"] for row in rows)
    return mallocs, frees


def _is_steady(rows: list[Row], rule: Rule) -> bool:
    """Did survivors come in all the time, and did they not thin out?"""
    survivors = [(row["place"], row["mallocs"] - row["frees"]) for row in rows]
    width = (rule.end_place - rule.first_place) // rule.slices
    slices = {(place - rule.first_place) // width for place, count in survivors if count}
    late = sum(count for place, count in survivors if place >= rule.late_place)
    return (
        len(slices) >= rule.least_slices
        and late >= rule.least_late
        and kept_bytes(rows) > 0
        and not _thins_out(rows, rule)
    )


def _thins_out(rows: list[Row], rule: Rule) -> bool:
    kept = kept_bytes(rows)
    mean_place: float = sum(row["kept_bytes"] * (row["place"] + 0.5) for row in rows) / kept
    mean = (mean_place - rule.first_place) / (rule.end_place - rule.first_place)
    late_share: float = sum(row["kept_bytes"] for row in rows if row["place"] >= rule.late_place) / kept
    count = kept**2 / sum(row["kept_squares"] for row in rows)  # of equal survivors that would scatter as much
    least_mean = 0.5 - rule.deviations * math.sqrt(1 / 12 / count)
    least_share = 1 / 3 - rule.deviations * math.sqrt(2 / 9 / count)
    return mean < min(rule.least_mean, least_mean) or late_share < min(rule.least_late_share, least_share)


def _falls_back(rows: list[Row], rule: Rule) -> bool:
    """Did the live bytes ever fall by much? Then what was there was given back, and may be again."""
    highest, fall = 0.0, 0.0
    for _, value in live_curve(rows):
        highest = max(highest, value)
        fall = max(fall, highest - value)
    return fall > rule.most_fall * kept_bytes(rows)


def live_curve(rows: list[Row]) -> list[tuple[int, float]]:
    """(hundredth, live bytes at its end) from the process's start until it is judged, where they change."""
    changes: dict[int, float] = {}
    for row in rows:
        if row["place"] < 100:
            changes[row["place"]] = changes.get(row["place"], 0.0) + row["change_bytes"]
    curve, live = [], 0.0
    for place in sorted(changes):
        live += changes[place]
        curve.append((place, live))
    return curve


def kept_bytes(rows: list[Row]) -> float:
    """Bytes of the judged samples that survived, estimated."""
    return float(sum(row["kept_bytes"] for row in rows))
