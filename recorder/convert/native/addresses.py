"""Resolves addresses of a process to the images that were loaded there."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt

from ....formats.dataclass import dataclass
from ....formats.spool.layout import names_of
from ....formats.spool.reader import WithPayload
from ....formats.trace.text import from_bytes
from ..keyed.by_key import ByKey

_CLASSES = names_of("PC_")
#: A module record. ``path``: number of its path.
_SEGMENT = np.dtype(
    [
        *((name, "<u8") for name in ("start", "end", "bias")),
        *(("t_ns", "<i8"), ("process", "<i4"), ("path", "<i4"), ("pc_class", "<u4"), ("pad", "<u4")),
    ]
)


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
        self._ranges: dict[str, set[tuple[int, int]]] = defaultdict(set)
        self._loaded_ns: dict[str, int] = {}

    def id_of(self, segment: Segment) -> int:
        """The id of the segment's image; assigns one on the first call."""
        path = segment.path
        self._ranges[path].add(segment.range)
        self._loaded_ns[path] = min(segment.t_ns, self._loaded_ns.get(path, segment.t_ns))
        return self._ids.setdefault(path, (len(self._ids) + 1, segment.pc_class))[0]

    def images(self, clock_ns: int) -> dict[int, Image]:
        """The images by id. ``clock_ns`` is added to the segments' times, to convert them to CLOCK_REALTIME."""
        return {
            module: Image(path, frozenset(self._ranges[path]), clock_ns + self._loaded_ns[path])
            for path, (module, _) in self._ids.items()
        }

    def table(self) -> dict[str, Any]:
        """The ``module`` table."""
        ids, classes = zip(*self._ids.values(), strict=True) if self._ids else ((), ())
        return {"id": list(ids), "path": list(self._ids), "class": list(classes)}


class ModuleCollector:
    """Collects the module records of all processes. Each takes 48 bytes; a path is kept once."""

    def __init__(self) -> None:
        self._paths: dict[bytes, int] = {}
        self._images: dict[int, tuple[int, ...]] = {}
        self._rows: list[npt.NDArray[np.void]] = []

    def add(self, found: list[WithPayload]) -> None:
        """Adds the records of a batch."""
        if found:
            self._rows.append(np.array([self._row(each) for each in found], _SEGMENT))

    def all(self, forked_from: ByKey) -> Modules:
        """The modules of all batches. ``forked_from``: the parent that each forked process is a copy of. A process that was
        started by exec inherits no modules."""
        rows = np.concatenate([*self._rows, np.empty(0, _SEGMENT)])
        self._rows.clear()
        order = np.lexsort((rows["t_ns"], rows["process"]))
        images = np.array(list(self._images.values()), _SEGMENT)
        of_image = dict(zip(self._images, images, strict=True))
        return Modules(rows[order], of_image, [from_bytes(path) for path in self._paths], forked_from)

    def _row(self, module: WithPayload) -> tuple[int, ...]:
        record = module.record
        path = self._paths.setdefault(module.payload[: int(record["path_bytes"])], len(self._paths))
        where = int(record["start"]), int(record["end"]), int(record["bias"])
        row = *where, int(record["t_ns"]), module.process, path, int(record["pc_class"]), 0
        image = int(record["image"])
        self._images[image] = min(row, self._images.get(image, row), key=_time_of)
        return row


def _time_of(row: tuple[int, ...]) -> int:
    return row[3]


def segment_of(module: WithPayload) -> Segment:
    """A module record as a segment."""
    record = module.record
    path, pc_class = from_bytes(module.payload[: int(record["path_bytes"])]), int(record["pc_class"])
    where = int(record["start"]), int(record["end"]), int(record["bias"])
    return Segment(*where, path, _CLASSES.get(pc_class, "unknown"), int(record["t_ns"]))


class Modules:
    """The executable segments of all processes. ``rows``: as _SEGMENT, by process, then time; ``of_image``: the first row
    of each image, by its hash; ``paths``: by number; ``forked_from``: as in ModuleCollector."""

    def __init__(
        self, rows: npt.NDArray[np.void], of_image: dict[int, np.void], paths: list[str], forked_from: ByKey
    ) -> None:
        self._rows, self._of_image, self._paths, self._forked_from = rows, of_image, paths, forked_from
        self._process = rows["process"].astype(np.int64)

    def rows_of(self, process: int) -> npt.NDArray[np.void]:
        """The segments of a process, oldest first: those inherited from the processes that it was forked from, then its
        own."""
        found = []
        for each in reversed(self._lineage(process)):
            first, end = np.searchsorted(self._process, [each, each + 1])
            found.append(self._rows[first:end])
        return np.concatenate(found)

    def of_image(self, image: int) -> Segment | None:
        """A segment of the image with this hash. None = there is none."""
        row = self._of_image.get(image)
        return None if row is None else self.segment(row)

    def segment(self, row: np.void) -> Segment:
        """A row of :meth:`rows_of` as a segment."""
        pc_class = _CLASSES.get(int(row["pc_class"]), "unknown")
        where = int(row["start"]), int(row["end"]), int(row["bias"])
        return Segment(*where, self._paths[row["path"]], pc_class, int(row["t_ns"]))

    def _lineage(self, process: int) -> list[int]:
        lineage = {process: None}  # in order
        while (parent := self._forked_from.one(process)) and parent not in lineage:
            lineage[parent] = None
            process = parent
        return list(lineage)


def resolve(addresses: npt.NDArray[np.uint64], process: int, modules: Modules, ids: ModuleIds) -> Resolved:
    """The image of each address (uint64[n]) of one process. Where segments overlap, the later one counts. ``ids`` gets the
    images that are found."""
    distinct, of_address = np.unique(addresses, return_inverse=True)
    segments = modules.rows_of(process)
    which = np.full(len(distinct), -1, np.int64)
    low, high = np.searchsorted(distinct, segments["start"]), np.searchsorted(distinct, segments["end"])
    for number in np.flatnonzero(low < high).tolist():
        which[low[number] : high[number]] = number
    module = np.zeros(len(distinct), np.int32)
    offset = np.zeros(len(distinct), np.int64)
    for number in np.unique(which[which >= 0]).tolist():
        rows = which == number
        module[rows] = ids.id_of(modules.segment(segments[number]))
        offset[rows] = (distinct[rows] - segments[number]["bias"]).view(np.int64)
    return Resolved(module[of_address], offset[of_address])
