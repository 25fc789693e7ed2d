"""Kernel time, one kind of it per function: file reads, page faults of fresh memory, fork; between them some Python.

Prints, by function, the system share (percent) of its CPU time as the kernel accounts it.
"""

import json
import mmap
import os
import resource
import sys
import tempfile
import time

SIZE = 1 << 22
USED = resource.RUSAGE_THREAD


def reads(end):
    with tempfile.TemporaryFile() as file:
        file.write(bytes(SIZE))
        while time.thread_time() < end:
            os.pread(file.fileno(), SIZE, 0)  # LINE: reads
            for i in range(10_000):
                x = i * 31


def faults(end):
    page = b"x" * SIZE
    while time.thread_time() < end:
        fresh = mmap.mmap(-1, SIZE)
        fresh[:] = page  # LINE: faults
        fresh.close()  # LINE: faults-freed
        for i in range(30_000):
            x = i * 31


def forks(end):
    while time.thread_time() < end:
        pid = os.fork()  # LINE: forks
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)  # LINE: forks-waited
        for i in range(10_000):
            x = i * 31


def share(work, seconds):
    before = resource.getrusage(USED)
    work(time.thread_time() + seconds)
    after = resource.getrusage(USED)
    system = after.ru_stime - before.ru_stime
    user = after.ru_utime - before.ru_utime
    return {"system_percent": 100 * system / (user + system), "system_s": system, "cpu_s": user + system}


print(json.dumps({work.__name__: share(work, float(sys.argv[1])) for work in (reads, faults, forks)}))
