"""Half Python, half native, in alternating pieces of 20 us to 20 ms, with a stopwatch of its own.

Prints, for each pair of native function and piece length, the native share (percent) that the stopwatch saw. The pair
is the name of the function that the profile shows: ``zlib_20us``. Arguments: seconds for each, then names of pairs
(none = all).

What the native function made is freed by an assignment, which is bytecode at work, so that time is the Python piece's.
Short pieces are timed by the wall clock (0.1 us a reading), and one that was preempted counts with its usual length;
long ones by the thread's CPU clock, which goes on when a virtual processor stands still: they too count with three times
their usual length at most.
"""

import hashlib
import inspect
import json
import random
import sys
import time
import types
import zlib

LENGTHS_US = (20, 200, 2000, 20000)
KEYWORD = "keyword"  # only if it is named
NO_KEY = None


def halves(native, argument, python_rounds, clock, cap_ns, loops):
    python_ns = native_ns = 0
    x = 1
    start = clock()
    for _ in range(loops):
        result = None
        for i in range(python_rounds):
            x = (x * 31 + i) & 0xFFFFFF
        middle = clock()
        result = native(argument)
        end = clock()
        python_ns += min(middle - start, cap_ns)
        native_ns += min(end - middle, cap_ns)
        start = clock()
    return python_ns, native_ns


def with_keyword():
    """The same with a keyword in the call, which is another instruction, after one that loads a global variable."""
    space = dict(globals())
    text = "\n" * (halves.__code__.co_firstlineno - 1) + inspect.getsource(halves)
    exec(compile(text.replace("native(argument)", "native(argument, key=NO_KEY)"), __file__, "exec"), space)
    return space["halves"]


def renamed(name):
    function = with_keyword() if name.startswith(KEYWORD) else halves
    code = function.__code__.replace(co_name=name)
    if hasattr(code, "co_qualname"):
        code = code.replace(co_qualname=name)
    return types.FunctionType(code, globals(), name)


def seconds_per_unit(work, units):
    """Best of five: CPU seconds for one unit of work."""
    best = 1e9
    for _ in range(5):
        start = time.perf_counter()
        work(units)
        best = min(best, time.perf_counter() - start)
    return best / units


def python_work(rounds):
    x = 1
    for i in range(rounds):
        x = (x * 31 + i) & 0xFFFFFF


def natives():
    """Name to (C function of one argument, maker of an argument for n units of work, units to try)."""
    found = {
        "zlib": (zlib.crc32, bytes, 200_000),
        "hashlib": (hashlib.sha256, bytes, 100_000),
        "sorted": (sorted, lambda n: [random.random() for _ in range(n)], 5_000),
        KEYWORD: (sorted, lambda n: [random.random() for _ in range(n)], 5_000),
        "min": (min, lambda n: [random.random() for _ in range(n)], 5_000),
    }
    try:
        import numpy as np
    except ImportError:
        return found
    found["numpy"] = (np.logaddexp.reduce, lambda n: np.arange(float(n)), 10_000)
    return found


def native_units(native, make, units, length_us):
    """How many units of work take ``length_us``: found in two steps, as the cost is not quite linear."""
    for _ in range(2):
        argument = make(units)
        unit_s = seconds_per_unit(lambda _, argument=argument: native(argument), units)
        units = max(1, int(length_us * 1e-6 / unit_s))
    return units


def measure(name, native, make, try_units, length_us, seconds):
    argument = make(native_units(native, make, try_units, length_us))
    rounds = max(1, int(length_us * 1e-6 / seconds_per_unit(python_work, 20_000)))
    loops = max(1, int(seconds / (2e-6 * length_us)))
    short = length_us < 2000
    clock = time.perf_counter_ns if short else time.thread_time_ns
    cap_ns = (4_000 if short else 3_000) * length_us
    python_ns, native_ns = renamed(f"{name}_{length_us}us")(native, argument, rounds, clock, cap_ns, loops)
    return 100 * native_ns / (python_ns + native_ns)


def main():
    seconds = float(sys.argv[1])
    names = sys.argv[2:]
    shares = {}
    for name, (native, make, try_units) in natives().items():
        for length_us in LENGTHS_US:
            cell = f"{name}_{length_us}us"
            if cell in names or not (names or name == KEYWORD):
                shares[cell] = measure(name, native, make, try_units, length_us, seconds)
    print(json.dumps(shares))


main()
