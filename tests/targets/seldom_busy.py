"""Threads that use a millisecond of CPU time about ten times a second, beside one that computes; prints the CPU time of both."""

import json
import random
import sys
import threading
import time

THREADS = 30


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def seldom(until):
    while time.monotonic() < until:
        spin(random.uniform(0, 0.002))  # so that the threads do not run in step
        time.sleep(random.uniform(0.02, 0.16))
    used.append(time.thread_time())


def busy(until):
    while time.monotonic() < until:
        spin(0.01)


if __name__ == "__main__":
    used, until = [], time.monotonic() + float(sys.argv[1])
    threads = [threading.Thread(target=seldom, args=(until,)) for _ in range(THREADS)]
    for each in threads:
        each.start()
    begun = time.thread_time()
    busy(until)
    alone = time.thread_time() - begun
    for each in threads:
        each.join()
    print(json.dumps({"seldom_s": sum(used), "busy_s": alone}))
