"""Runs a command under a seccomp filter: ``refuse_readv.py SYSCALL[,SYSCALL] COMMAND...``.

The named system calls (process_vm_readv, process_vm_writev, perf_event_open) then fail with EPERM, as they do in many containers.
"""

import os
import platform
import sys

import bpf

NUMBERS = {
    "x86_64": {"process_vm_readv": 310, "process_vm_writev": 311, "perf_event_open": 298},
    "aarch64": {"process_vm_readv": 270, "process_vm_writev": 271, "perf_event_open": 241},
}

numbers = [NUMBERS[platform.machine()][name] for name in sys.argv[1].split(",")]
bpf.install(bpf.by_number(numbers, bpf.EPERM, bpf.ALLOW))
os.execvp(sys.argv[2], sys.argv[2:])
