"""Prints the CPU time that the kernel counts for this process: work in the main thread and in two others."""

import json
import resource
import sys
import threading
import time


def work(seconds):
    end = time.thread_time() + seconds
    x = 1
    while time.thread_time() < end:
        for i in range(20_000):
            x = (x * 31 + i) & 0xFFFFFF


def main():
    seconds = float(sys.argv[1])
    threads = [threading.Thread(target=work, args=(seconds / 3,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    work(seconds / 3)
    for thread in threads:
        thread.join()
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"cpu_s": used.ru_utime + used.ru_stime}))


main()
