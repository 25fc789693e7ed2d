"""How much address space and locked memory this process has. ``space.py WAY``: a function below."""

import ctypes
import json
import mmap
import os
import resource
import signal
import sys
import threading

libc = ctypes.CDLL(None, use_errno=True)
CURRENT, FUTURE = 1, 2


def work(rounds=8):
    """Allocates in four threads. With every allocation sampled, this writes some twenty chunks."""

    together = threading.Barrier(4)  # libc keeps the stacks of as many threads as were alive at once

    def allocate():
        together.wait()
        for _ in range(rounds):
            kept = [bytearray(600) for _ in range(250)]
            kept.clear()

    threads = [threading.Thread(target=allocate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def kib(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name))


def spool_mappings():
    """The flags of each mapping of the spool."""
    flags, inside = [], False
    with open("/proc/self/smaps") as file:
        for line in file:
            words = line.split()
            if "-" in words[0]:
                inside = words[-1].endswith("/spool")
            elif words[0] == "VmFlags:" and inside:
                flags.append(words[1:])
    return flags


def sizes():
    """Before and after mlockall."""
    work()
    found = {"size_kib": kib("VmSize")}
    found["locked"] = libc.mlockall(CURRENT) == 0
    found["locked_kib"] = kib("VmLck")
    work()
    found["undumped"] = all("dd" in flags for flags in spool_mappings())
    print(json.dumps(found))


def limited():
    """Allocates 10 MiB at a time until a limit that the program sets, then goes on within it."""
    resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))
    kept = []
    try:
        while len(kept) < 100:
            kept.append(mmap.mmap(-1, 10 << 20))
    except OSError:
        pass
    done = len(kept)
    del kept[-5:]  # room for four stacks of 8 MiB
    work()
    print(json.dumps({"done": done}))


def limited_later():
    """Keeps small objects, in 80 MiB of arenas, under a limit on data that the program sets when it has run for a while."""
    kept = [bytes(400) for _ in range(1000)]
    limit = (kib("VmData") << 10) + (120 << 20)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    try:
        kept += [bytes(400) for _ in range(170000)]
    except MemoryError:
        kept = []
    print(json.dumps({"kept": len(kept)}))


def locked():
    """Everything is locked from now on, too."""
    done = libc.mlockall(CURRENT | FUTURE) == 0
    work()
    print(json.dumps({"locked": done}))


def dumped():
    """Dies with a core dump that contains every kind of mapping."""
    work()
    with open("/proc/self/coredump_filter", "w") as file:
        file.write("0x1ff")
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    os.kill(os.getpid(), signal.SIGABRT)


globals()[sys.argv[1]]()
