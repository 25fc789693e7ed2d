"""Keeps blocks of known sizes, each kind on a line of its own, until its end. Prints their bytes by mark."""

import json
import sys

import numpy as np

kept, sizes = [], {}


def keep(mark, value, size_bytes):
    kept.append(value)
    sizes[mark] = size_bytes


def main():
    value = bytearray(40_000_000)  # LINE: one block
    keep("one block", value, 40_000_000)
    value = np.full(5_000_000, 1.5)  # LINE: array
    keep("array", value, value.nbytes)
    value = [bytearray(2_000) for _ in range(15_000)]  # LINE: blocks of 2 KB
    keep("blocks of 2 KB", value, sum(map(sys.getsizeof, value)) + sys.getsizeof(value))
    value = [float(number) for number in range(1_000_000)]  # LINE: floats
    keep("floats", value, sum(map(sys.getsizeof, value)) + sys.getsizeof(value))
    value = {str(number): None for number in range(300_000)}  # LINE: texts
    keep("texts", value, sum(map(sys.getsizeof, value)) + sys.getsizeof(value))


main()
print(json.dumps(sizes))
