"""The figures that are compared. What compares fleets reads them too, and loads nothing that reads traces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .significance import PRIOR_SIGMA, PRIOR_SIGMA_OF_WAITING

if TYPE_CHECKING:
    from ..results.trace import TraceInfo

#: A line is tested if it has this share of its measure, both sides together. More tests would make each less powerful.
LEAST_SHARE = 0.01


@dataclass(frozen=True)
class Measure:
    """A figure that is compared.

    ``sampler``: the sampler that records it. ``part_of``: the measure that it is a part of; parts are shown but not judged.
    ``seen_by``: a sampler whose samples prove that the measure was recorded, even if ``sampler`` was off; if no run has such
    samples, the measure is not compared.

    ``is_signed``: may be negative. ``is_sampled``: has a sampling variance. ``prior_sigma``: relative standard deviation
    between runs that is assumed if no side has two runs. ``is_speed``: a slower machine increases it on every line.
    ``is_level``: does not grow with the duration of the run, so it has no value per second.
    """

    name: str
    title: str
    sampler: str = ""
    part_of: str = ""
    is_signed: bool = False
    is_sampled: bool = True
    prior_sigma: float = PRIOR_SIGMA
    seen_by: str = ""
    is_speed: bool = False
    is_level: bool = False

    @property
    def is_time(self) -> bool:
        """Is the unit seconds? The other unit is bytes."""
        return self.name.endswith("_s")

    def is_recorded(self, info: TraceInfo) -> bool:
        """Does the run have a figure, which may be 0?"""
        return any(info.events.get(name) is not None for name in (self.sampler, self.seen_by))


#: The measures of a line in order; the first one that changed gives the row its verdict.
LINE_MEASURES = (
    Measure("cpu_s", "CPU", "cpu", is_speed=True),
    Measure("python_s", "Python", "cpu", part_of="cpu_s"),
    Measure("native_s", "native", "cpu", part_of="cpu_s"),
    Measure("unclassified_s", "unclassified", "cpu", part_of="cpu_s"),
    Measure("system_s", "system", "cpu", part_of="cpu_s"),
    Measure("wait_s", "wait", "wait", is_sampled=False, prior_sigma=PRIOR_SIGMA_OF_WAITING),
    Measure("growth_bytes", "growth", "memory", is_signed=True),
    Measure("live_at_peak_bytes", "at peak", "alloc", is_level=True),
    Measure("alloc_bytes", "allocated", "alloc"),
    Measure("copy_bytes", "copied", "copy"),
    Measure("gpu_s", "GPU", "gpu"),
    Measure("device_copy_bytes", "GPU copy", "copy", is_sampled=False, seen_by="device_copy"),
    Measure(
        "device_sync_s", "GPU wait", "copy", is_sampled=False, seen_by="device_sync", prior_sigma=PRIOR_SIGMA_OF_WAITING
    ),
)
#: The measures of whole runs.
TOTAL_MEASURES = (
    Measure("wall_s", "wall time", is_sampled=False, prior_sigma=PRIOR_SIGMA_OF_WAITING, is_level=True),
    *(measure for measure in LINE_MEASURES if measure.name != "live_at_peak_bytes"),
    Measure("peak_bytes", "peak", "memory", is_sampled=False, is_level=True),
)
#: All measures by name, in the order of the output.
MEASURES = {measure.name: measure for measure in (*TOTAL_MEASURES, *LINE_MEASURES)}
