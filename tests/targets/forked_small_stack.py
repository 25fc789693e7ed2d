"""Forks while a small alternate signal stack is registered: on it, a signal frame of a modern processor has no room.

Argument: bytes of the stack. Prints how each child ended.
"""

import ctypes
import os
import sys
import time


class Stack(ctypes.Structure):
    _fields_ = (("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


size = int(sys.argv[1])
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
memory = libc.malloc(ctypes.c_size_t(size))  # never freed: a buffer of ctypes would be, before the process ends
stack = Stack(memory, 0, size)
accepted = libc.sigaltstack(ctypes.byref(stack), None) == 0
print("accepted" if accepted else "refused", flush=True)
for generation in range(3):
    child = os.fork()
    if child == 0:
        burn(0.1)
        if generation < 2:
            continue
        os._exit(0)
    print(generation, os.waitpid(child, 0)[1], flush=True)
    break
burn(0.1)
