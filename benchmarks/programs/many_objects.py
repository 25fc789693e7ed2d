"""Millions of small objects, most of them short-lived. ``many_objects.py [SCALE]``. The same in every run.

What is kept grows up to one moment, marked by a large block, the peak; then it is freed.
"""

import sys


class Point:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


def build(count):
    table, points, names = {}, [], []
    for number in range(count):
        table[number] = (number + 0.5, number * 1.5, number + 10_000_000)
        points.append(Point(number / 3, number / 7))
        names.append(f"the name of object {number} of {count}, which is in a list of names")
    return table, points, names


def churn(count):
    longest = 0
    for number in range(count):
        words = [number, number + 1, number + 2, number + 3]
        pairs = [(word, word / 2) for word in words]
        text = f"{number}: {words[0] * 1_000_003} and {words[1] * 1_000_003} and {words[2] * 1_000_003}"
        longest = max(longest, len(text) + len(pairs))
    return longest


def main(scale):
    kept = build(int(50_000 * scale))
    size = churn(int(50_000 * scale))
    copied = [list(point) for point in kept[0].values()]
    size += len(copied) + len(bytes(6_000_000))
    del kept, copied
    return size + churn(int(20_000 * scale))


print(main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0))
