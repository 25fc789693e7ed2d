"""A 50 Hz loop with absolute deadlines: 2 ms of Python, 2 ms of zlib, then asleep; at four start phases in turn.

Prints the native share (percent) by function, from the thread's CPU clock. A profiler that samples on the kernel's
tick meets always the same half.
"""

import json
import sys
import time
import types
import zlib

PERIOD_S = 0.02
PIECE_S = 0.002
#: A piece during which the (virtual) processor stood still for a while counts with this much at most.
LONGEST_S = 1.25 * PIECE_S
DATA = bytes(50_000)


def loop(deadline, end):
    clock, crc32, monotonic = time.thread_time, zlib.crc32, time.monotonic
    python_s = native_s = 0.0
    while deadline < end:
        deadline += PERIOD_S
        time.sleep(max(0.0, deadline - monotonic()))
        start = clock()
        x = 0
        while clock() - start < PIECE_S:
            for i in range(1000):
                x = (x + i) & 7
        middle = clock()
        while clock() - middle < PIECE_S:
            crc32(DATA)
        stop = clock()
        python_s += min(middle - start, LONGEST_S)
        native_s += min(stop - middle, LONGEST_S)
    return 100 * native_s / (python_s + native_s)


def renamed(name):
    code = loop.__code__.replace(co_name=name)
    if hasattr(code, "co_qualname"):
        code = code.replace(co_qualname=name)
    return types.FunctionType(code, globals(), name)


def main():
    seconds = float(sys.argv[1])
    shares = {}
    for phase_ms in range(4):
        deadline = (time.monotonic() // PERIOD_S + 1) * PERIOD_S + phase_ms / 1000
        shares[f"phase_{phase_ms}ms"] = renamed(f"phase_{phase_ms}ms")(deadline, deadline + seconds)
    print(json.dumps(shares))


main()
