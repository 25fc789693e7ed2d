"""``reserving_threads.py LIBRARY``: many threads use a library that has an allocator of its own, and so do those of a child.
Prints how many mappings of perf events the process and the child have then."""

import ctypes
import json
import os
import sys
import threading
import time

THREADS = 60
library = ctypes.CDLL(sys.argv[1])
library.take.argtypes = [ctypes.c_size_t]


def run_threads():
    """Each lives until all have had some ticks."""
    met = threading.Barrier(THREADS + 1)

    def work():
        library.take(4096)
        end = time.thread_time() + 0.03
        while time.thread_time() < end:
            pass
        met.wait()
        met.wait()

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for each in threads:
        each.start()
    met.wait()
    with open("/proc/self/maps") as maps:
        found = sum("[perf_event]" in line for line in maps)
    met.wait()
    for each in threads:
        each.join()
    return found


library.take(4096)
facts = {"threads": THREADS, "events": run_threads()}
reading, writing = os.pipe()
if os.fork() == 0:
    os.write(writing, str(run_threads()).encode())
    os._exit(0)
os.wait()
facts["events_of_child"] = int(os.read(reading, 100))
print(json.dumps(facts))
