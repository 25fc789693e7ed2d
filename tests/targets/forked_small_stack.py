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
memory = ctypes.create_string_buffer(size)
stack = Stack(ctypes.addressof(memory), 0, size)
accepted = ctypes.CDLL(None).sigaltstack(ctypes.byref(stack), None) == 0
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
