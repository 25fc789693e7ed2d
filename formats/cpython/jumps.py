"""Where jumps backwards lead: on 3.10 and 3.11, the one at the end of a loop's body may have no line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .opcodes import InstructionSet, instruction_starts

_ARGUMENT_BITS = 8
_LARGEST = 1 << 31


def backward_targets(instructions: InstructionSet, bytecode: bytes, units: Iterable[int]) -> Iterator[int | None]:
    """The code unit to which the instruction at each code unit jumps; None if that is not a jump backwards.

    ``bytecode`` may be any bytes: a target outside of it is None too.
    """
    starts = instruction_starts(instructions, bytecode).tolist()
    for unit in units:
        yield _target(instructions, bytecode, starts[unit]) if 0 <= unit < len(starts) else None


def _target(instructions: InstructionSet, bytecode: bytes, at: int) -> int | None:
    """That of the instruction that begins at code unit ``at``."""
    name = instructions.names[bytecode[2 * at]]
    is_absolute = name == "JUMP_ABSOLUTE"  # of 3.10, where jumps forwards have other names
    if not is_absolute and "JUMP_BACKWARD" not in name:
        return None
    argument = _argument(instructions, bytecode, at)
    target = argument if is_absolute else at + instructions.units[bytecode[2 * at]] - argument
    return target if 0 <= target <= at else None


def _argument(instructions: InstructionSet, bytecode: bytes, at: int) -> int:
    """The argument of an instruction, whose higher bytes are in the EXTENDED_ARG instructions before it."""
    argument, shift = bytecode[2 * at + 1], _ARGUMENT_BITS
    while at > 0 and instructions.names[bytecode[2 * at - 2]].startswith("EXTENDED_ARG") and shift < 32:
        at -= 1
        argument |= bytecode[2 * at + 1] << shift
        shift += _ARGUMENT_BITS
    return min(argument, _LARGEST)
