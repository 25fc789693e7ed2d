"""``closed_events.py LIBRARY``: closes the descriptors that it does not know, then touches a library's mapping without
reserve for a while. Prints how many records the kernel has written in that time about page faults that were observed, and
how much CPU time this took."""

import ctypes
import json
import os
import sys
import time

MIB = 1 << 20
DATA_HEAD = 1024  # in the first page of an event: how many bytes the kernel has written
RECORD = 16
library = ctypes.CDLL(sys.argv[1])
library.touch.argtypes = [ctypes.c_size_t]


def touch_for(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        library.touch(16 * MIB)
        sum(range(300_000))


def records() -> int:
    with open("/proc/self/maps") as file:
        events = [int(line.split("-")[0], 16) for line in file if "[perf_event]" in line]
    return sum(ctypes.c_uint64.from_address(event + DATA_HEAD).value // RECORD for event in events)


touch_for(0.3)
os.closerange(3, 65536 + 4096)
touch_for(1)
before, start = records(), time.thread_time()
touch_for(1)
print(json.dumps({"records": records() - before, "cpu_s": time.thread_time() - start}))
