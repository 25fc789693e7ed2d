"""``native_leak.py LIBRARY SECONDS``: leaks in a function of a C library, in numpy, and in a library in Rust."""

import ctypes
import sys
import time

import numpy
import rpds

library = ctypes.CDLL(sys.argv[1])
library.leak_some.argtypes = [ctypes.c_size_t]
kept = []
in_rust = rpds.List()
due = time.monotonic()
for _ in range(500 * int(sys.argv[2])):
    library.leak_some(30_000)  # LINE: library
    kept.append(numpy.ones(5_000))  # LINE: numpy
    for _ in range(200):
        in_rust = in_rust.push_front(None)  # LINE: rust
    due = max(due + 1 / 500, now := time.monotonic())  # evenly: what a busy machine has delayed is not made up for
    time.sleep(due - now)
