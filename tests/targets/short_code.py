"""Functions that live one after another, mostly at the same addresses, each in a file of its own. ``short_code.py
ROUNDS``.

Function number n allocates blocks of the size SIZE + n, which nothing else asks for: while it runs, in a generator that
it drives, in a thread, and when its frame is cleared. It also makes an object of a class of its own, Made_n, whose size
depends on n alone. Prints how many of each size there are.
"""

import json
import sys
import threading

SIZE = 70_000
STEP = 64
SOURCE = """
class Made_{number}(bytes):
    pass


class Last:
    def __del__(self):
        bytes({size})


def made(keep):
    def several():
        for _ in range(3):
            yield bytes({size})
    block = bytes({size})
    for one in several():
        keep.append(len(one))
    keep.append([bytes({size}) for _ in range(2)])
    keep.append(Made_{number}({size} + 8))
    last = Last()
"""
BLOCKS = 7


def deep(depth, function, keep):
    """Calls the function with so many frames below it."""
    if depth:
        deep(depth - 1, function, keep)
    else:
        function(keep)


def round_of(number):
    """Makes a function, calls it, and drops it."""
    names = {}
    source = "\n" * (number % 7) + SOURCE.format(number=number, size=SIZE + STEP * number)
    exec(compile(source, f"made_{number}.py", "exec"), names)
    depth = number % 5 * 10
    if number % 3:
        deep(depth, names["made"], [])
    else:
        thread = threading.Thread(target=deep, args=(depth, names["made"], []))
        thread.start()
        thread.join()


def main():
    rounds = int(sys.argv[1])
    for number in range(rounds):
        round_of(number)
    print(json.dumps({"rounds": rounds, "first": SIZE + 33, "step": STEP, "blocks": BLOCKS}))


main()
