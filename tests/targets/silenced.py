"""Stops every perf event that it finds among its descriptors, then works for 0.6 s."""

import fcntl
import os
import time

PERF_EVENT_IOC_DISABLE = 0x2401

for entry in os.listdir("/proc/self/fd"):
    try:
        if os.readlink(f"/proc/self/fd/{entry}") == "anon_inode:[perf_event]":
            fcntl.ioctl(int(entry), PERF_EVENT_IOC_DISABLE)
    except OSError:
        continue

x, end = 0, time.process_time() + 0.6
while time.process_time() < end:
    x = (x * 31 + sum(len(str(number)) for number in range(200))) & 0xFFFF  # LINE: work
print("done")
