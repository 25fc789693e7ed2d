"""Prints ns per pair of malloc and free, pair of pymalloc, addition of integers, and copy, as JSON. ``pairs.py
LIBRARY``: that of pairs.c. An addition makes one integer and frees another one.

Of each, the median of some loops of 10 ms or more; the library's calls go to whatever allocator the process has.
"""

import ctypes
import json
import statistics
import sys
import time
from itertools import repeat

LOOPS = 7
SIZES = (16, 512, 65_536)
COPIES = (16, 4096)
LOOP_NS = 10e6

size_t, pointer = ctypes.c_size_t, ctypes.c_void_p
native, holding_gil = ctypes.CDLL(sys.argv[1]), ctypes.PyDLL(sys.argv[1])
object_malloc = ctypes.cast(ctypes.pythonapi.PyObject_Malloc, pointer)
object_free = ctypes.cast(ctypes.pythonapi.PyObject_Free, pointer)
native.malloc_pair_ns.restype = native.memcpy_ns.restype = holding_gil.object_pair_ns.restype = ctypes.c_double
native.malloc_pair_ns.argtypes = native.memcpy_ns.argtypes = [size_t, ctypes.c_long]
holding_gil.object_pair_ns.argtypes = [pointer, pointer, size_t, ctypes.c_long]


def object_pair_ns(size, count):
    return holding_gil.object_pair_ns(object_malloc, object_free, size, count)


def addition_ns(first, count):
    value, start_ns = first, time.perf_counter_ns()
    for _ in repeat(None, count):
        value = value + 1
    return (time.perf_counter_ns() - start_ns) / count


def median_ns(loop, size):
    """The median of some loops that are each as long as LOOP_NS, as far as a first short one can tell."""
    count = max(1000, int(LOOP_NS / loop(size, 10_000)))
    return statistics.median(loop(size, count) for _ in range(LOOPS))


def main():
    found = {f"malloc {size}": median_ns(native.malloc_pair_ns, size) for size in SIZES}
    found |= {f"pymalloc {size}": median_ns(object_pair_ns, size) for size in SIZES if size <= 512}
    found |= {"integer + 1": median_ns(addition_ns, 1_000)}
    found |= {f"memcpy {size}": median_ns(native.memcpy_ns, size) for size in COPIES}
    print(json.dumps(found))


main()
