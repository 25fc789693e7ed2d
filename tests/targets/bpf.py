"""Seccomp filters, for the targets that set one: how programs of the filter are written and installed."""

import ctypes
import struct

LOAD, JUMP_EQUAL, JUMP_BITS, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, KILL_PROCESS, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
SET_NO_NEW_PRIVS, SET_SECCOMP, MODE_FILTER = 38, 22, 2


def instruction(code, yes, no, value):
    return struct.pack("HBBI", code, yes, no, value)


def by_number(numbers, action, otherwise):
    """The program that answers the system calls with these numbers by ``action``, and all others by ``otherwise``."""
    program = [instruction(LOAD, 0, 0, 0)]
    for left, number in zip(range(len(numbers), 0, -1), numbers):
        program.append(instruction(JUMP_EQUAL, left, 0, number))
    return [*program, instruction(RETURN, 0, 0, otherwise), instruction(RETURN, 0, 0, action)]


def install(program):
    """Sets the filter for this thread and what it starts; it stays over exec. Raises OSError."""
    code = ctypes.create_string_buffer(b"".join(program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code)))
    libc, zero = ctypes.CDLL(None, use_errno=True), ctypes.c_ulong(0)
    for option, value, address in ((SET_NO_NEW_PRIVS, 1, zero), (SET_SECCOMP, MODE_FILTER, header)):
        if libc.prctl(option, ctypes.c_ulong(value), address, zero, zero) != 0:
            raise OSError(ctypes.get_errno(), "prctl", str(option))
