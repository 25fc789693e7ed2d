"""Fills the disk with ``full_disk.py FILE``, allocates while it is full, and writes back what is in memory."""

import os
import sys
import time

descriptor = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)


def fill():
    for size in (1 << 20, 1 << 16, 1 << 12):
        try:
            while True:
                os.write(descriptor, os.urandom(size))
        except OSError:
            pass
    os.sync()


fill()
until = time.monotonic() + 2
while time.monotonic() < until:
    kept = [bytearray(600) for _ in range(20_000)]
    fill()
os.unlink(sys.argv[1])
print("over")
