"""Sets a seccomp filter of arm64 and computes for a CPU second: ``filtered_arm64.py kills|allows prctl|syscall``.

The filter kills for calls that the program does not make: those of the recorder (kills), or none of them (allows).
"""

import ctypes
import json
import struct
import sys
import time

import bpf

AARCH64 = 0xC00000B7
TIMER_SETTIME, PERF_EVENT_OPEN, PROCESS_VM_READV, PTRACE, SECCOMP = 110, 241, 270, 117, 277
OF_ARCHITECTURE = 4

kills, way = sys.argv[1] == "kills", sys.argv[2]
numbers = [TIMER_SETTIME, PERF_EVENT_OPEN, PROCESS_VM_READV] if kills else [PTRACE]
program = [
    bpf.instruction(bpf.LOAD, 0, 0, OF_ARCHITECTURE),
    bpf.instruction(bpf.JUMP_EQUAL, 1, 0, AARCH64),
    bpf.instruction(bpf.RETURN, 0, 0, bpf.KILL_PROCESS),
    *bpf.by_number(numbers, bpf.KILL_PROCESS, bpf.ALLOW),
]
if way == "prctl":
    bpf.install(program)
else:
    code = ctypes.create_string_buffer(b"".join(program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(bpf.SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0)))
    assert libc.syscall(ctypes.c_long(SECCOMP), ctypes.c_long(1), ctypes.c_long(0), header) == 0, ctypes.get_errno()

start = time.thread_time()
number = 0
while time.thread_time() - start < 1:
    for i in range(1000):
        number += i * i  # LINE: filtered
print(json.dumps({"number": number}))
