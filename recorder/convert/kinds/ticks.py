"""Makes the ``cpu`` and ``code`` tables from tick records. Everything here works on whole columns."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt

from ....formats.cpython.opcodes import NOT_READ, InstructionSet, instruction_set, starts_of_all
from ....formats.spool.codes import CodeObject
from ....formats.spool.layout import constants, names_of
from ....formats.spool.reader import Bulk
from ....formats.trace.columns import Coded, Masked
from ..keyed.by_key import ByKey
from ..native.addresses import ModuleIds, Modules, Resolved, resolve
from ..native.frames import NativeFrames
from ..survey.columns import Ints, rows_by_key
from ..survey.stacks import UNKNOWN_CODE, Nodes, Stacks, python_version_text

_C = constants()
_FLAG_COLUMNS = {
    "eval_found": _C["TICK_EVAL_FOUND"],
    "vectorcall": _C["TICK_VECTORCALL"],
    "tp_call": _C["TICK_TPCALL"],
    "frame_setup": _C["TICK_PYFRAME"],
    "type_call": _C["TICK_TYPE_CALL"],
    "gc": _C["TICK_GC"],
    "torn": _C["TICK_TORN"],
    "system_only": _C["TICK_SYSTEM"],
}
_OPCODE_NAMES_PER_VERSION = 256


def cpu_table(
    ticks: Bulk,
    start_mono_ns: int,
    cpu_start_ns: ByKey,
    nodes: Nodes,
    stacks: Stacks,
    modules: Modules,
    ids: ModuleIds,
    native: NativeFrames,
) -> dict[str, Any]:
    """The ``cpu`` table. ``cpu_start_ns``: each thread's CPU clock when its recording began; ``modules``: the
    images that the processes have loaded; ``ids`` gets those that addresses are found in; ``native``: the native
    stacks."""
    records = ticks.records
    flags = records["flags"].astype(np.int32)
    pc = _resolve_by_process(ticks.process, records["pc"], modules, ids)
    native_ids = native.id_of(records["native"])
    extension = native.extension_of(native_ids)
    table = {
        "t_ns": records["t_ns"] - start_mono_ns,
        "process": ticks.process,
        "thread": records["thread"].astype(np.int32),
        "stack": stacks.id_of(records["stack"]),
        "native": native_ids,
        "user_ns": records["user_ns"].astype(np.int64),
        "system_ns": records["system_ns"].astype(np.int64),
        "clock_ns": records["cpu_ns"] - cpu_start_ns.of(records["thread"].astype(np.int64)),
        "pc_class": _pc_class(flags),
        "opcode": _opcodes(ticks, nodes),
        "has_python": (flags & _C["TICK_NO_PYTHON"]) == 0,
    }
    table |= {name: (flags & bit) != 0 for name, bit in _FLAG_COLUMNS.items()}
    return table | _address_columns("pc", pc) | _address_columns("extension", extension)


def shim_ns(ticks: Bulk) -> int:
    """CPU time of ticks that interrupted our own library in the program."""
    records = ticks.records
    rows = records["flags"].astype(np.int32) >> _C["TICK_PC_SHIFT"] & 7 == _C["PC_SHIM"]
    return int(records["user_ns"][rows].sum(dtype=np.int64) + records["system_ns"][rows].sum(dtype=np.int64))


def code_table(tick_stacks: npt.NDArray[np.uint64], nodes: Nodes) -> dict[str, Any]:
    """The ``code`` table: the code objects that were innermost in a tick; equal ones share a row. ``tick_stacks``: distinct
    hashes of the ticks' stacks."""
    index = nodes.index_of(tick_stacks)
    codes = [nodes.codes[each] for each in np.unique(nodes.code[index[index >= 0]]).tolist()]
    distinct = {(c.file, c.name, c.first_line, c.python_version, c.bytecode): c for c in codes if c is not UNKNOWN_CODE}
    found = list(distinct.values())
    return {
        "file": [code.file for code in found],
        "function": [code.name for code in found],
        "first_line": [code.first_line for code in found],
        "python_version": [python_version_text(code.python_version) for code in found],
        "bytecode": [code.bytecode or None for code in found],
    }


