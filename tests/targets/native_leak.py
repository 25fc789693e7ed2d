"""``native_leak.py LIBRARY SECONDS``: leaks in a function of a C library, and in numpy."""

import ctypes
import sys
import time

import numpy

library = ctypes.CDLL(sys.argv[1])
library.leak_some.argtypes = [ctypes.c_size_t]
kept = []
start = time.monotonic()
for step in range(500 * int(sys.argv[2])):
    library.leak_some(30_000)  # LINE: library
    kept.append(numpy.ones(5_000))  # LINE: numpy
    time.sleep(max(start + (step + 1) / 500 - time.monotonic(), 0))  # evenly, on a busy machine too
