"""``limited_memory.py LIBRARY``: limits locked memory to 64 KiB, and touches a library's mapping without reserve in eight
threads. Prints how many bytes the events of their page faults have mapped."""

import ctypes
import json
import resource
import sys
import threading
import time

library = ctypes.CDLL(sys.argv[1])
library.touch.argtypes = [ctypes.c_size_t]
all_began, done = threading.Barrier(9), threading.Event()


def touch_for(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        library.touch(1 << 20)
        sum(range(20_000))


def run() -> None:
    touch_for(0.1)
    all_began.wait()
    done.wait()


resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
library.touch(1 << 20)
threads = [threading.Thread(target=run) for _ in range(8)]
for thread in threads:
    thread.start()
all_began.wait()
with open("/proc/self/maps") as file:
    ranges = [line.split()[0].split("-") for line in file if "[perf_event]" in line]
print(json.dumps({"bytes": sum(int(end, 16) - int(start, 16) for start, end in ranges)}))
done.set()
for thread in threads:
    thread.join()
