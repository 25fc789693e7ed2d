"""Names of bytecode instructions as they are in memory, by version of CPython (``opcodes.json``).

From 3.11 on, an instruction is followed by inline caches and may be specialized in place (``CALL`` becomes
``CALL_PY_EXACT_ARGS``). In 3.11 and 3.12 the instruction pointer of a frame may be inside of the caches, so instructions are
always counted from the start of the bytecode.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..dataclass import dataclass

DATA_PATH = Path(__file__).with_name("opcodes.json")
#: Stands for an opcode that could not be read: no version uses this number for an instruction that runs in a frame.
NOT_READ = 255


@dataclass(frozen=True)
class InstructionSet:
    """``names[n]``: name of opcode n, "" = none; ``units[n]``: length of the instruction in code units, caches included;
    ``has_caches``: whether an instruction pointer may be inside of an instruction."""

    names: tuple[str, ...]
    units: tuple[int, ...]
    has_caches: bool


@cache
def instruction_set(python_version: int) -> InstructionSet | None:
    """The instructions of a version (PY_VERSION_HEX); None for a version that is not in the table.

    Also None if the table lacks the families of specialized instructions: their lengths would be wrong, and so would the
    instructions that are found after them.
    """
    facts = _table().get(f"{python_version >> 24}.{python_version >> 16 & 0xFF}")
    if facts is None:
        return None
    names = tuple(facts["names"].get(str(number), "") for number in range(256))
    caches, base = facts["caches"], facts["base"]
    if caches and not base:
        return None
    units = tuple(1 + int(caches.get(base.get(name, name), 0)) for name in names)
    return InstructionSet(names, units, bool(caches))


def instruction_starts(instructions: InstructionSet, bytecode: bytes) -> npt.NDArray[np.int32]:
    """For each code unit of ``bytecode``, the code unit at which its instruction starts: int32[len(bytecode) // 2]."""
    return next(starts_of_all(instructions, [bytecode]))


def starts_of_all(instructions: InstructionSet, bytecodes: Sequence[bytes]) -> Iterator[npt.NDArray[np.int32]]:
    """:func:`instruction_starts` of each bytecode, in order; all together take much less time."""
    lengths = np.array([len(each) // 2 for each in bytecodes], np.int64)
    ends = np.cumsum(lengths)
    count = int(lengths.sum())
    joined = b"".join([each[: len(each) // 2 * 2] for each in bytecodes])
    units = np.array(instructions.units, np.int64)[np.frombuffer(joined, np.uint8)[::2]]
    # Where the instruction leads to that would begin at each unit; at the end, to the first one of the next bytecode.
    following = np.append(np.minimum(np.arange(count) + units, np.repeat(ends, lengths)), count)
    is_start = np.zeros(count + 1, np.bool_)
    is_start[ends - lengths] = True
    reached_units = 1
    while reached_units <= lengths.max(initial=0):  # by 1, 2, 4, … instructions
        is_start[following[is_start]] = True
        following = following[following]
        reached_units *= 2
    starts = np.maximum.accumulate(np.where(is_start[:count], np.arange(count), 0)).astype(np.int32)
    for first, end in zip((ends - lengths).tolist(), ends.tolist(), strict=True):
        yield starts[first:end] - np.int32(first)


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(DATA_PATH.read_text("utf-8"))
    return table
