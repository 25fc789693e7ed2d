"""Allocates and frees blocks of an odd size through malloc itself, and prints how many part files lie beside its spool."""

import ctypes
import json
import os
import sys
import time
from pathlib import Path

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
malloc, free = libc.malloc, libc.free
free.argtypes = [ctypes.c_void_p]


def blocks(count):
    for _ in range(count):
        free(malloc(3407))  # LINE: blocks


blocks(int(sys.argv[1]))
spool = Path(os.environ["SCALENE_TRACE_SPOOL"])
deadline = time.monotonic() + 5
while not (parts := len(list(spool.parent.glob(spool.name + ".part*")))) and time.monotonic() < deadline:
    time.sleep(0.05)
print(json.dumps({"parts": parts}))