def _pc_class(flags: npt.NDArray[np.int32]) -> Coded:
    names = names_of("PC_")
    codes = flags >> _C["TICK_PC_SHIFT"] & 7
    return Coded(np.where(codes < len(names), codes, _C["PC_UNKNOWN"]).astype(np.int32), list(names.values()))


def _address_columns(prefix: str, resolved: Resolved) -> dict[str, Any]:
    nowhere = resolved.module == 0
    return {
        f"{prefix}_module": Masked(resolved.module, nowhere),
        f"{prefix}_offset": Masked(resolved.offset, nowhere),
    }


def _resolve_by_process(
    process: npt.NDArray[np.int32],
    addresses: npt.NDArray[np.uint64],
    modules: Modules,
    ids: ModuleIds,
) -> Resolved:
    module = np.zeros(len(addresses), np.int32)
    offset = np.zeros(len(addresses), np.int64)
    for each, rows in rows_by_key(process):
        found = resolve(addresses[rows], each, modules, ids)
        module[rows], offset[rows] = found.module, found.offset
    return Resolved(module, offset)


def _opcodes(ticks: Bulk, nodes: Nodes) -> Coded:
    """The name of the instruction that the innermost frame was executing."""
    hashes, of_tick = np.unique(ticks.records["stack"], return_inverse=True)
    index = nodes.index_of(hashes)
    back, stored, version = _innermost_instructions(nodes, index)
    back, stored, version = back[of_tick], stored[of_tick], version[of_tick]
    bytes_read = ticks.records["opcodes"]
    in_reach = (back >= 0) & (back < bytes_read.shape[1])
    number = np.where(in_reach, bytes_read[np.arange(len(ticks)), np.where(in_reach, back, 0)], NOT_READ).astype(
        np.int64
    )
    number = np.where(number == NOT_READ, stored, number)
    return _opcode_names(version, number)


def _innermost_instructions(nodes: Nodes, index: Ints) -> tuple[Ints, Ints, Ints]:
    """For each node (index -1 = none): the code units back to the start of its instruction (-1 = unknown), the opcode that
    is stored there (NOT_READ = none), and the Python version (0 = none)."""
    back = np.full(len(index), -1, np.int64)
    stored = np.full(len(index), NOT_READ, np.int64)
    version = np.zeros(len(index), np.int64)
    found = np.flatnonzero(index >= 0)
    by_version: dict[int, list[tuple[CodeObject, Ints]]] = defaultdict(list)
    for each, of_code in rows_by_key(nodes.code[index[found]]):
        code, rows = nodes.codes[each], found[of_code]
        version[rows] = code.python_version
        by_version[code.python_version].append((code, rows))
    for number, codes in by_version.items():
        if (instructions := instruction_set(number)) is not None:
            all_starts = starts_of_all(instructions, [code.bytecode for code, _ in codes])
            for (code, rows), starts in zip(codes, all_starts, strict=True):
                back[rows], stored[rows] = _in_code(instructions, code, starts, nodes.instruction[index[rows]])
    return back, stored, version


def _in_code(
    instructions: InstructionSet, code: CodeObject, starts: npt.NDArray[np.int32], units: Ints
) -> tuple[Ints, Ints]:
    inside = (units >= 0) & (units < len(starts))
    if not inside.any():
        without_caches = np.where((units >= 0) & (not instructions.has_caches), 0, -1)
        return without_caches, np.full(len(units), NOT_READ, np.int64)
    start = starts[np.where(inside, units, 0)].astype(np.int64)
    opcode = np.frombuffer(code.bytecode, np.uint8)[2 * start].astype(np.int64)
    return np.where(inside, units - start, -1), np.where(inside, opcode, NOT_READ)


def _opcode_names(version: Ints, number: Ints) -> Coded:
    distinct, of_tick = np.unique(version * _OPCODE_NAMES_PER_VERSION + number, return_inverse=True)
    names = [_opcode_name(*divmod(each, _OPCODE_NAMES_PER_VERSION)) for each in distinct.tolist()]
    values = sorted({name for name in names if name})
    codes = np.array([values.index(name) if name else -1 for name in names], np.int32)
    return Coded(codes[of_tick] if len(codes) else np.empty(0, np.int32), values)


def _opcode_name(version: int, number: int) -> str:
    instructions = instruction_set(version)
    return instructions.names[number] if instructions and number != NOT_READ else ""
