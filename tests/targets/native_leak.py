"""``native_leak.py LIBRARY SECONDS``: leaks in a function of a C library, and in numpy."""

import ctypes
import sys
import time

import numpy

library = ctypes.CDLL(sys.argv[1])
library.leak_some.argtypes = [ctypes.c_size_t]
kept = []
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    library.leak_some(30_000)  # LINE: library
    kept.append(numpy.ones(5_000))  # LINE: numpy
    time.sleep(0.002)
