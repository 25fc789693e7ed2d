"""Lists, byte arrays and strings that grow, of all sizes: much of it realloc. ``growing_blocks.py [SCALE]``. The same in
every run. What is kept grows up to one moment, marked by a large block, the peak; then it is freed.
"""

import io
import sys


def lists(count, length):
    kept = []
    for number in range(count):
        grown = []
        for item in range(length + number % 50):
            grown.append(item)
        kept.append(grown)
    return kept


def byte_arrays(count, pieces):
    kept, piece = [], b"0123456789abcdef" * 5
    for number in range(count):
        grown = bytearray()
        for _ in range(pieces + number % 7):
            grown += piece
        kept.append(grown)
    return kept


def buffers(count):
    total = 0
    for number in range(count):
        buffer = io.BytesIO()
        for turn in range(40):
            buffer.write(bytes(100 * turn + number % 13))
        total += len(buffer.getvalue())
    return total


def strings(count):
    kept = []
    for number in range(count):
        parts = [str(part * number) for part in range(60)]
        kept.append(", ".join(parts))
    return kept


def main(scale):
    kept = [lists(int(1_500 * scale), 900), byte_arrays(int(1_000 * scale), 200), strings(int(6_000 * scale))]
    total = buffers(int(250 * scale)) + len(bytes(6_000_000))
    del kept
    return total + len(lists(int(500 * scale), 500))


print(main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0))
