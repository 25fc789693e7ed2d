"""Runs a command under a seccomp filter: ``refuse_readv.py SYSCALL[,SYSCALL] COMMAND...``.

The named system calls (process_vm_readv, process_vm_writev, perf_event_open) then fail with EPERM, as they do in many containers.
"""

import ctypes
import os
import platform
import struct
import sys

NUMBERS = {
    "x86_64": {"process_vm_readv": 310, "process_vm_writev": 311, "perf_event_open": 298},
    "aarch64": {"process_vm_readv": 270, "process_vm_writev": 271, "perf_event_open": 241},
}
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, EPERM = 0x7FFF0000, 0x00050001
SET_NO_NEW_PRIVS, SET_SECCOMP, MODE_FILTER = 38, 22, 2


def instruction(code, yes, no, value):
    return struct.pack("HBBI", code, yes, no, value)


def refuse(numbers):
    """Installs the filter in this process; it stays over exec."""
    program = [instruction(LOAD, 0, 0, 0)]
    for left, number in zip(range(len(numbers), 0, -1), numbers):
        program.append(instruction(JUMP_EQUAL, left, 0, number))
    program += [instruction(RETURN, 0, 0, ALLOW), instruction(RETURN, 0, 0, EPERM)]
    code = ctypes.create_string_buffer(b"".join(program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    if libc.prctl(SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    if libc.prctl(SET_SECCOMP, ctypes.c_ulong(MODE_FILTER), header, zero, zero) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_SECCOMP")


refuse([NUMBERS[platform.machine()][name] for name in sys.argv[1].split(",")])
os.execvp(sys.argv[2], sys.argv[2:])
