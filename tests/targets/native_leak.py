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
rounds, due, stall = 0, time.monotonic(), 0.0
with open("/proc/self/stat") as stat:
    start_up = time.clock_gettime(time.CLOCK_BOOTTIME) - int(stat.read().split()[21]) / 100
# What fills less than six tenths of a process is no leak, nor is what hardly grows in its last third: on a machine where
# the imports take long, or that stands still for a second, it goes on longer.
while rounds < 500 * max(int(sys.argv[2]), 2 * start_up, 10 * stall):
    rounds += 1
    library.leak_some(30_000)  # LINE: library
    kept.append(numpy.ones(5_000))  # LINE: numpy
    for _ in range(200):
        in_rust = in_rust.push_front(None)  # LINE: rust
    now = time.monotonic()
    stall = max(stall, now - due)
    due = max(due + 1 / 500, now)  # evenly: rounds that a busy machine has delayed are not caught up
    time.sleep(due - now)
