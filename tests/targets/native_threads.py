"""One line whose library works in threads of its own, for the given CPU seconds of the whole process.

The library is numpy's BLAS, or the one (made of pool.c) whose path is the second argument. Prints the CPU seconds of the
process, by the kernel, while the line ran.
"""

import ctypes
import json
import resource
import sys


def cpu_s():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def by_blas(seconds):
    import numpy as np

    a = np.random.default_rng(1).random((800, 800))
    a @ a
    start = cpu_s()
    while cpu_s() < start + seconds:
        a @ a  # LINE: blas
    return cpu_s() - start


def by_pool(seconds, path):
    library = ctypes.CDLL(path)
    run = library.pool_run
    library.pool_start(3)
    start = cpu_s()
    while cpu_s() < start + seconds:
        run(ctypes.c_long(12_000_000))  # LINE: pool
    return cpu_s() - start


found = by_pool(float(sys.argv[1]), sys.argv[2]) if len(sys.argv) > 2 else by_blas(float(sys.argv[1]))
print(json.dumps({"cpu_s": found}))
