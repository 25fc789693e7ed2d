"""The figures of a comparison with hosts as units: what each line cost on each host of each side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

#: A line that has no sample on a host, although so many were to be expected, is not run there.
_NOT_RUN = 10.0


@dataclass(frozen=True)
class Units:
    """What lines cost on hosts.

    A cell is a host on one side (or on a day). ``values`` (lines × cells): the cost of a line, in the unit of the metric. ``variances``: its
    variance by sampling; 0 = the metric is not sampled. ``exposure`` (cells): what costs are divided by: hours, marks or
    traces. ``hosts`` (cells): the number of the host. ``side_numbers`` (cells): the side,
    from 0: 0 = before, 1 = after; or the number of a day, a version or a group of hosts.
    """

    values: Numbers
    variances: Numbers
    exposure: Numbers
    hosts: Integers
    side_numbers: Integers

    @property
    def grains(self) -> Numbers:
        """By line, the variance of its cost for each unit of it: the mean weight of a sample."""
        totals = self.values.sum(axis=1)
        found: Numbers = np.divide(self.variances.sum(axis=1), totals, out=np.zeros_like(totals), where=totals > 0)
        return found

    @property
    def rates(self) -> Numbers:
        """The cost of a line for each unit of exposure (lines × cells)."""
        found: Numbers = self.values / self.exposure
        return found

    @property
    def sides(self) -> tuple[Flags, ...]:
        """The cells of each side, at least of two."""
        return tuple(self.side_numbers == side for side in range(max(int(self.side_numbers.max(initial=0)) + 1, 2)))

    def only(self, cells: Integers) -> Units:
        """The figures in these cells."""
        return Units(
            self.values[:, cells],
            self.variances[:, cells],
            self.exposure[cells],
            self.hosts[cells],
            self.side_numbers[cells],
        )

    def costing(self) -> Integers:
        """The cells in which any line costs something."""
        return np.flatnonzero(self.values.any(axis=0))

    def runs(self) -> Flags:
        """Which lines run in which cells (lines × cells): those with a sample, or with none only because few were to be
        expected, from what the cells of the side with a sample have."""
        found = self.values > 0
        grains = self.grains[:, None]
        for side in self.sides:
            has = found & side
            exposed = (has * self.exposure).sum(axis=1, keepdims=True)
            rate = np.divide(
                (self.values * has).sum(axis=1, keepdims=True), exposed, where=exposed > 0, out=exposed * 0
            )
            expected = np.divide(rate * self.exposure, grains, where=grains > 0, out=np.full(found.shape, np.inf))
            found |= side & (rate > 0) & (expected < _NOT_RUN)
        return found
