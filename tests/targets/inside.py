"""Runs inside a program that embeds Python: a busy line, a native one, blocks of known sizes, a thread and a wait."""

import json
import sys
import threading
import time


def busy(seconds):
    total = 0
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for i in range(20_000):
            total += i * i  # LINE: busy
    return total


def native(seconds):
    numbers = list(range(200_000, 0, -1))
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sorted(numbers, key=None)  # LINE: native


def in_thread():
    busy(0.3)


kept = [bytearray(300_041) for _ in range(7)]  # LINE: large
small = [bytes(401) for _ in range(50_000)]  # LINE: small
del small
busy(0.5)
native(0.3)
thread = threading.Thread(target=in_thread)
thread.start()  # LINE: start
thread.join()
time.sleep(0.4)  # LINE: sleep
print(json.dumps({"version": sys.version.split()[0]}), flush=True)
