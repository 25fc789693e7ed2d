"""``reserving_lines.py LIBRARY``: three lines take turns, each for a few milliseconds. Two keep memory of a library that has
an allocator of its own, one keeps Python's. Prints what each of them keeps, in bytes, by its mark."""

import ctypes
import json
import sys
import time

MIB = 1 << 20
ROUNDS = 60
library = ctypes.CDLL(sys.argv[1])
library.take.argtypes = [ctypes.c_size_t]
kept = []


def work():
    for _ in range(ROUNDS):
        library.take(3 * MIB)  # LINE: much
        kept.append([i + 0.5 for i in range(100_000)])  # LINE: list
        library.take(1 * MIB)  # LINE: little


library.take(MIB)
end = time.thread_time() + 0.3
while time.thread_time() < end:  # some ticks after the mapping was made
    pass
work()
floats = sum(sys.getsizeof(each) + 32 * len(each) for each in kept)  # pymalloc gives multiples of 16
print(json.dumps({"much": 3 * MIB * ROUNDS, "little": MIB * ROUNDS, "list": floats}))
