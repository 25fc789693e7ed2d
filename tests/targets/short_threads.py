"""A thousand threads of 3 ms of CPU each, ten at a time. Prints the CPU seconds that they used in ``short``."""

import json
import threading
import time

USED_S = []


def short():
    start = time.thread_time()
    end = start + 0.003
    x = 1
    while time.thread_time() < end:
        for i in range(500):
            x = (x * 31 + i) & 0xFFFFFF
    USED_S.append(time.thread_time() - start)


for _ in range(100):
    threads = [threading.Thread(target=short) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(json.dumps({"threads": len(USED_S), "short_s": sum(USED_S)}))
