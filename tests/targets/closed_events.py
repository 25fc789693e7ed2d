"""``closed_events.py LIBRARY``: closes the descriptors that it does not know, in a process of two threads that touch a
library's mapping without reserve, one after the other. Prints for each of their events of page faults how many records the
kernel has written in the end, when both threads had time to open their events again."""

import ctypes
import json
import os
import sys
import threading
import time

MIB = 1 << 20
DATA_HEAD = 1024  # in the first page of an event: how many bytes the kernel has written
RECORD = 16
library = ctypes.CDLL(sys.argv[1])
library.touch.argtypes = [ctypes.c_size_t]
turns = threading.Barrier(2)


def touch_for(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        library.touch(4 * MIB)
        sum(range(300_000))


def records() -> list[int]:
    with open("/proc/self/maps") as file:
        events = [int(line.split("-")[0], 16) for line in file if "[perf_event]" in line]
    return [ctypes.c_uint64.from_address(event + DATA_HEAD).value // RECORD for event in events]


def other_thread() -> None:
    touch_for(0.05)
    turns.wait()
    turns.wait()
    touch_for(0.4)  # opens its events again first, so they get the numbers that the main thread's had
    turns.wait()
    turns.wait()


touch_for(0.05)
other = threading.Thread(target=other_thread)
other.start()
turns.wait()
os.closerange(3, 65536 + 4096)
turns.wait()
turns.wait()
touch_for(0.4)
print(json.dumps({"records": records()}))
turns.wait()
other.join()
