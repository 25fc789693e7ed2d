"""Keeps small objects and a large one, one after the other while it computes, and prints their bytes."""

import sys
import time

FLOATS, LARGE = 500_000, 20_000_003

if __name__ == "__main__":
    until = time.monotonic() + float(sys.argv[1])
    kept = [float(each) for each in range(FLOATS)]
    large = bytearray(LARGE)
    while time.monotonic() < until:
        sum(range(1_000))
    print(32 * len(kept) + sys.getsizeof(kept) + sys.getsizeof(large), flush=True)
