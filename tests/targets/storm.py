"""Allocates and frees in four threads, with children, for a while, and prints what it has computed. Argument: seconds."""

import os
import random
import sys
import threading
import time
import warnings

warnings.simplefilter("ignore")  # of a fork beside threads


def churn(seed, out, until):
    chance, kept, sums, turns = random.Random(seed), {}, 0, 0
    while turns < 200 or time.monotonic() < until:
        number = chance.randrange(1000)
        kept[number] = [
            float(number),
            bytes(chance.choice((1, 16, 100, 511, 512, 513, 3000, 100_000))),
            {str(i): [i] for i in range(number % 40)},
        ]
        if turns < 200:
            sums += sum(len(item) for name, item in kept[number][2].items()) + len(kept[number][1])
        if number % 7 == 0:
            kept.pop(chance.randrange(1000), None)
        if turns % 400 == 399:
            kept = {name: value[:2] for name, value in kept.items()}
        turns += 1
    out[seed] = sums


until, sums = time.monotonic() + float(sys.argv[1]), {}
threads = [threading.Thread(target=churn, args=(seed, sums, until)) for seed in range(4)]
for thread in threads:
    thread.start()
for seed in range(10, 14):
    child = os.fork()
    if child == 0:
        churn(seed, sums, until)
        os._exit(sums[seed] % 100)
    sums[seed] = os.waitpid(child, 0)[1]
for thread in threads:
    thread.join()
print(sorted(sums.items()))
