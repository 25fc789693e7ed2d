"""Large blocks that come and go beside some that stay. ``big_blocks.py [SCALE]``. The same in every run.

What is kept grows up to one moment, marked by a large block, the peak; then it is freed.
"""

import array
import sys


def sizes(count, seed):
    """``count`` numbers from 20,000 to 2,000,000, many small ones among them."""
    state = seed
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield 20_000 + int((state / 2**64) ** 3 * 1_980_000)


def ring(count):
    """The last 30 blocks stay."""
    blocks = [b""] * 30
    for number, size in enumerate(sizes(count, 1)):
        blocks[number % 30] = bytearray(size)
    return blocks


def arrays(count):
    kept = []
    for size in sizes(count, 2):
        numbers = array.array("d", bytes(size // 8 * 8))
        kept.append(numbers * 2)
    return kept


def slices(count):
    total, source = 0, bytes(2_000_000)
    for size in sizes(count, 3):
        part = source[:size]
        total += len(part.replace(b"\0", b"\1"))
    return total


def main(scale):
    kept = [arrays(int(150 * scale)), ring(int(1_500 * scale))]
    total = slices(int(1_000 * scale))
    kept.append(arrays(int(100 * scale)))
    total += len(bytes(20_000_000))
    del kept
    return total + len(ring(int(300 * scale)))


print(main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0))
