"""Six programs of a fixed amount of work, which measure their own functions, most of which have one busy line; the last line
printed has the seconds of each.

Argument: the program. The time of the functions of "waits" is wall time, that of all others the thread's CPU time. Each
call takes a quarter of a millisecond or more, so the stopwatch takes little.
"""

import hashlib
import json
import os
import sys
import threading
import time
import zlib

ROUNDS = 500
DATA = os.urandom(1 << 20)
NUMBERS = list(range(20_000))
ZEROS, LOCK = os.open("/dev/zero", os.O_RDONLY), threading.Lock()
TEXTS = [str(number * 7919 % 10_007) for number in NUMBERS]


class Point:
    def __init__(self, x):
        self.x = x


def arithmetic():
    total = 0
    for number in NUMBERS:
        total += number * number % 7
    return total


POINTS = tuple(map(Point, range(12_000)))


def attributes():
    total = 0
    for point in POINTS:
        point.x = total = point.x + 1
    return total


def dictionaries():
    found = {}
    for text in TEXTS:
        found[text] = found.get(text, 0) + 1
    return found


def digest():
    return hashlib.sha256(DATA).digest()


def compress():
    return zlib.compress(DATA[:150_000], 1)


def order():
    return sorted(TEXTS)


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def numbers():
    return fibonacci(18)


def three(a):
    return a + 3


def calls():
    total = 0
    for number in NUMBERS:
        total += three(number)
    return total


def zeros():
    return os.read(ZEROS, 8 << 20)


def random_bytes():
    return os.urandom(1 << 20)


def dump():
    return json.dumps(TEXTS)


def nap():
    time.sleep(0.004)


def locked():
    with LOCK:
        threading.Timer(0.003, LOCK.release).start()
        LOCK.acquire()


PROGRAMS = {
    "python": (arithmetic, attributes, dictionaries),
    "native": (digest, compress, order),
    "calls": (numbers, calls),
    "kernel": (zeros, random_bytes, dictionaries),
    "threads": (arithmetic, digest),
    "waits": (nap, locked, dump),
}


def work(pieces, clock, spent):
    for _ in range(ROUNDS):
        for piece in pieces:
            begun_s = clock()
            piece()
            spent[piece.__name__] = spent.get(piece.__name__, 0.0) + clock() - begun_s


def main(name):
    clock = time.perf_counter if name == "waits" else time.thread_time
    begun_s, spent = time.perf_counter(), {}
    if name == "threads":
        parts = [threading.Thread(target=work, args=((piece,), clock, spent)) for piece in PROGRAMS[name]]
        for each in parts:
            each.start()
        for each in parts:
            each.join()
    else:
        work(PROGRAMS[name], clock, spent)
    print(json.dumps({"functions": spent, "wall_s": time.perf_counter() - begun_s}))


if __name__ == "__main__":
    main(sys.argv[1])
