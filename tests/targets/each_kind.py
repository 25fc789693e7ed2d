"""A line for each kind of figure, whose truth the program measures itself: Python, C, memory kept and freed, a sleep, a
child. Argument: CPU seconds of each loop.
"""

import hashlib
import json
import os
import sys
import time


def python_work(seconds):
    start = now = time.thread_time()
    number = 0
    while now - start < seconds:
        for i in range(2000):
            number += i * i  # LINE: python
        now = time.thread_time()
    return now - start


def native_work(seconds):
    data = bytes(200_000)
    start = now = time.thread_time()
    while now - start < seconds:
        hashlib.sha256(data).digest()  # LINE: native
        now = time.thread_time()
    return now - start


seconds = float(sys.argv[1])
facts = {"python_s": python_work(seconds), "native_s": native_work(seconds)}
kept = [bytearray(100_000) for _ in range(300)]  # LINE: kept
for _ in range(200):
    bytearray(100_000)  # LINE: freed
start = time.monotonic()
time.sleep(1)  # LINE: sleep
facts["sleep_s"] = time.monotonic() - start
child = os.fork()
if child == 0:
    python_work(seconds)
    os._exit(3)
facts["child_status"] = os.waitpid(child, 0)[1]  # LINE: wait
print(json.dumps(facts))
