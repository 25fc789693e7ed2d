"""numpy operators, subscripts and comparisons, each on its own line, each timed by the thread's CPU clock.

Each round takes a part of the arrays, of a random length: Linux samples kernel time at the scheduler's tick only, and
rounds of equal length could stay in step with it. Prints CPU seconds by mark.
"""

import json
import random
import sys
import time

import numpy as np


def run(end):
    watch = dict.fromkeys(("add", "multiply", "compare", "mask", "stride", "assign", "power", "negate"), 0.0)
    clock = time.thread_time
    draw = random.Random(1)
    whole = np.arange(200_000.0)
    other = whole + 1.5
    chosen_of_whole = whole % 3 > 1
    while clock() < end:
        length = draw.randrange(100_000, 200_000)
        x, y, mask = whole[:length], other[:length], chosen_of_whole[:length]
        start = clock()
        total = x + y  # LINE: add
        after_add = clock()
        product = x * y  # LINE: multiply
        after_multiply = clock()
        less = total < product  # LINE: compare
        after_compare = clock()
        chosen = x[mask]  # LINE: mask
        after_mask = clock()
        copied = x[::-1] - y[::-1]  # LINE: stride
        after_stride = clock()
        y[100:75_000] = 2.5  # LINE: assign
        after_assign = clock()
        power = x**2.5  # LINE: power
        after_power = clock()
        negated = -x  # LINE: negate
        stop = clock()
        watch["add"] += after_add - start
        watch["multiply"] += after_multiply - after_add
        watch["compare"] += after_compare - after_multiply
        watch["mask"] += after_mask - after_compare
        watch["stride"] += after_stride - after_mask
        watch["assign"] += after_assign - after_stride
        watch["power"] += after_power - after_assign
        watch["negate"] += stop - after_power
        del total, product, less, chosen, copied, power, negated
    return watch


print(json.dumps(run(time.thread_time() + float(sys.argv[1]))))
