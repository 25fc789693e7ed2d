"""Resolves addresses of a process to the images that were loaded there."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ....formats.spool.layout import names_of
from ....formats.spool.reader import WithPayload
from ....formats.trace.text import from_bytes

_CLASSES = names_of("PC_")


@dataclass(frozen=True)
class Segment:
    """An executable segment at the addresses [start, end) of a process, observed at ``t_ns``. ELF virtual address = address
    - bias, modulo 2**64."""

    start: int
    end: int
    bias: int
    path: str
    pc_class: str
    t_ns: int = 0

    @property
    def range(self) -> tuple[int, int]:
        """Its ELF virtual addresses [start, end)."""
        return (self.start - self.bias) % 2**64, (self.end - self.bias) % 2**64


@dataclass(frozen=True)
class Image:
    """An image that was loaded from ``path``. ``ranges``: its executable ELF virtual addresses [start, end);
    ``loaded_ns``: a time at which it was already loaded (ns, CLOCK_REALTIME)."""

    path: str
    ranges: frozenset[tuple[int, int]]
    loaded_ns: int


@dataclass(frozen=True)
class Resolved:
    """For each address: module id (0 = in no known image) and ELF virtual address in that module."""

    module: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]


class ModuleIds:
    """Assigns ids to the images that addresses are found in: from 1, one for each path."""

    def __init__(self) -> None:
        self._ids: dict[str, tuple[int, str]] = {}
        self._segments: dict[str, set[Segment]] = defaultdict(set)

    def id_of(self, segment: Segment) -> int:
        """The id of the segment's image; assigns one on the first call."""
        self._segments[segment.path].add(segment)
        return self._ids.setdefault(segment.path, (len(self._ids) + 1, segment.pc_class))[0]

    def images(self, clock_ns: int) -> dict[int, Image]:
        """The images by id. ``clock_ns`` is added to the segments' times, to convert them to CLOCK_REALTIME."""
        images = {}
        for path, (module, _) in self._ids.items():
            segments = self._segments[path]
            ranges = frozenset(each.range for each in segments)
            images[module] = Image(path, ranges, clock_ns + min(each.t_ns for each in segments))
        return images

    def table(self) -> dict[str, Any]:
        """The ``module`` table."""
        ids, classes = zip(*self._ids.values(), strict=True) if self._ids else ((), ())
        return {"id": list(ids), "path": list(self._ids), "class": list(classes)}


def segments_by_process(modules: list[WithPayload], forked_from: dict[int, int]) -> dict[int, list[Segment]]:
    """The segments of each process, oldest first: those inherited from the processes that it was forked from, then its own.

    ``forked_from``: process id → id of the parent that it is a copy of. A process that was started by exec inherits none.
    """
    own: dict[int, list[WithPayload]] = defaultdict(list)
    for module in modules:
        own[module.process].append(module)
    found: dict[int, list[Segment]] = {}
    for process in own.keys() | forked_from.keys():
        lineage = _lineage(process, forked_from)
        found[process] = [_segment(each) for ancestor in reversed(lineage) for each in _by_time(own.get(ancestor, []))]
    return found


def _lineage(process: int, forked_from: dict[int, int]) -> list[int]:
    lineage = [process]
    while (parent := forked_from.get(lineage[-1], 0)) and parent not in lineage:
        lineage.append(parent)
    return lineage


def _by_time(modules: list[WithPayload]) -> list[WithPayload]:
    return sorted(modules, key=lambda each: int(each.record["t_ns"]))


def _segment(module: WithPayload) -> Segment:
    record = module.record
    path = from_bytes(module.payload[: int(record["path_bytes"])])
    pc_class = _CLASSES.get(int(record["pc_class"]), "unknown")
    where = int(record["start"]), int(record["end"]), int(record["bias"])
    return Segment(*where, path, pc_class, int(record["t_ns"]))


def resolve(addresses: npt.NDArray[np.uint64], segments: list[Segment], ids: ModuleIds) -> Resolved:
    """The image of each address (uint64[n]) of one process. Where segments overlap, the later one counts. ``ids`` gets the
    images that are found."""
    distinct, of_address = np.unique(addresses, return_inverse=True)
    which = np.full(len(distinct), -1, np.int64)
    for number, segment in enumerate(segments):
        low, high = np.searchsorted(distinct, np.array([segment.start, segment.end], np.uint64))
        which[low:high] = number
    module = np.zeros(len(distinct), np.int32)
    offset = np.zeros(len(distinct), np.int64)
    for number in np.unique(which[which >= 0]).tolist():
        rows = which == number
        module[rows] = ids.id_of(segments[number])
        offset[rows] = (distinct[rows] - np.uint64(segments[number].bias)).view(np.int64)
    return Resolved(module[of_address], offset[of_address])
