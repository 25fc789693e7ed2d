"""Allocates where that is delicate. ``harm.py LIBRARY WAY``: the library is blocks.c, WAY names a function below."""

import atexit
import ctypes
import json
import resource
import signal
import sys

library, libc = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(None, use_errno=True)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
library.interrupted.argtypes = [ctypes.c_int]
library.allocate_in_vfork.argtypes = [ctypes.c_size_t]
library.allocate_at_exit.argtypes = [ctypes.c_size_t]


def failures():
    """Calls that must fail."""
    library.failures()


def memory_errors():
    """Objects that cannot be had."""
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, resource.RLIM_INFINITY))
    for make in (lambda: bytes(5_000_000_011), lambda: bytearray(1 << 62), lambda: [None] * (1 << 60)):
        try:
            make()
            print("made")
        except MemoryError:
            print("refused")


def address_space():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()


def exhausted():
    """Blocks until the address space is used up, within a limit of its own."""
    resource.setrlimit(resource.RLIMIT_AS, (address_space() + 300_000_000, resource.RLIM_INFINITY))
    done = 0
    while done < 1000 and libc.malloc(1_999_993):
        done += 1
    error = ctypes.get_errno()
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(json.dumps({"done": done, "errno": error}))


def until_it_fails():
    """Blocks until the limit that it was started under."""
    done = 0
    while done < 10_000 and libc.malloc(1_999_993):
        done += 1
    print(json.dumps({"some": done > 10, "errno": ctypes.get_errno()}))


def in_signal_handlers():
    print(json.dumps({"handled": library.interrupted(2000)}))


def in_python_handlers():
    """The interpreter calls these between two instructions."""
    made, words = [], 0
    signal.signal(signal.SIGALRM, lambda *_: made.append(bytes(43_051)))
    signal.setitimer(signal.ITIMER_REAL, 0.0025, 0.0025)
    while len(made) < 40:
        words += len([str(number) * 3 for number in range(100)])
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(json.dumps({"made": len(made), "words": words}))


def at_exit():
    """Python's atexit, libc's, a destructor of a library, and Py_AtExit, which runs behind everything of Python."""
    atexit.register(lambda: print(len([bytes(333_323) for _ in range(5)]), flush=True))
    ctypes.pythonapi.Py_AtExit(library.after_finalize)
    library.allocate_at_exit(333_337)


def in_a_vfork_child():
    print(json.dumps({"status": library.allocate_in_vfork(654_323)}))


globals()[sys.argv[2]]()
