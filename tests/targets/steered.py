"""Works in phases that it is told on stdin, one word a line, and says when each is done.

work: half a second of CPU time in a function of its own; paused: the same in another; hold: keeps 30,000,000 bytes;
keep: keeps 50,000,000 more; drop: lets the first go; threads: 40 threads, one after the other, of 10 ms each; copy: copies
200 times 1,000,000 bytes; quit.
"""

import json
import sys
import threading
import time


def work():
    end = time.thread_time() + 0.5
    while time.thread_time() < end:
        sum(range(500))


def paused():
    end = time.thread_time() + 0.5
    while time.thread_time() < end:
        sum(range(500))


kept = {}


def hold():
    kept["hold"] = bytearray(30_000_000)  # LINE: hold


def keep():
    kept["keep"] = bytearray(50_000_000)  # LINE: keep


def drop():
    kept.pop("hold")


def extra():
    kept["extra"] = bytearray(20_000_000)  # LINE: extra


def short():
    end = time.thread_time() + 0.01
    while time.thread_time() < end:
        sum(range(500))


def threads():
    for _ in range(40):
        thread = threading.Thread(target=short)
        thread.start()
        thread.join()


def copy():
    block = bytearray(1_000_000)
    for _ in range(200):
        bytes(block)  # LINE: copy


for line in sys.stdin:
    word = line.strip()
    if word == "quit":
        break
    began = time.thread_time()
    globals()[word]()
    print(json.dumps({"done": word, "cpu_s": time.thread_time() - began, "at_ns": time.monotonic_ns()}), flush=True)
