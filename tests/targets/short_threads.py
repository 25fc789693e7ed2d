"""A thousand threads of 3 ms of CPU each, ten at a time. Prints the CPU seconds that they used in ``short``, those with their
start, and those of the whole process."""

import json
import threading
import time

USED_S = []
WITH_START_S = []


def short():
    start = time.thread_time()
    end = start + 0.003
    x = 1
    while time.thread_time() < end:
        for i in range(500):
            x = (x * 31 + i) & 0xFFFFFF
    WITH_START_S.append(time.thread_time())
    USED_S.append(WITH_START_S[-1] - start)


for _ in range(100):
    threads = [threading.Thread(target=short) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
facts = {"threads": len(USED_S), "short_s": sum(USED_S), "with_start_s": sum(WITH_START_S)}
print(json.dumps(facts | {"process_s": time.process_time()}))
