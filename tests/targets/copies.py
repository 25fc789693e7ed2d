"""Copies of known volume: a gigabyte on each marked line. Prints the bytes that each copied."""

import array
import json

import numpy as np

TURNS = 400
SIZE = 2_500_003


def main():
    source = bytearray(SIZE)
    doubles = np.ones(SIZE // 8)
    numbers = array.array("d", bytes(SIZE // 8 * 8))
    for _ in range(TURNS):
        bytes(source)  # LINE: bytes
    for _ in range(TURNS):
        source[3:]  # LINE: slice
    for _ in range(TURNS):
        np.copy(doubles)  # LINE: numpy_copy
    for _ in range(TURNS):
        numbers.tobytes()  # LINE: tobytes
    for _ in range(TURNS):
        doubles.tobytes()  # LINE: numpy_tobytes
    whole = TURNS * (SIZE // 8 * 8)
    return {
        "bytes": TURNS * SIZE,
        "slice": TURNS * (SIZE - 3),
        "numpy_copy": whole,
        "tobytes": whole,
        "numpy_tobytes": whole,
    }


print(json.dumps(main()))
