"""Maps a gibibyte without reserve, touches a part of it, gives most of that back, and unmaps it. Prints its resident set,
in bytes, at each of these moments."""

import json
import mmap
import time

NO_RESERVE = 0x4000
PAGE = 4096
MIB = 1 << 20


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE


def busy():
    """Long enough for a tick that counts, also on a crowded machine."""
    end = time.thread_time() + 0.3
    while time.thread_time() < end:
        pass
    return resident()


def touch(block, size):
    for i in range(0, size, PAGE):
        block[i] = 1  # mark touched


flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
block = mmap.mmap(-1, 1024 * MIB, flags=flags)  # mark mapped
block.madvise(15)  # MADV_NOHUGEPAGE
facts = {"mapped": busy()}
for _ in range(10):
    touch(block, 200 * MIB)
facts["touched"] = busy()
block.madvise(mmap.MADV_DONTNEED, 0, 150 * MIB)
facts["returned"] = busy()
block.close()
facts["unmapped"] = busy()
print(json.dumps(facts))
