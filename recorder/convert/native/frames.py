"""Makes the ``native`` table: the functions on the native stacks of ticks, each with a reference to its caller's row.
Everything here works on whole columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ....formats.dataclass import dataclass
from ....formats.spool.layout import constants
from ....formats.trace.columns import Masked
from ..keyed.by_key import Ints, ids_of, index_of
from .addresses import ModuleIds, Modules, Resolved

_C = constants()
#: More functions than the shim writes for one stack. Only in a damaged spool, stacks are deeper or do not end.
_DEEPEST = 256

Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class NativeFrames:
    """The native stacks of a recording. ``hashes``: sorted; ``ids``: the row of each in ``table``, from 1, 0 = none;
    ``extension``: for each row, the innermost function among its callers that is an extension's; ``table``: the
    ``native`` table; ``unresolved``: number of wanted stacks without a complete chain of records."""

    hashes: Hashes
    ids: npt.NDArray[np.int32]
    extension: Resolved
    table: dict[str, Any]
    unresolved: int

    def id_of(self, hashes: Hashes) -> Masked:
        """The row of each tick's innermost function, masked where there is none."""
        return ids_of(self.hashes, self.ids, hashes)

    def extension_of(self, ids: Masked) -> Resolved:
        """The extension for each tick, from its row as :meth:`id_of` gives it."""
        if not len(self.extension.module):
            return Resolved(np.zeros(len(ids), np.int32), np.zeros(len(ids), np.int64))
        row = np.where(ids.mask, 0, ids.data - 1)
        module = np.where(ids.mask, 0, self.extension.module[row]).astype(np.int32)
        return Resolved(module, self.extension.offset[row])


def native_frames(
    records: npt.NDArray[np.void], wanted: Hashes, modules: Modules, module_ids: ModuleIds
) -> NativeFrames:
    """The stacks whose innermost functions have the hashes ``wanted``. ``records``: distinct native records, sorted by
    hash; ``module_ids`` gets the images that they are in."""
    hashes, parents = records["hash"], records["parent"]
    parent = np.where(parents == 0, -1, index_of(hashes, parents))
    lost = (parents != 0) & (parent < 0)
    depth = _depths(parent)
    start = index_of(hashes, wanted[wanted != 0])
    used = _with_callers(start[start >= 0], parent, depth)
    unresolved = int(np.count_nonzero(start < 0)) + int(np.count_nonzero(depth[start[start >= 0]] < 0))
    used = used[np.lexsort((hashes[used], depth[used]))]
    ids = np.zeros(len(hashes), np.int32)
    ids[used] = np.arange(1, len(used) + 1)
    module, is_extension = _modules_of(records["image"][used], modules, module_ids)
    offset = records["address"][used].view(np.int64)
    above = np.where(parent[used] >= 0, ids[parent[used]], 0)
    gap = (records["flags"][used] & _C["NATIVE_GAP"] != 0) | lost[used]
    table = {
        "id": np.arange(1, len(used) + 1, dtype=np.int32),
        "parent": Masked(above, above == 0),
        "module": Masked(module, module == 0),
        "offset": Masked(offset, (module == 0) | (offset <= 0)),
        "gap": gap,
    }
    return NativeFrames(hashes, ids, _extensions(above, module, offset, is_extension), table, unresolved)


def _depths(parent: Ints) -> Ints:
    """The number of callers of each record; -1 = it is deeper than any stack that the shim writes, or its own caller."""
    depth = np.where(parent < 0, 0, -1)
    for _ in range(_DEEPEST):
        next_ones = np.flatnonzero(depth < 0)
        next_ones = next_ones[depth[parent[next_ones]] >= 0]
        if not len(next_ones):
            break
        depth[next_ones] = depth[parent[next_ones]] + 1
    return depth


def _with_callers(start: Ints, parent: Ints, depth: Ints) -> Ints:
    """The records ``start`` and all their callers, without those that have no depth."""
    used = np.zeros(len(parent), np.bool_)
    new = np.unique(start[depth[start] >= 0])
    while len(new):
        used[new] = True
        above = np.unique(parent[new])
        above = above[above >= 0]
        new = above[~used[above]]
    return np.flatnonzero(used)


def _modules_of(
    images: npt.NDArray[np.uint64], modules: Modules, module_ids: ModuleIds
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """The module id of each image, 0 = none, and whether it is an extension."""
    distinct, of_row = np.unique(images, return_inverse=True)
    segments = [modules.of_image(image) for image in distinct.tolist()]
    found = [module_ids.id_of(segment) if segment else 0 for segment in segments]
    extension = [segment is not None and segment.pc_class == "extension" for segment in segments]
    return np.array(found, np.int32)[of_row], np.array(extension, np.bool_)[of_row]


def _extensions(
    parent: npt.NDArray[np.int32], module: npt.NDArray[np.int32], offset: Ints, is_extension: npt.NDArray[np.bool_]
) -> Resolved:
    """For each row the nearest caller in an extension. ``parent``: ids, 0 = none; callers come before their callees."""
    nearest = np.zeros(len(parent), np.int64)  # as an id
    for row, above in enumerate(parent.tolist()):
        if above:
            nearest[row] = above if is_extension[above - 1] else nearest[above - 1]
    index = np.maximum(nearest - 1, 0)
    if not len(parent):
        return Resolved(np.empty(0, np.int32), np.empty(0, np.int64))
    return Resolved(np.where(nearest > 0, module[index], 0).astype(np.int32), np.maximum(offset[index], 0))


def function_offsets(table: Mapping[str, Any]) -> tuple[Masked, Masked]:
    """The modules and ELF virtual addresses of the functions in the ``native`` table, masked where they are unknown."""
    mask = table["offset"].mask
    return Masked(table["module"].data, mask), table["offset"]
