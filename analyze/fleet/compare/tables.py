"""The tables of a comparison: sums by line, host and side, made by SQL; only the sums of costly lines come to Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...trace import queries
from ..opening import Fleet
from .lines import VersionLine, same_lines
from .metrics import is_level, shown_by
from .units import Numbers, Units

#: A line is looked at if it has this share of either side's cost; the others are compared as one.
LEAST_LOOKED_AT = 0.001
#: The most figures of lines on hosts that come to Python.
MOST_FIGURES = 2_000_000
#: Numbers of lines that stand for others: all that have little cost, and what is on no line of the user's.
OTHERS, OUTSIDE = 0, 1

#: Of a number that holds a place and a line.
_PLACE = 1 << 32

Pair = tuple[list[VersionLine], list[VersionLine]]


@dataclass(frozen=True)
class Table:
    """The costs of a metric. ``lines``: the pairs in ``pairs`` that have a row in ``units``, in its order, after the rows
    OTHERS and OUTSIDE; ``totals``: one row; ``traces`` (cells): their numbers; ``hosts``: their names; ``others``: how many lines are in
    OTHERS."""

    units: Units
    totals: Units
    lines: list[int]
    traces: Numbers
    hosts: list[str]
    others: int


class Tables:
    """The tables of one comparison, over compared_traces in ``fleet``.

    ``is_pair``: there are two sides, whose versions differ; else lines of all sides are looked for as on one.
    """

    def __init__(self, fleet: Fleet, metrics: Sequence[str], is_pair: bool = True) -> None:
        self._connection = fleet.connection
        self._is_pair = is_pair
        self._make("compared_cells", "cells_numbered")
        self._make("compared_texts", "texts_compared", metrics=list(metrics))
        self._make("compared_sums", "parts_summed")
        self._make("compared_places", "places_compared")
        self.pairs, self._costs = self._lines()

    def _make(self, table: str, query: str, **parameters: object) -> None:
        self._connection.raw.execute(
            f"CREATE OR REPLACE TEMP TABLE {table} AS {queries.body(query)}", parameters or None
        )

    def _lines(self) -> tuple[list[Pair], dict[tuple[str, int], tuple[float, float]]]:
        """The lines as pairs, and by metric and place the costs on both sides."""
        sides: tuple[dict[int, VersionLine], dict[int, VersionLine]] = ({}, {})
        costs: dict[tuple[str, int], tuple[float, float]] = {}
        names: dict[tuple[object, ...], tuple[float, VersionLine]] = {}
        rows = self._connection.execute("SELECT * FROM compared_places ORDER BY place, metric").fetchall()
        for place, _, version, file, function, first_line, line, text, metric, *cost in rows:
            costs[metric, place] = (cost[0], cost[1])
            found = VersionLine(place, version, file, function, first_line, line, text)
            key = (version, file, line, text)
            names[key] = max(names.get(key, (0.0, found)), (sum(cost), found), key=lambda each: each[0])
        for place, _, version, file, _, _, line, text, _, *cost in rows:
            # A trace names one of the functions on a line, not every trace the same one.
            found = replace(names[version, file, line, text][1], place=place)
            for side, each in zip(sides if self._is_pair else (sides[0], sides[0]), cost, strict=True):
                if each > 0:
                    side[place] = found
        return same_lines(list(sides[0].values()), list(sides[1].values())), costs

    def costs(self, metric: str) -> list[tuple[float, float]]:
        """What the pairs cost on both sides."""
        found = []
        for pair in self.pairs:
            places = {line.place for side in pair for line in side}
            each = [self._costs.get((metric, place), (0.0, 0.0)) for place in places]
            found.append((sum(cost[0] for cost in each), sum(cost[1] for cost in each)))
        return found

    def table(self, metric: str, least: float = LEAST_LOOKED_AT, most: int | None = None) -> Table:
        """The costs of a metric on the hosts of both sides: of the lines with the share ``least`` of a side's cost, at most of
        ``most``."""
        shown, of_host = shown_by(metric)
        cells = queries.run(self._connection, "cells_compared", metric=metric, shown_by=shown, of_host=of_host)
        chosen, others = self._chosen(metric, len(cells), least, most)
        self._number(metric, chosen)
        values, variances = self._figures(len(chosen) + 2, [row[0] for row in cells])
        names = list(dict.fromkeys(row[1] for row in cells))
        hosts = {host: number for number, host in enumerate(names)}
        numbers = np.array([hosts[row[1]] for row in cells], dtype=np.int64)
        sides = np.array([row[2] for row in cells], dtype=np.int64)
        traces = np.array([row[3] for row in cells], dtype=np.float64)
        exposure = traces if is_level(metric) else np.array([row[4] for row in cells], dtype=np.float64)
        totals = np.array([[row[5] for row in cells]], dtype=np.float64)
        whole = Units(totals, variances.sum(axis=0, keepdims=True), exposure, numbers, sides)
        return Table(Units(values, variances, exposure, numbers, sides), whole, chosen, traces, names, others)

    def _figures(self, rows: int, cells: Sequence[int]) -> tuple[Numbers, Numbers]:
        """Values and variances (rows × cells)."""
        values = np.zeros((rows, len(cells)))
        variances = np.zeros_like(values)
        places = np.full(max(cells, default=-1) + 2, -1)
        places[list(cells)] = range(len(cells))
        found = self._connection.execute(queries.body("line_cells")).fetchnumpy()
        cell = places[np.minimum(found["cell"].astype(np.int64), len(places) - 1)]
        known = cell >= 0
        at = found["number"].astype(np.int64)[known], cell[known]
        values[at], variances[at] = found["value"][known], found["variance"][known]
        return values, variances

    def _chosen(self, metric: str, cells: int, least: float, most: int | None) -> tuple[list[int], int]:
        """The pairs with so much of either side's cost, the costliest first, and the number of the others."""
        costs = self.costs(metric)
        sums = [sum(cost[side] for cost in costs) for side in (0, 1)]
        own = [number for number, pair in enumerate(self.pairs) if not _is_outside(pair) and any(costs[number])]
        shares = {n: max(c / s if s > 0 else 0.0 for c, s in zip(costs[n], sums, strict=True)) for n in own}
        large = sorted((n for n in own if shares[n] >= least), key=lambda n: shares[n], reverse=True)
        large = large[: max(MOST_FIGURES // max(cells, 1), 10)][:most]
        return large, len(own) - len(large)

    def _number(self, metric: str, chosen: Sequence[int]) -> None:
        """Makes the table of the numbers of the lines, for one metric."""
        numbers = {pair: row + 2 for row, pair in enumerate(chosen)}
        codes = []
        for number, pair in enumerate(self.pairs):
            for place in {line.place for side in pair for line in side}:
                line = OUTSIDE if _is_outside(pair) else numbers.get(number, OTHERS)
                codes.append(place * _PLACE + line)
        self._make("compared_lines", "lines_numbered", metric=metric, codes=codes)


def _is_outside(pair: Pair) -> bool:
    """Is it what is on no line of the user's?"""
    return all(line.file is None for side in pair for line in side)
