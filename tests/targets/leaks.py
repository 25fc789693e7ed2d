"""Programs that leak at a known rate, and programs that only look so. ``leaks.py WAY SECONDS``: WAY names a function.

Each paces itself by the clock and prints, at its end, the bytes per second that it leaked (0: none).
"""

import collections
import ctypes
import functools
import gc
import json
import sys
import threading
import time

KEPT = []
BLOCK = 10_007
MEGABYTE = 1_000_000


def paced(rate, seconds):
    """Yields so often that each turn may take BLOCK bytes, for ``seconds``."""
    start, done = time.monotonic(), 0
    while True:
        elapsed = time.monotonic() - start
        if elapsed >= seconds:
            return
        while done * BLOCK < rate * elapsed:
            done += 1
            yield done
        time.sleep(0.01)


def steady(seconds):
    for _ in paced(MEGABYTE, seconds):
        KEPT.append(bytearray(BLOCK))  # LINE: steady
    return len(KEPT)


def below_a_spike(seconds):
    spike = [bytes(MEGABYTE) for _ in range(500)]
    del spike
    for _ in paced(MEGABYTE / 5, seconds):
        KEPT.append(bytearray(BLOCK))  # LINE: below_a_spike
    return len(KEPT)


def native(seconds):
    malloc = ctypes.CDLL(None).malloc
    malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    count = 0
    for count in paced(MEGABYTE, seconds):  # noqa: B007
        malloc(BLOCK)  # LINE: native
    return count


def in_a_thread(seconds):
    def work():
        for _ in paced(MEGABYTE, seconds):
            KEPT.append(bytearray(BLOCK))  # LINE: in_a_thread

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return len(KEPT)


def cycles(seconds):
    gc.disable()
    count = 0
    for count in paced(MEGABYTE, seconds):  # noqa: B007
        ring = [None, bytearray(BLOCK)]  # LINE: cycles
        ring[0] = ring
    return count


def _beside(seconds, temporary, piece, rate=2 * MEGABYTE):
    """Makes and drops temporaries all the time, gigabytes per second of them if they are large."""
    start, kept, elapsed = time.monotonic(), 0, 0.0
    while elapsed < seconds:
        for _ in range(MEGABYTE // temporary or 1):
            bytes(temporary)
        while kept < rate * elapsed:
            KEPT.append(bytes(piece - sys.getsizeof(b"")))  # LINE: beside
            kept += piece
        elapsed = time.monotonic() - start
    return kept / BLOCK


def beside_small(seconds):
    return _beside(seconds, temporary=1000, piece=1000)


def beside_large(seconds):
    return _beside(seconds, temporary=2 * MEGABYTE, piece=500)


def beside_huge(seconds):
    return _beside(seconds, temporary=40 * MEGABYTE, piece=50_000)


# ---- no leaks ----


def full_cache(seconds):
    @functools.lru_cache(500)
    def page(number):
        return bytearray(2 * BLOCK)

    for number in paced(3 * MEGABYTE, seconds):
        page(number)
    return 0


def sawtooth(seconds):
    teeth = []
    for number in paced(4 * MEGABYTE, seconds):
        teeth.append(bytearray(BLOCK))
        if number % 1000 == 0:
            teeth.clear()
    return 0


def rotated_log(seconds):
    log, line = collections.deque(), "x" * (BLOCK - 100)
    rotation = int(seconds * MEGABYTE / BLOCK / 3.5)
    for number in paced(MEGABYTE, seconds):
        log.append(str(number) + line)
        if number % rotation == 0:
            log.clear()
    return 0


def temporaries(seconds):
    import numpy as np

    values, total = np.arange(BLOCK / 8), 0.0
    for number in paced(20 * MEGABYTE, seconds):
        total += float(((values * number + 1.0) ** 2).sum())
    return int(total < 0)


way, seconds = globals()[sys.argv[1]], float(sys.argv[2])
print(json.dumps({"leaked_bytes_per_s": way(seconds) * BLOCK / seconds}), flush=True)
